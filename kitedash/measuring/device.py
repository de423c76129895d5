"""What this machine computes on: NVIDIA GPUs through NVML where there are any, else the processor."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import psutil

from kitedash.domain.errors import InvalidInput

GIB = 2**30
CPU: Literal["cpu"] = "cpu"  # the one device id that is no GPU


@dataclass(frozen=True)
class Device:
    """The devices of one slot. `ids` are GPU indices as text, or ("cpu",); `memory_gib` is that of all of them
    together; `cpu_cores` lists the cores this process may use as vLLM reads them, such as "0-1"."""

    kind: Literal["cpu", "gpu"]
    name: str
    ids: tuple[str, ...]
    driver: str
    memory_gib: float
    cpu_flags: frozenset[str]
    cpu_cores: str = ""


def detect(ids: Sequence[str]) -> Device:
    """The device that a slot with these ids stands for; no ids or "cpu" mean the processor.

    Raises InvalidInput (field `slots`) where an id is not one of this machine's GPUs.
    """
    wanted = tuple(ids) or (CPU,)
    flags, cores = _cpu_flags(), _core_list(os.sched_getaffinity(0))
    if wanted == (CPU,):
        memory_gib = psutil.virtual_memory().total / GIB
        return Device(CPU, _cpu_name(), wanted, "", memory_gib, flags, cores)
    with _nvml() as nvml:
        count = nvml.nvmlDeviceGetCount() if nvml else 0
        known = {str(index) for index in range(count)}
        if unknown := [name for name in wanted if name not in known]:
            there = f"GPUs 0 to {count - 1} and cpu" if count else "no GPU that NVML can see, so only cpu is allowed"
            raise InvalidInput("slots", f"{unknown[0]!r} is no device of this machine, which has {there}")
        handles = [nvml.nvmlDeviceGetHandleByIndex(int(index)) for index in wanted]
        names = [_text(nvml.nvmlDeviceGetName(handle)) for handle in handles]
        total = sum(int(nvml.nvmlDeviceGetMemoryInfo(handle).total) for handle in handles)
        driver = _text(nvml.nvmlSystemGetDriverVersion())
    name = names[0] if len(names) == 1 else f"{len(names)} x {' + '.join(dict.fromkeys(names))}"
    return Device("gpu", name, wanted, driver, total / GIB, flags, cores)


def gpu_count() -> int:
    """How many NVIDIA GPUs NVML sees; 0 without a driver or without its Python binding."""
    with _nvml() as nvml:
        return int(nvml.nvmlDeviceGetCount()) if nvml else 0


@dataclass(frozen=True)
class GpuUse:
    """What NVML says of one GPU now; None: it does not say."""

    share: float | None  # of the last sample period (up to a second) in which a kernel ran, 0 to 1
    memory_gib: float | None
    power_w: float | None


@contextmanager
def reading_gpus(ids: Sequence[str]) -> Iterator[Callable[[], list[GpuUse]]]:
    """A function that reads the GPUs with these ids; it finds none where there are no ids or no NVML."""
    with _nvml() if ids else nullcontext() as binding:
        nvml: Any = binding
        handles = [nvml.nvmlDeviceGetHandleByIndex(int(index)) for index in ids] if nvml else []

        def said(value: Callable[[Any], float], handle: Any) -> float | None:
            try:
                return value(handle)
            except nvml.NVMLError:  # some GPUs, and parts of one, have no such sensor
                return None

        yield lambda: [
            GpuUse(
                share=said(lambda one: float(nvml.nvmlDeviceGetUtilizationRates(one).gpu) / 100, handle),
                memory_gib=said(lambda one: float(nvml.nvmlDeviceGetMemoryInfo(one).used) / GIB, handle),
                power_w=said(lambda one: float(nvml.nvmlDeviceGetPowerUsage(one)) / 1_000, handle),
            )
            for handle in handles
        ]


def processes_on(device: Device) -> dict[str, list[int]]:
    """GPU id -> process ids that compute on it now, as NVML lists them; empty on a processor."""
    if device.kind == CPU:
        return {}
    with _nvml() as nvml:
        if not nvml:
            return {}
        found = {}
        for index in device.ids:
            running = nvml.nvmlDeviceGetComputeRunningProcesses(nvml.nvmlDeviceGetHandleByIndex(int(index)))
            found[index] = [int(process.pid) for process in running]
    return {index: pids for index, pids in found.items() if pids}


@contextmanager
def _nvml() -> Iterator[Any]:
    """The NVML binding, initialised; None where there is no binding, driver or GPU."""
    nvml = _initialised_nvml()
    try:
        yield nvml
    finally:
        if nvml:
            nvml.nvmlShutdown()


def _initialised_nvml() -> Any:
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value  # older bindings return bytes


def _cpu_info(key: str) -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return ""


def _cpu_name() -> str:
    return _cpu_info("model name") or platform.processor() or platform.machine()


def _cpu_flags() -> frozenset[str]:
    return frozenset((_cpu_info("flags") or _cpu_info("Features")).split())


def _core_list(cores: set[int]) -> str:
    """{0, 1, 2, 5} -> "0-2,5"."""
    spans: list[list[int]] = []
    for core in sorted(cores):
        if spans and core == spans[-1][1] + 1:
            spans[-1][1] = core
        else:
            spans.append([core, core])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)
