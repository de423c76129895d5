"""The content hash that identifies a model, whatever its folder is called and wherever it lies."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

# Everything that decides what a model answers, and nothing that doesn't (licences, cards, logs).
HASHED = (
    "*.safetensors",
    "*.safetensors.index.json",
    "config.json",
    "generation_config.json",
    "tokenizer*",
    "*.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template*",
    "quantize_config.json",
    "hf_quant_config.json",
)


def hashed_files(folder: Path) -> list[Path]:
    """The files whose content the hash covers, in the order of their names."""
    found = {path for pattern in HASHED for path in folder.glob(pattern) if path.is_file()}
    return sorted(found, key=lambda path: path.name)


def content_sha256(folder: Path, *, cache_dir: Path | None = None) -> str:
    """SHA-256 over the lines "SHA-256 of the file, two spaces, name, newline" of `hashed_files`, in hex.

    It is what `sha256sum FILES | sha256sum` gives. Reading 61 GB takes minutes, so the result is kept in
    `cache_dir` under the files' sizes, times and inodes; a file that changed in any of these is read again.
    """
    files = hashed_files(folder)
    key = _cache_key(files)
    cached = cache_dir / ".hashes" / f"{key}.json" if cache_dir is not None else None
    if cached is not None and (known := _read_cache(cached)) is not None:
        return known
    lines = "".join(f"{_file_sha256(path)}  {path.name}\n" for path in files)
    sha256 = hashlib.sha256(lines.encode()).hexdigest()
    # a file that was written to meanwhile has another key by now: what was read may be neither old nor new
    if cached is not None and _cache_key(files) == key:
        _write_cache(cached, sha256, folder)
    return sha256


def _file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _cache_key(files: Sequence[Path]) -> str:
    """ctime is in it since a rewritten file can be given its old mtime back, but not its old ctime."""
    facts = []
    for path in files:
        stat = path.stat()
        facts.append((str(path), stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino))
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _read_cache(cached: Path) -> str | None:
    try:
        sha256 = json.loads(cached.read_text(encoding="utf-8"))["sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return sha256 if isinstance(sha256, str) and len(sha256) == 64 else None


def _write_cache(cached: Path, sha256: str, folder: Path) -> None:
    """By rename, so that no reader sees half a line. A cache that can't be written costs time, nothing else."""
    draft = cached.with_suffix(f".{os.getpid()}.draft")
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps({"sha256": sha256, "folder": str(folder)}), encoding="utf-8")
        draft.replace(cached)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink()
