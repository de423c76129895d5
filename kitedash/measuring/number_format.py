"""Which number format a checkpoint really has, and whether the device computes in it or only stores it so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kitedash.measuring.device import Device
from kitedash.measuring.server_log import LogFacts

NATIVE_BFLOAT16 = {"avx512_bf16", "amx_bf16", "bf16", "asimdbf16"}
HALF = ("bfloat16", "float16")


def weight_dtype(model_dir: Path, log: LogFacts) -> str:
    """The format that the weights are held in: that of the checkpoint where it is quantised, else the engine's
    dtype; "" where neither is known."""
    quantization = _read_config(model_dir).get("quantization_config") or {}
    formats = {
        f"{'fp' if weights.get('type') == 'float' else 'int'}{weights.get('num_bits')}"
        for group in (quantization.get("config_groups") or {}).values()
        if (weights := group.get("weights"))
    }
    if formats:
        return "+".join(sorted(formats))
    method = str(quantization.get("quant_method") or "")
    if method not in ("", "compressed-tensors"):
        return method
    return log.quantization or log.dtype


def kernel_note(weights: str, log: LogFacts, device: Device) -> str:
    """One sentence where a number format runs without native kernels or where that can't be told; else ""."""
    quantised = weights not in ("", "float32", *HALF)
    kernels = " and ".join(log.linear_kernels)
    if quantised and (log.weight_only or any("Marlin" in name for name in log.linear_kernels)):
        return (
            f"the weights are stored in {weights} but computed with in a wider format ({kernels or 'weight-only'}): "
            "this device has no kernel for the format, so only memory is saved"
        )
    if any("Emulation" in name for name in log.linear_kernels):
        return f"{weights} is emulated on this device ({kernels}): its answers are right, its speed says nothing"
    if device.kind == "cpu" and any("Torch" in name for name in _not_zen(log.linear_kernels)):
        return (
            f"{weights} has no native kernel on this processor ({kernels}): its answers are real {weights} answers, "
            "its speed says nothing about a device that has one"
        )
    if quantised and not kernels and not log.moe_backends:
        return f"vLLM named no kernel for {weights}, so whether it runs natively is not known"
    if device.kind == "cpu" and weights == "bfloat16" and not (NATIVE_BFLOAT16 & device.cpu_flags):
        return "this processor has no bfloat16 instructions, so bfloat16 is slower here than float32"
    return ""


def _not_zen(kernels: tuple[str, ...]) -> list[str]:
    return [name for name in kernels if not name.startswith("Zentorch")]  # a native library in spite of its name


def _read_config(model_dir: Path) -> dict[str, Any]:
    try:
        config: dict[str, Any] = json.loads((model_dir / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return config
