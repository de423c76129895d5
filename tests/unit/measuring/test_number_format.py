from __future__ import annotations

import json
from pathlib import Path

import pytest

from kitedash.measuring.device import Device
from kitedash.measuring.number_format import kernel_note, weight_dtype
from kitedash.measuring.server_log import LogFacts

PROCESSOR = Device("cpu", "a processor", ("cpu",), "", 16.0, frozenset({"avx2"}))
NEW_PROCESSOR = Device("cpu", "a processor", ("cpu",), "", 16.0, frozenset({"avx2", "avx512_bf16"}))
GPU = Device("gpu", "a GPU", ("0",), "570.1", 80.0, frozenset())


def _checkpoint(folder: Path, quantization: object) -> Path:
    (folder / "config.json").write_text(json.dumps({"quantization_config": quantization}))
    return folder


def _compressed(num_bits: int, kind: str) -> dict[str, object]:
    groups = {"a": {"targets": ["Linear"], "weights": {"num_bits": num_bits, "type": kind}}}
    return {"quant_method": "compressed-tensors", "config_groups": groups}


@pytest.mark.parametrize(
    ("quantization", "expected"),
    [
        (None, "bfloat16"),
        (_compressed(8, "float"), "fp8"),
        (_compressed(8, "int"), "int8"),
        (_compressed(4, "int"), "int4"),
        ({"quant_method": "fp8"}, "fp8"),
    ],
)
def test_the_weights_format_is_the_checkpoints(tmp_path: Path, quantization: object, expected: str) -> None:
    assert weight_dtype(_checkpoint(tmp_path, quantization), LogFacts(dtype="bfloat16")) == expected


def test_without_a_config_the_engines_dtype_counts(tmp_path: Path) -> None:
    assert weight_dtype(tmp_path, LogFacts(dtype="float32")) == "float32"


def test_fp8_through_torch_on_a_processor_is_said_to_be_not_native() -> None:
    log = LogFacts(linear_kernels=("ChannelWiseTorchFP8ScaledMMLinearKernel",))
    assert "no native kernel on this processor" in kernel_note("fp8", log, PROCESSOR)
    assert kernel_note("fp8", log, GPU) == ""  # the same kernel calls the GPU's own fp8 units


@pytest.mark.parametrize("kernel", ["CPUInt8ScaledMMLinearKernel", "ZentorchInt8ScaledMMLinearKernel"])
def test_vllms_own_processor_kernels_are_native(kernel: str) -> None:
    assert kernel_note("int8", LogFacts(linear_kernels=(kernel,)), PROCESSOR) == ""


def test_marlin_computes_in_a_wider_format() -> None:
    log = LogFacts(linear_kernels=("MarlinFP8ScaledMMLinearKernel",))
    assert "stored in fp8 but computed with in a wider format" in kernel_note("fp8", log, GPU)
    assert "wider format" in kernel_note("fp8", LogFacts(weight_only=True), GPU)


def test_a_format_without_a_named_kernel_is_not_taken_for_native() -> None:
    assert "not known" in kernel_note("int8", LogFacts(), GPU)


def test_bfloat16_depends_on_the_processors_instructions() -> None:
    assert "slower" in kernel_note("bfloat16", LogFacts(), PROCESSOR)
    assert kernel_note("bfloat16", LogFacts(), NEW_PROCESSOR) == ""
    assert kernel_note("float32", LogFacts(), PROCESSOR) == ""
