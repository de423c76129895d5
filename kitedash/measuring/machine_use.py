"""What the machine and the engine use at a moment: GPUs through NVML where the slot has any, else the processor.

Cheap enough for once a second beside what is measured: a few files of /proc, a few calls of the driver.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psutil

from kitedash.measuring.device import CPU, GIB, GpuUse, reading_gpus

_NOT_BUSY = ("idle", "iowait")
_COUNTED_TWICE = ("guest", "guest_nice")  # inside user and nice


@dataclass(frozen=True)
class MachineUse:
    """None: not known. The shares and cores are means since the reading before."""

    machine_cpu_share: float | None = None  # of all cores, by any process
    engine_cpu_cores: float | None = None  # of the engine's processes; 1 is one core kept busy
    engine_rss_gib: float | None = None  # their sum: what they share is counted once for each
    gpus: tuple[GpuUse, ...] = ()  # of the slot, in its order


class UseMeter:
    """Reads what changed since the reading before. `engine_pid` is the root of the engine's processes, which are
    listed once: an engine that is ready starts no more of them."""

    def __init__(self, engine_pid: int | None, gpus: Any) -> None:
        self._gpus = gpus
        self._processes = _tree(engine_pid)
        self._machine = _machine_cpu_s()
        self._engine = _engine_cpu_s(self._processes)
        self._read_at = time.perf_counter()

    def read(self) -> MachineUse:
        now, machine, engine = time.perf_counter(), _machine_cpu_s(), _engine_cpu_s(self._processes)
        busy, total = (after - before for after, before in zip(machine, self._machine, strict=True))
        cores = (engine - self._engine) / (now - self._read_at) if now > self._read_at else None
        self._read_at, self._machine, self._engine = now, machine, engine
        return MachineUse(
            machine_cpu_share=min(1.0, max(0.0, busy / total)) if total > 0 else None,
            engine_cpu_cores=cores if self._processes else None,
            engine_rss_gib=_rss_gib(self._processes) if self._processes else None,
            gpus=tuple(self._gpus()),
        )


@contextmanager
def metering(engine_pid: int | None, device_ids: Sequence[str]) -> Iterator[UseMeter]:
    """A meter for the engine with that process id and the devices of its slot."""
    with reading_gpus([name for name in device_ids if name != CPU]) as gpus:
        yield UseMeter(engine_pid, gpus)


def _tree(pid: int | None) -> list[psutil.Process]:
    if pid is None:
        return []
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.Error:
        return []


def _machine_cpu_s() -> tuple[float, float]:
    """(busy, all) seconds of all cores since the machine started."""
    times = psutil.cpu_times()._asdict()
    total = sum(value for name, value in times.items() if name not in _COUNTED_TWICE)
    return total - sum(times.get(name, 0.0) for name in _NOT_BUSY), total


def _engine_cpu_s(processes: Sequence[psutil.Process]) -> float:
    total = 0.0
    for process in processes:
        with suppress(psutil.Error):  # it has ended
            times = process.cpu_times()
            total += times.user + times.system
    return total


def _rss_gib(processes: Sequence[psutil.Process]) -> float:
    total = 0
    for process in processes:
        with suppress(psutil.Error):
            total += process.memory_info().rss
    return total / GIB
