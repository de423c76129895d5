"""Makes the 8-bit checkpoint of a model, once: round-to-nearest, one scale per output channel, compressed-tensors.

No calibration data is used: the weights alone decide the scales, and activations are scaled per token at run time.
vLLM loads the result on GPUs and on its CPU build alike, unlike its own `--quantization fp8`.

`python -m kitedash.measuring.quantize MODEL_DIR SCHEME OUT_DIR` is what a worker starts under its guard, so that the
memory goes back with the process.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Literal, get_args

import psutil

from kitedash.domain.errors import InvalidInput, KiteDashError, Refused
from kitedash.measuring.atomic_folder import GIB, build_folder
from kitedash.measuring.content_hash import content_sha256
from kitedash.measuring.model_store import ResolvedModel

Scheme = Literal["fp8", "int8"]
PRESETS: dict[str, str] = {"fp8": "FP8_DYNAMIC", "int8": "W8A8"}  # compressed-tensors' names
RECIPE_VERSION = 1  # part of the key: raise it with any change to what comes out

# Below this share a checkpoint would be 8-bit in name only, as for experts that are not linear layers.
LEAST_QUANTISED_SHARE = 0.9


def checkpoint_dir(model: ResolvedModel, scheme: Scheme, checkpoints_dir: Path) -> Path:
    """Where the checkpoint lies, or will lie: named by content, scheme and recipe, so that none is ever stale."""
    if scheme not in PRESETS:
        raise InvalidInput("quantization", f"must be one of {', '.join(get_args(Scheme))}, not {scheme!r}")
    return checkpoints_dir / f"{model.sha256[:32]}-{scheme}-r{RECIPE_VERSION}"


def ensure_checkpoint(model: ResolvedModel, scheme: Scheme, checkpoints_dir: Path) -> ResolvedModel:
    """The model in the number format `scheme`, made if it is not there yet (blocks, for seconds to minutes).

    It is served under the model's own name: the candidates of an experiment differ in format, not in name.
    Raises Refused where the recipe doesn't fit the model, KiteDashError where memory or disk don't suffice.
    """
    folder = quantize(model.path, scheme, checkpoint_dir(model, scheme, checkpoints_dir))
    sha256 = content_sha256(folder, cache_dir=checkpoints_dir)
    return ResolvedModel(name=f"{model.name} ({scheme})", path=folder, sha256=sha256, served_name=model.served_name)


def quantize(model_dir: Path, scheme: Scheme, out_dir: Path) -> Path:
    """Writes the checkpoint of the model in `model_dir` to `out_dir`, whole or not at all."""
    if "quantization_config" in json.loads((model_dir / "config.json").read_text(encoding="utf-8")):
        raise Refused(f"{model_dir.name} is quantised already: ask for quantization none")
    weights_bytes = sum(path.stat().st_size for path in model_dir.glob("*.safetensors"))

    def build(folder: Path) -> None:
        available = psutil.virtual_memory().available
        if available < weights_bytes * 2:
            raise KiteDashError(
                f"quantising {model_dir.name} to {scheme} needs about {weights_bytes * 2 / GIB:.0f} GiB of memory, "
                f"but {available / GIB:.0f} GiB are free: do it on a larger machine, or name a checkpoint made there"
            )
        _quantize(model_dir, PRESETS[scheme], folder)

    return build_folder(out_dir, build, needs_bytes=weights_bytes, what=f"the {scheme} checkpoint of {model_dir.name}")


def _quantize(model_dir: Path, preset: str, folder: Path) -> None:
    import torch
    from compressed_tensors.compressors import ModelCompressor
    from compressed_tensors.quantization import (
        QuantizationConfig,
        QuantizationStatus,
        apply_quantization_config,
        preset_name_to_scheme,
    )
    from compressed_tensors.quantization.utils import is_module_quantized
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with torch.no_grad():
        model = AutoModelForCausalLM.from_pretrained(model_dir, dtype="auto")
        # the output layer stays as it is: it is small, tied to the embedding in small models, and costs most quality
        config = QuantizationConfig(
            config_groups={"8-bit": preset_name_to_scheme(preset, ["Linear"])},
            ignore=["lm_head"],
            quantization_status=QuantizationStatus.INITIALIZED,
        )
        apply_quantization_config(model, config)
        layers = [module for module in model.modules() if is_module_quantized(module)]
        _check_share(model, layers, model_dir.name)
        for layer in layers:
            _set_scale(layer)
            layer.quantization_status = QuantizationStatus.FROZEN
        compressor = ModelCompressor.from_pretrained_model(model)
        compressor.compress_model(model)
        model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(model_dir).save_pretrained(folder)
    compressor.update_config(str(folder))


def _set_scale(layer: Any) -> None:
    """The largest magnitude of each output channel becomes the end of the 8-bit range, all in float32.

    In bfloat16, quotients around 100 are rounded to halves before they are rounded to integers: one weight in thirteen
    of the default model then misses its nearest step, and the squared error of int8 is a tenth larger.
    """
    from compressed_tensors.quantization.utils import calculate_qparams

    layer.weight.data = weight = layer.weight.data.float()  # (out, in)
    low, high = weight.amin(-1, keepdim=True), weight.amax(-1, keepdim=True)
    layer.weight_scale.data, zero_point = calculate_qparams(low, high, layer.quantization_scheme.weights)
    if hasattr(layer, "weight_zero_point"):
        layer.weight_zero_point.data.copy_(zero_point)


def _check_share(model: Any, layers: list[Any], name: str) -> None:
    """Refuses a model whose weights are mostly not in linear layers: embeddings and output layer don't count."""
    ends = {id(p) for m in (model.get_input_embeddings(), model.get_output_embeddings()) if m for p in m.parameters()}
    scales = {id(p) for layer in layers for key, p in layer.named_parameters(recurse=False) if key != "weight"}
    total = sum(p.numel() for p in model.parameters() if id(p) not in ends | scales)
    quantised = sum(layer.weight.numel() for layer in layers)
    if quantised < LEAST_QUANTISED_SHARE * total:
        raise Refused(
            f"only {quantised / total:.0%} of the weights of {name} lie in linear layers, so this recipe would make it "
            "8-bit in name only (experts of a mixture are such a case): name a checkpoint made by its publisher"
        )


def main(arguments: list[str]) -> int:
    """Exit status 0 with the folder on standard output, or 1 with one sentence on standard error."""
    if len(arguments) != 3 or arguments[1] not in PRESETS:
        print(f"usage: python -m {__spec__.name} MODEL_DIR {'|'.join(PRESETS)} OUT_DIR", file=sys.stderr)
        return 2
    model_dir, scheme, out_dir = arguments
    try:
        print(quantize(Path(model_dir), "fp8" if scheme == "fp8" else "int8", Path(out_dir)))
    except KiteDashError as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
