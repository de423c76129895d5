"""What this device can't do, said before launch in vLLM's own words.

The rules are read from vLLM 0.32.0; each names its file. A rule is here only where vLLM would fail at start, crash
while serving, or quietly do something else than the candidate says: a candidate must never be another one's twin
under a second name. What depends on the model is left to vLLM itself (`vllm_check.py`).
"""

from __future__ import annotations

from collections.abc import Callable

from kitedash.domain.command import CPU
from kitedash.domain.engine_args import PARALLEL, VLLM_QUANTIZATION
from kitedash.domain.experiment import Candidate
from kitedash.measuring.device import GIB, Device

Capability = tuple[int, int]
Rule = Callable[[Candidate, Device, "Capability | None"], str | None]

# torch.cpu._is_avx512_supported() asks for these four
AVX512 = frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl"})
AMX = "amx_tile"

CPU_KV_CACHE_DTYPES = ("auto", "fp8", "fp8_e4m3", "fp8_e5m2")
KV_CACHE_DTYPES_OF_BACKEND = {
    "FLASH_ATTN": ("auto", "float16", "bfloat16", "fp8", "fp8_e4m3"),
    "FLASHINFER": ("auto", "float16", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2", "nvfp4"),
    "TRITON_ATTN": (
        *("auto", "float16", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2"),
        *("int4_per_token_head", "int8_per_token_head", "fp8_per_token_head"),
    ),
    "FLEX_ATTENTION": ("auto", "float16", "bfloat16"),
}


def refusal(candidate: Candidate, device: Device, *, capability: Capability | None = None) -> str | None:
    """Why this device can't serve the candidate, as one sentence without its full stop; None where nothing is known
    against it. `capability` is the GPU's compute capability; by default NVML is asked."""
    if device.kind != CPU and capability is None:
        capability = compute_capability(device)
    rules = (_devices, *(_CPU_RULES if device.kind == CPU else _GPU_RULES))
    return next((reason for rule in rules if (reason := rule(candidate, device, capability))), None)


def compute_capability(device: Device) -> Capability | None:
    """The lowest of the device's GPUs as NVML has it; None where NVML can't tell."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        try:
            found = [
                pynvml.nvmlDeviceGetCudaComputeCapability(pynvml.nvmlDeviceGetHandleByIndex(int(index)))
                for index in device.ids
            ]
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        return None
    return min(((int(major), int(minor)) for major, minor in found), default=None)


def _devices(candidate: Candidate, device: Device, _: Capability | None) -> str | None:
    if candidate.devices == len(device.ids):
        return None
    if candidate.devices > len(device.ids):
        sizes = ", ".join(f"{name} {candidate.engine_args[name]}" for name in PARALLEL if name in candidate.engine_args)
        return f"it asks for {candidate.devices} devices ({sizes}), this slot has {len(device.ids)} ({device.name})"
    return None


def _cpu_kv_cache(candidate: Candidate, device: Device, _: Capability | None) -> str | None:
    """vllm/v1/attention/backends/cpu_attn.py: supported_kv_cache_dtypes and _get_attn_isa."""
    dtype = candidate.engine_args.get("kv-cache-dtype", "auto")
    if dtype not in CPU_KV_CACHE_DTYPES:
        return f"kv-cache-dtype {dtype}: vLLM's CPU attention supports {', '.join(CPU_KV_CACHE_DTYPES)}"
    if dtype != "auto" and not device.cpu_flags >= AVX512 and AMX not in device.cpu_flags:
        return f"kv-cache-dtype {dtype}: FP8 KV cache on CPU requires x86 with AVX-512 or AMX"
    return None


def _cpu_quantize_on_load(candidate: Candidate, device: Device, _: Capability | None) -> str | None:
    """vllm/_custom_ops.py calls torch.ops._C.dynamic_scaled_fp8_quant: the CPU build declares it without a kernel."""
    if VLLM_QUANTIZATION in candidate.engine_args:
        return (
            f"{VLLM_QUANTIZATION} {candidate.engine_args[VLLM_QUANTIZATION]}: vLLM's CPU build has no scaled_fp8_quant "
            "kernel to quantise while loading; quantization: fp8 makes a checkpoint that it can load"
        )
    return None


def _cpu_block_size(candidate: Candidate, device: Device, _: Capability | None) -> str | None:
    """vllm/v1/worker/utils.py, select_common_block_size; cpu_attn.py, get_supported_kernel_block_sizes."""
    size = candidate.engine_args.get("block-size")
    if isinstance(size, int) and size % 32:
        return f"block-size {size}: no common block size for {size} (CPU_ATTN: multiples of 32)"
    return None


def _cpu_attention(candidate: Candidate, device: Device, _: Capability | None) -> str | None:
    """vllm/platforms/cpu.py, get_attn_backend_cls: another choice is logged and replaced."""
    backend = candidate.engine_args.get("attention-backend", "CPU_ATTN")
    if backend != "CPU_ATTN":
        return f"attention-backend {backend}: cannot use {backend} backend on CPU, vLLM would take CPU_ATTN"
    return None


def _cpu_ignored(candidate: Candidate, device: Device, _: Capability | None) -> str | None:
    """vllm/platforms/cpu.py, check_and_update_config: async scheduling is set to off, capture sizes to none."""
    if candidate.engine_args.get("async-scheduling") is True:
        return "async-scheduling: vLLM switches it off on a CPU"
    if "max-cudagraph-capture-size" in candidate.engine_args:
        return "max-cudagraph-capture-size: there are no CUDA graphs on a CPU"
    return None


def _cpu_memory(candidate: Candidate, device: Device, _: Capability | None) -> str | None:
    """vllm/v1/worker/cpu_worker.py: the KV cache asked for must be there."""
    wanted_bytes = candidate.engine_args.get("kv-cache-memory-bytes")
    if isinstance(wanted_bytes, int):
        name, wanted_gib = "kv-cache-memory-bytes", wanted_bytes / GIB
    else:
        name, wanted_gib = "VLLM_CPU_KVCACHE_SPACE", float(candidate.environment.get("VLLM_CPU_KVCACHE_SPACE", 0))
    if wanted_gib > device.memory_gib:
        there = f"{device.memory_gib:.1f} GiB"
        return f"{name}: the KV cache asked for ({wanted_gib:.1f} GiB) is more than the memory ({there})"
    return None


def _gpu_bfloat16(candidate: Candidate, device: Device, capability: Capability | None) -> str | None:
    """vllm/platforms/cuda.py, check_if_supports_dtype."""
    if candidate.engine_args.get("dtype") == "bfloat16" and capability and capability < (8, 0):
        return (
            "dtype bfloat16: bfloat16 is only supported on GPUs with compute capability of at least 8.0, "
            f"{device.name} has {capability[0]}.{capability[1]}; float16 is what it can do"
        )
    return None


def _gpu_float32(candidate: Candidate, device: Device, _: Capability | None) -> str | None:
    """vllm/_custom_ops.py, cutlass_scaled_mm asserts it of its output; the CPU's kernels have no such limit."""
    if candidate.quantization != "none" and candidate.engine_args.get("dtype") == "float32":
        return f"dtype float32: {candidate.quantization} weights are multiplied in bfloat16 or float16 only on a GPU"
    return None


def _gpu_int8(candidate: Candidate, device: Device, capability: Capability | None) -> str | None:
    """vLLM's csrc/.../w8a8/cutlass/c3x/scaled_mm_helper.hpp: the first forward pass would fail."""
    if candidate.quantization == "int8" and capability and capability >= (10, 0):
        version = f"SM{capability[0]}{capability[1]}"
        return f"quantization int8: int8 is not supported on {version}; fp8 is, or an older GPU (below SM100)"
    return None


def _gpu_attention(candidate: Candidate, device: Device, capability: Capability | None) -> str | None:
    """supports_compute_capability and supported_kv_cache_dtypes in vllm/v1/attention/backends/*.py."""
    backend = candidate.engine_args.get("attention-backend")
    if backend == "CPU_ATTN":
        return "attention-backend CPU_ATTN: it computes on CPUs only"
    if backend in ("FLASH_ATTN", "FLASHINFER") and capability and capability < (8, 0):
        return f"attention-backend {backend}: compute capability not supported ({capability[0]}.{capability[1]})"
    dtype = candidate.engine_args.get("kv-cache-dtype", "auto")
    supported = KV_CACHE_DTYPES_OF_BACKEND.get(str(backend))
    if supported and dtype not in supported:
        return f"kv-cache-dtype {dtype}: {backend} supports {', '.join(supported)}"
    return None


def _gpu_block_size(candidate: Candidate, device: Device, _: Capability | None) -> str | None:
    """get_supported_kernel_block_sizes of the attention backends: all ask for multiples of 16."""
    size = candidate.engine_args.get("block-size")
    if isinstance(size, int) and size % 16:
        return f"block-size {size}: no common block size for {size} (multiples of 16)"
    return None


def _gpu_memory(candidate: Candidate, device: Device, _: Capability | None) -> str | None:
    wanted = candidate.engine_args.get("kv-cache-memory-bytes")
    each_gib = device.memory_gib / max(1, len(device.ids))
    if isinstance(wanted, int) and wanted / GIB > each_gib:
        return (
            f"kv-cache-memory-bytes: the KV cache asked for ({wanted / GIB:.1f} GiB) is more than a device's memory "
            f"({each_gib:.1f} GiB)"
        )
    return None


_CPU_RULES: tuple[Rule, ...] = (
    _cpu_kv_cache,
    _cpu_quantize_on_load,
    _cpu_block_size,
    _cpu_attention,
    _cpu_ignored,
    _cpu_memory,
)
_GPU_RULES: tuple[Rule, ...] = (_gpu_bfloat16, _gpu_float32, _gpu_int8, _gpu_attention, _gpu_block_size, _gpu_memory)
