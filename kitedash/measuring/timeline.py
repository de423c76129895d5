"""The server second by second during a block, on the clock of the block's requests: one Parquet blob (zstd).

The load client's moments and these are both of CLOCK_MONOTONIC (time.perf_counter on Linux), which all processes of a
machine share; the client tells when its block began.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from kitedash.measuring.machine_use import MachineUse, UseMeter
from kitedash.measuring.request_table import Column
from kitedash.measuring.server_metrics import GAUGES, parse_sampled

FORMAT = b"1"
INTERVAL_S = 1.0
_GPUS = pa.list_(pa.float32())

COLUMNS: tuple[Column, ...] = (
    Column("t_s", pa.float64(), "s from the start of the block, middle of the reading; below 0: before it"),
    Column("running", pa.float64(), "requests that the engine had under way; null: not said"),
    Column("waiting", pa.float64(), "requests in its queue; null: not said"),
    Column("kv_cache_share", pa.float64(), "share of its KV cache in use, 0 to 1; null: not said"),
    Column("preemptions", pa.float64(), "requests put back into the queue since before the block; null: not said"),
    Column("prefix_cache_queries", pa.float64(), "prompt tokens looked up since before the block; null: not said"),
    Column("prefix_cache_hits", pa.float64(), "of those, found in the prefix cache; null: not said"),
    Column("prompt_tokens", pa.float64(), "prompt tokens since before the block; null: not said"),
    Column("generation_tokens", pa.float64(), "output tokens since before the block; null: not said"),
    Column("machine_cpu_share", pa.float64(), "busy share of all cores since the row before, by any process"),
    Column("engine_cpu_cores", pa.float64(), "cores that the engine's processes kept busy; null: not its machine"),
    Column("engine_rss_gib", pa.float64(), "resident memory of the engine's processes, what they share for each, GiB"),
    Column("gpu_use", _GPUS, "busy share of each GPU of the slot in the last second, NVML; null: none, or not said"),
    Column("gpu_memory_gib", _GPUS, "memory in use on each GPU of the slot, GiB, NVML"),
    Column("gpu_power_w", _GPUS, "power of each GPU of the slot, W, NVML"),
)
NAMES = tuple(column.name for column in COLUMNS)
_COUNTERS = ("preemptions", "prefix_cache_queries", "prefix_cache_hits", "prompt_tokens", "generation_tokens")
_SCHEMA = pa.schema(
    [pa.field(column.name, column.type, metadata={"meaning": column.meaning}) for column in COLUMNS],
    metadata={"kitedash.timeline": FORMAT},
)


@dataclass(frozen=True)
class Sample:
    """`moment` is of time.perf_counter; counters are as the engine counts, since it started."""

    moment: float
    values: Mapping[str, float]
    use: MachineUse


@dataclass
class Recorder:
    """Keeps one reading a second of those that the polling makes; `take` is its `watch`."""

    meter: UseMeter
    samples: list[Sample] = field(default_factory=list)
    _next: float = 0.0

    async def take(self, text: str, moment: float) -> None:
        if moment < self._next:
            return
        # On a grid, so that the seconds do not drift by the length of a poll; a new one after a silence.
        self._next = (self._next if moment - self._next < INTERVAL_S else moment) + INTERVAL_S
        self.samples.append(Sample(moment, parse_sampled(text), await asyncio.to_thread(self.meter.read)))


def encode(samples: Sequence[Sample], *, started: float, before: Mapping[str, float]) -> bytes:
    """`started` is the block's start on the clock of the samples, `before` the engine's counters before the block."""
    rows = [_row(sample, started, before) for sample in samples]
    columns = {name: [row[name] for row in rows] for name in NAMES}
    sink = io.BytesIO()
    pq.write_table(pa.table(columns, schema=_SCHEMA), sink, compression="zstd")
    return sink.getvalue()


def decode(blob: bytes) -> pd.DataFrame:
    """The columns of COLUMNS; null numbers are NaN. Raises ValueError on a blob of another format."""
    frame: pd.DataFrame = decode_table(blob).to_pandas()
    return frame


def decode_table(blob: bytes) -> pa.Table:
    """The columns of COLUMNS with their types. Raises ValueError as `decode` does."""
    table = pq.read_table(io.BytesIO(blob))
    if (table.schema.metadata or {}).get(b"kitedash.timeline") != FORMAT:
        raise ValueError("not a block's timeline in a format that this version reads")
    return table.select(NAMES)


def _row(sample: Sample, started: float, before: Mapping[str, float]) -> dict[str, Any]:
    row: dict[str, Any] = {"t_s": sample.moment - started}
    row |= {name: sample.values.get(name) for name in GAUGES}
    for name in _COUNTERS:
        value = sample.values.get(name)
        row[name] = None if value is None else value - before.get(name, 0.0)
    use = sample.use
    return row | {
        "machine_cpu_share": use.machine_cpu_share,
        "engine_cpu_cores": use.engine_cpu_cores,
        "engine_rss_gib": use.engine_rss_gib,
        "gpu_use": [gpu.share for gpu in use.gpus] or None,
        "gpu_memory_gib": [gpu.memory_gib for gpu in use.gpus] or None,
        "gpu_power_w": [gpu.power_w for gpu in use.gpus] or None,
    }
