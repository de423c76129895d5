"""What a device can't do is refused before launch, in vLLM's words."""

from __future__ import annotations

from typing import Any

import pytest

from kitedash.domain.experiment import Candidate
from kitedash.measuring.device import Device
from kitedash.measuring.engine_support import refusal

AVX2 = Device("cpu", "old", ("cpu",), "", 16.0, frozenset({"avx2"}))
AVX512 = Device("cpu", "new", ("cpu",), "", 16.0, frozenset({"avx2", "avx512f", "avx512bw", "avx512dq", "avx512vl"}))
AMX = Device("cpu", "amx", ("cpu",), "", 16.0, frozenset({"avx2", "amx_tile"}))
TURING, AMPERE, HOPPER, BLACKWELL = (7, 5), (8, 0), (9, 0), (12, 0)


def gpus(count: int = 1) -> Device:
    return Device("gpu", "NVIDIA X", tuple(str(index) for index in range(count)), "1", 80.0 * count, frozenset())


def candidate(args: dict[str, Any] | None = None, **others: Any) -> Candidate:
    return Candidate.model_validate({"name": "a", "model": "m", "engine_args": args or {}, **others})


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ({"kv-cache-dtype": "fp8"}, "kv-cache-dtype fp8: FP8 KV cache on CPU requires x86 with AVX-512 or AMX"),
        (
            {"kv-cache-dtype": "nvfp4"},
            "kv-cache-dtype nvfp4: vLLM's CPU attention supports auto, fp8, fp8_e4m3, fp8_e5m2",
        ),
        ({"vllm-quantization": "fp8_per_channel"}, "vLLM's CPU build has no scaled_fp8_quant kernel"),
        ({"block-size": 16}, "block-size 16: no common block size for 16 (CPU_ATTN: multiples of 32)"),
        ({"attention-backend": "FLASHINFER"}, "attention-backend FLASHINFER: cannot use FLASHINFER backend on CPU"),
        ({"async-scheduling": True}, "async-scheduling: vLLM switches it off on a CPU"),
        ({"max-cudagraph-capture-size": 8}, "max-cudagraph-capture-size: there are no CUDA graphs on a CPU"),
        (
            {"kv-cache-memory-bytes": 17 * 2**30},
            "kv-cache-memory-bytes: the KV cache asked for (17.0 GiB) is more than the memory (16.0 GiB)",
        ),
    ],
)
def test_an_old_processor_refuses(args: dict[str, Any], sentence: str) -> None:
    said = refusal(candidate(args), AVX2)
    assert said is not None
    assert sentence in said
    assert not said.endswith(".")


@pytest.mark.parametrize("device", [AVX512, AMX])
def test_a_newer_processor_has_an_fp8_cache(device: Device) -> None:
    assert refusal(candidate({"kv-cache-dtype": "fp8"}), device) is None


@pytest.mark.parametrize("missing", ["avx512f", "avx512bw", "avx512dq", "avx512vl"])
def test_avx512_is_there_as_a_whole_or_not(missing: str) -> None:
    half = Device("cpu", "half", ("cpu",), "", 16.0, AVX512.cpu_flags - {missing})
    assert refusal(candidate({"kv-cache-dtype": "fp8"}), half) is not None


@pytest.mark.parametrize(
    "found",
    [
        candidate(),
        candidate({"block-size": 64, "attention-backend": "CPU_ATTN", "async-scheduling": False, "dtype": "bfloat16"}),
        candidate(quantization="fp8"),
        candidate({"dtype": "float32"}, quantization="int8"),
        candidate({"spec-method": "ngram", "spec-tokens": 3}),
        candidate(environment={"VLLM_CPU_KVCACHE_SPACE": "16"}),
    ],
)
def test_what_a_processor_can_do(found: Candidate) -> None:
    assert refusal(found, AVX2) is None


def test_the_variable_for_the_cache_counts_too() -> None:
    said = refusal(candidate(environment={"VLLM_CPU_KVCACHE_SPACE": "17"}), AVX2)
    assert said == "VLLM_CPU_KVCACHE_SPACE: the KV cache asked for (17.0 GiB) is more than the memory (16.0 GiB)"


def test_devices_that_are_not_there() -> None:
    two = candidate({"tensor-parallel-size": 2}, devices=2)
    assert refusal(two, AVX2) == "it asks for 2 devices (tensor-parallel-size 2), this slot has 1 (old)"
    assert refusal(two, gpus(1), capability=HOPPER) is not None
    assert refusal(two, gpus(2), capability=HOPPER) is None


@pytest.mark.parametrize(
    ("found", "capability", "sentence"),
    [
        (
            candidate({"dtype": "bfloat16"}),
            TURING,
            "bfloat16 is only supported on GPUs with compute capability of at least 8.0, NVIDIA X has 7.5",
        ),
        (candidate({"dtype": "bfloat16"}), AMPERE, None),
        (candidate({"dtype": "float16"}), TURING, None),
        (candidate(quantization="int8"), BLACKWELL, "int8 is not supported on SM120"),
        (candidate(quantization="int8"), HOPPER, None),
        (candidate(quantization="fp8"), AMPERE, None),  # weights only, by Marlin
        (
            candidate({"dtype": "float32"}, quantization="fp8"),
            HOPPER,
            "dtype float32: fp8 weights are multiplied in bfloat16 or float16 only on a GPU",
        ),
        (candidate({"dtype": "float32"}), HOPPER, None),
        (candidate({"attention-backend": "CPU_ATTN"}), HOPPER, "it computes on CPUs only"),
        (candidate({"attention-backend": "FLASH_ATTN"}), TURING, "compute capability not supported (7.5)"),
        (candidate({"attention-backend": "TRITON_ATTN"}), TURING, None),
        (
            candidate({"attention-backend": "FLASH_ATTN", "kv-cache-dtype": "nvfp4"}),
            HOPPER,
            "kv-cache-dtype nvfp4: FLASH_ATTN supports auto, float16, bfloat16, fp8, fp8_e4m3",
        ),
        (candidate({"kv-cache-dtype": "fp8"}), HOPPER, None),
        (candidate({"block-size": 24}), HOPPER, "no common block size for 24 (multiples of 16)"),
        (candidate({"block-size": 16}), HOPPER, None),
        (
            candidate({"kv-cache-memory-bytes": 81 * 2**30}),
            HOPPER,
            "(81.0 GiB) is more than a device's memory (80.0 GiB)",
        ),
        (candidate({"vllm-quantization": "fp8_per_channel", "async-scheduling": True}), HOPPER, None),
    ],
)
def test_gpus(found: Candidate, capability: tuple[int, int], sentence: str | None) -> None:
    said = refusal(found, gpus(), capability=capability)
    assert said is None if sentence is None else said is not None and sentence in said
