"""The server second by second: aligned with the block's clock, as the engine and the drivers said it."""

from __future__ import annotations

import subprocess
import sys
import time
import types
from collections.abc import Iterator

import numpy as np
import pandas as pd
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kitedash.measuring import timeline
from kitedash.measuring.device import GpuUse, reading_gpus
from kitedash.measuring.machine_use import MachineUse, UseMeter, metering
from kitedash.measuring.server_metrics import parse, parse_sampled

TEXT = """# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0"} 3.0
vllm:num_requests_running{engine="1"} 2.0
vllm:num_requests_waiting{engine="0"} 7.0
vllm:kv_cache_usage_perc{engine="0"} 0.25
vllm:num_preemptions_total{engine="0"} 12.0
vllm:num_preemptions_created{engine="0"} 1.7e+09
vllm:prefix_cache_queries_total{engine="0"} 4000.0
vllm:prefix_cache_hits_total{engine="0"} 3000.0
vllm:prompt_tokens_total{engine="0"} 5000.0
vllm:prompt_tokens_by_source_total{engine="0",source="x"} 9.0
vllm:generation_tokens_total{engine="0"} 800.0
"""


class Meter:
    """Says how often it was read."""

    def __init__(self) -> None:
        self.reads = 0

    def read(self) -> MachineUse:
        self.reads += 1
        return MachineUse(0.5, 1.5, 2.0, (GpuUse(0.9, 70.0, 500.0), GpuUse(None, 71.0, None)))


async def recorded(*moments: float) -> timeline.Recorder:
    recorder = timeline.Recorder(Meter())  # type: ignore[arg-type]
    for moment in moments:
        await recorder.take(TEXT, moment)
    return recorder


def test_the_quick_scan_agrees_with_the_full_parser() -> None:
    full = parse(TEXT).values
    assert parse_sampled(TEXT) == {name: value for name, value in full.items() if name in parse_sampled(TEXT)}
    assert parse_sampled(TEXT) == {
        "running": 5.0,
        "waiting": 7.0,
        "kv_cache_share": 0.25,
        "preemptions": 12.0,
        "prefix_cache_queries": 4_000.0,
        "prefix_cache_hits": 3_000.0,
        "prompt_tokens": 5_000.0,
        "generation_tokens": 800.0,
    }


async def test_a_row_is_on_the_blocks_clock_and_counts_from_before_the_block() -> None:
    recorder = await recorded(1_000.0)
    before = {"preemptions": 10.0, "prefix_cache_queries": 3_900.0, "prompt_tokens": 5_000.0}
    frame = timeline.decode(timeline.encode(recorder.samples, started=1_002.5, before=before))
    (row,) = frame.to_dict("records")
    assert row["t_s"] == -2.5
    assert (row["running"], row["waiting"], row["kv_cache_share"]) == (5.0, 7.0, 0.25)
    assert (row["preemptions"], row["prefix_cache_queries"], row["prefix_cache_hits"]) == (2.0, 100.0, 3_000.0)
    assert (row["prompt_tokens"], row["generation_tokens"]) == (0.0, 800.0)
    assert (row["machine_cpu_share"], row["engine_cpu_cores"], row["engine_rss_gib"]) == (0.5, 1.5, 2.0)
    assert list(row["gpu_memory_gib"]) == [70.0, 71.0]
    assert row["gpu_use"][0] == pytest.approx(0.9)
    assert np.isnan(row["gpu_use"][1])


async def test_polls_four_times_a_second_become_one_row_a_second_that_does_not_drift() -> None:
    polls = [100 + 0.27 * i for i in range(400)]  # 108 s
    recorder = await recorded(*polls)
    moments = [sample.moment for sample in recorder.samples]
    assert len(moments) == 108
    assert moments[-1] - moments[0] == pytest.approx(107, abs=0.27)
    assert recorder.meter.reads == 108  # type: ignore[attr-defined]  # and not at every poll


async def test_a_long_silence_is_one_gap_and_not_a_burst_afterwards() -> None:
    recorder = await recorded(10.0, 10.5, 11.0, 19.0, 19.2, 19.4, 20.3)
    assert [sample.moment for sample in recorder.samples] == [10.0, 11.0, 19.0, 20.3]


def test_what_is_not_said_is_null_and_an_empty_timeline_has_no_rows() -> None:
    sample = timeline.Sample(1.0, {"running": 2.0}, MachineUse())
    frame = timeline.decode(timeline.encode([sample], started=0.0, before={"preemptions": 5.0}))
    missing = [name for name in timeline.NAMES if name not in ("t_s", "running")]
    assert all(pd.isna(frame[name][0]) for name in missing)
    assert len(timeline.decode(timeline.encode([], started=0.0, before={}))) == 0


def test_every_column_says_what_it_means_and_another_format_is_refused() -> None:
    table = pq.read_table(pa.BufferReader(timeline.encode([], started=0.0, before={})))
    assert [field.metadata[b"meaning"].decode() for field in table.schema] == [c.meaning for c in timeline.COLUMNS]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"t_s": [1.0]}), sink)
    with pytest.raises(ValueError, match="not a block's timeline"):
        timeline.decode(sink.getvalue().to_pybytes())


@pytest.fixture
def busy_tree() -> Iterator[subprocess.Popen[bytes]]:
    """A process whose child keeps a core busy."""
    child = "while True: pass"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        deadline = time.monotonic() + 30
        while not psutil.Process(process.pid).children() and time.monotonic() < deadline:
            time.sleep(0.02)
        yield process
        for one in psutil.Process(process.pid).children():
            one.kill()


def test_the_engines_whole_tree_counts(busy_tree: subprocess.Popen[bytes]) -> None:
    with metering(busy_tree.pid, ("cpu",)) as meter:
        used_before = sum(psutil.Process(busy_tree.pid).children()[0].cpu_times()[:2])
        began = time.perf_counter()
        time.sleep(1.0)
        use = meter.read()
        spent = time.perf_counter() - began
        used = sum(psutil.Process(busy_tree.pid).children()[0].cpu_times()[:2]) - used_before
    assert use.engine_cpu_cores is not None
    assert use.engine_cpu_cores == pytest.approx(used / spent, abs=0.1)  # the kernel counts in steps of 10 ms
    assert use.engine_cpu_cores > 0.1
    assert use.engine_rss_gib is not None
    assert 0.005 < use.engine_rss_gib < 1  # two bare interpreters
    assert use.machine_cpu_share is not None
    assert 0 < use.machine_cpu_share <= 1
    assert use.gpus == ()


def test_an_engine_that_has_ended_or_is_elsewhere_is_not_known(busy_tree: subprocess.Popen[bytes]) -> None:
    use = UseMeter(None, lambda: []).read()
    assert (use.engine_cpu_cores, use.engine_rss_gib) == (None, None)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert UseMeter(gone.pid, lambda: []).read().engine_cpu_cores is None


def test_the_slots_gpus_are_read_and_a_missing_sensor_is_null(monkeypatch: pytest.MonkeyPatch) -> None:
    class NVMLError(Exception):
        pass

    def power(handle: int) -> int:
        if handle == 2:
            raise NVMLError("Not Supported")
        return 350_500

    binding = types.SimpleNamespace(
        NVMLError=NVMLError,
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetUtilizationRates=lambda handle: types.SimpleNamespace(gpu=10 * handle, memory=1),
        nvmlDeviceGetMemoryInfo=lambda handle: types.SimpleNamespace(used=handle * 2**30, total=2**40),
        nvmlDeviceGetPowerUsage=power,
    )
    monkeypatch.setitem(sys.modules, "pynvml", binding)
    with reading_gpus(["2", "5"]) as read:
        assert read() == [GpuUse(0.2, 2.0, None), GpuUse(0.5, 5.0, 350.5)]


def test_a_slot_of_the_processor_asks_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with metering(None, ("cpu",)) as meter:
        assert meter.read().gpus == ()
