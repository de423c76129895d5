"""What is stored must be what the engine did: against a scripted engine whose every time is known exactly.

The exact answers come from the due times alone (a recursion written here), never from the engine or the client. A
machine that is busy with other things delays both ends for real; such a block says so (the client's lateness, or the
engine's own between its promise and its delivery) and is measured again, at most five times.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from kitedash.domain.experiment import LoadPlan, Workload
from kitedash.domain.results import BlockResult, LevelStatus
from kitedash.measuring.endpoint import Endpoint
from kitedash.measuring.levels import summarize_level
from kitedash.measuring.request_table import decode
from tests.e2e.load_blocks import measure, scripted_engine

Floats = npt.NDArray[np.float64]

TOKENS_OUT = 20
FIRST_MS, TOKEN_MS = 200.0, 10.0
WORKLOAD = Workload(input_tokens=120, shared_prefix_tokens=90, output_tokens=TOKENS_OUT)
PLAN = LoadPlan(rates_per_s=(1.8, 5, 10, 50), blocks=2, block_duration_s=10, request_timeout_s=60, seed=11)
SCRIPT = ("--first-token-ms", str(FIRST_MS), "--token-ms", str(TOKEN_MS))
QUEUE_RATE_PER_S = 1.8  # one request takes 0.39 s, so one slot is 70 % used


def near(value: float | None, exact: float) -> bool:
    return value is not None and abs(value - exact) <= max(2.0, 0.02 * exact)


def one_at_a_time_ms(due_s: Floats) -> Floats:
    """TTFT in ms of a server that takes one request at a time, each for FIRST + 19 tokens: Lindley's recursion."""
    service = (FIRST_MS + (TOKENS_OUT - 1) * TOKEN_MS) / 1e3
    free, ttft = 0.0, []
    for due in due_s:
        start = max(due, free)
        free = start + service
        ttft.append((start - due) * 1e3 + FIRST_MS)
    return np.array(ttft)


def percentile(values: Floats, q: float) -> float:
    """The smallest value with at least the share q at or below it."""
    return float(np.sort(values)[int(np.ceil(q * len(values))) - 1])


async def measured(
    endpoint: Endpoint, rate_per_s: float, work_dir: Path, right: Callable[[BlockResult], list[str]]
) -> BlockResult:
    """A block for which `right` finds nothing wrong; after five tries the last one's faults are the failure."""
    faults: list[str] = []
    for _ in range(5):
        block = await measure(endpoint, WORKLOAD, PLAN, rate_per_s, work_dir)
        faults = right(block)
        if not faults:
            return block
    pytest.fail("; ".join([*faults, block.reason]))


@pytest.mark.parametrize("rate_per_s", [10.0, 50.0])
async def test_first_token_and_pace_are_stored_as_they_were(
    default_model_dir: Path, tmp_path: Path, rate_per_s: float
) -> None:
    def right(block: BlockResult) -> list[str]:
        level = summarize_level([block], 0.0)
        stored = {
            "TTFT P50": (level.ttft_p50_ms.value, FIRST_MS),
            "TTFT P90": (level.ttft_p90_ms.value, FIRST_MS),
            "TPOT P50": (level.tpot_p50_ms.value, TOKEN_MS),
            "TPOT P90": (level.tpot_p90_ms.value, TOKEN_MS),
        }
        return [f"{name} {value}, exact {exact}" for name, (value, exact) in stored.items() if not near(value, exact)]

    async with scripted_engine(default_model_dir, tmp_path / "engine.log", *SCRIPT) as endpoint:
        block = await measured(endpoint, rate_per_s, tmp_path, right)
    assert block.status is LevelStatus.OK, block.reason
    assert block.n_failed == 0
    requests = decode(block.requests_blob)
    assert (requests["tokens_out"] == TOKENS_OUT).all()
    assert (requests["chunks"] == TOKENS_OUT).all(), "the role-only chunk is not counted"
    assert (requests["tokens_in"] == 120).all(), "counted by another path than the one that wrote the prompts"
    assert (requests["tokens_cached"] == 80).all(), "five blocks of 16 of the 90 shared tokens"


async def test_a_queue_is_stored_as_the_recursion_gives_it(default_model_dir: Path, tmp_path: Path) -> None:
    def right(block: BlockResult) -> list[str]:
        requests = decode(block.requests_blob)
        exact = one_at_a_time_ms(requests["due_s"].to_numpy())
        level = summarize_level([block], 0.0)
        stored = {
            "TTFT P50": (level.ttft_p50_ms.value, percentile(exact, 0.5)),
            "TTFT P90": (level.ttft_p90_ms.value, percentile(exact, 0.9)),
            "TPOT P50": (level.tpot_p50_ms.value, TOKEN_MS),
            "TPOT P90": (level.tpot_p90_ms.value, TOKEN_MS),
        }
        return [f"{name} {value}, exact {exact}" for name, (value, exact) in stored.items() if not near(value, exact)]

    async with scripted_engine(default_model_dir, tmp_path / "engine.log", *SCRIPT, "--max-num-seqs", "1") as endpoint:
        block = await measured(endpoint, QUEUE_RATE_PER_S, tmp_path, right)
    requests = decode(block.requests_blob)
    exact_queue_ms = one_at_a_time_ms(requests["due_s"].to_numpy()) - FIRST_MS
    assert percentile(exact_queue_ms, 0.9) > 100, "the test would prove nothing without a queue"
    assert np.median(np.abs(requests["queue_time_ms"] - exact_queue_ms)) < 10
    assert block.server_counters["running_max"] == 1.0
    assert block.server_counters["waiting_max"] >= 1.0


async def test_a_front_end_delay_is_found_as_front_end(default_model_dir: Path, tmp_path: Path) -> None:
    """The same engine with and without 50 ms before the engine sees a request: the difference is what is recovered."""

    async def front_end_ms(*more: str) -> tuple[float, BlockResult]:
        async with scripted_engine(default_model_dir, tmp_path / "engine.log", *SCRIPT, *more) as endpoint:
            block = await measure(endpoint, WORKLOAD, PLAN, 10.0, tmp_path)
        requests = decode(block.requests_blob)
        ttft = (requests["first_token_s"] - requests["sent_s"]) * 1e3
        return float(np.median(ttft - requests["queue_time_ms"] - requests["engine_ttft_ms"])), block

    found, block = 0.0, None
    for _ in range(3):
        without, _ = await front_end_ms()
        with_delay, block = await front_end_ms("--front-end-ms", "50")
        found = with_delay - without
        if abs(found - 50.0) <= 2.0 and block.status is LevelStatus.OK:
            break
    assert found == pytest.approx(50.0, abs=2.0)
    assert block is not None
    assert block.status is LevelStatus.OK, block.reason
    parts = summarize_level([block], 0.0).parts_ms
    assert parts["prefill"] == pytest.approx(FIRST_MS, abs=0.1)
    assert parts["queue"] == pytest.approx(0.0, abs=0.1)
    assert parts["decode"] == pytest.approx((TOKENS_OUT - 1) * TOKEN_MS, abs=0.1)
