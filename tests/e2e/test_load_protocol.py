"""The protocol against engines that misbehave: what must be caught is caught, and by the right name."""

from __future__ import annotations

from pathlib import Path

import pytest

from kitedash.domain.errors import InvalidInput, KiteDashError
from kitedash.domain.experiment import Guardrails, LoadPlan, Targets, Workload
from kitedash.domain.latency import is_held
from kitedash.domain.load_checks import LATENESS
from kitedash.domain.results import LevelStatus
from kitedash.measuring.levels import summarize_level
from kitedash.measuring.request_table import decode
from tests.e2e.load_blocks import free_port, measure, scripted_engine

WORKLOAD = Workload(input_tokens=120, shared_prefix_tokens=90, output_tokens=5)
PLAN = LoadPlan(rates_per_s=(5, 10, 20), blocks=2, block_duration_s=4, request_timeout_s=2, seed=3)
FAST = ("--first-token-ms", "50", "--token-ms", "5")


async def test_failures_are_counted_and_never_a_fast_answer(default_model_dir: Path, tmp_path: Path) -> None:
    script = (*FAST, "--fail-every", "5", "--empty-every", "7", "--stall-every", "11")
    for _ in range(3):  # an engine of its own for each try: it counts its requests
        async with scripted_engine(default_model_dir, tmp_path / "engine.log", *script) as endpoint:
            block = await measure(endpoint, WORKLOAD, PLAN, 20.0, tmp_path, tries=1)
        if not block.reason.startswith(LATENESS):
            break
    requests = decode(block.requests_blob)
    # The engine counts the priming request as its first.
    numbers = [*range(2, len(requests) + 2)]
    bad = [number for number in numbers if number % 5 == 0 or number % 7 == 0 or number % 11 == 0]
    assert block.n_failed == len(bad) > 10
    errors = requests["error"].value_counts()
    assert errors["scripted failure"] == sum(number % 5 == 0 for number in numbers)
    assert errors["no token came"] == sum(number % 7 == 0 and number % 5 != 0 for number in numbers)
    stalled = requests[requests["timed_out"]]
    assert len(stalled) == sum(number % 11 == 0 and number % 5 != 0 and number % 7 != 0 for number in numbers)
    assert (stalled["ended_s"] - stalled["due_s"]).between(1.99, 2.5).all(), "cut off at the time-out after due"
    assert requests.loc[requests["error"] == "no token came", "first_token_s"].isna().all()
    level = summarize_level([block], 0.0)
    assert level.ttft_p90_ms.value is None, "more than a tenth failed, so the P90 is a failed request"
    assert level.error_rate == pytest.approx(len(bad) / len(requests))
    assert not is_held(
        level,
        Targets(ttft_p90_ms=10_000, cost_per_1000_requests_usd=1, pass_rate=0.5),
        Guardrails(tpot_p90_ms=1_000, error_rate=0.5),
    )[0]


async def test_a_cache_that_stays_warm_makes_the_block_invalid(default_model_dir: Path, tmp_path: Path) -> None:
    """The question of the first block is found in the cache by the second: only the flush prevents that."""
    async with scripted_engine(
        default_model_dir, tmp_path / "engine.log", *FAST, "--ignore-prefix-resets", "--block-size", "4"
    ) as endpoint:
        first = await measure(endpoint, WORKLOAD, PLAN, 10.0, tmp_path)
        second = await measure(endpoint, WORKLOAD, PLAN, 10.0, tmp_path)
    assert first.status is LevelStatus.OK, first.reason
    assert second.status is LevelStatus.INVALID
    assert second.reason.startswith("cached prompt tokens, mean")
    assert first.schedule_sha256 == second.schedule_sha256


async def test_the_flush_makes_a_repeat_start_cold(default_model_dir: Path, tmp_path: Path) -> None:
    async with scripted_engine(default_model_dir, tmp_path / "engine.log", *FAST, "--block-size", "4") as endpoint:
        blocks = [await measure(endpoint, WORKLOAD, PLAN, 10.0, tmp_path) for _ in range(2)]
    assert [block.status for block in blocks] == [LevelStatus.OK, LevelStatus.OK]
    cached = [decode(block.requests_blob)["tokens_cached"].tolist() for block in blocks]
    assert cached[0] == cached[1]


async def test_without_prefix_caching_nothing_is_cached_and_that_is_right(
    default_model_dir: Path, tmp_path: Path
) -> None:
    async with scripted_engine(
        default_model_dir, tmp_path / "engine.log", *FAST, "--no-enable-prefix-caching", prefix_caching=False
    ) as endpoint:
        block = await measure(endpoint, WORKLOAD, PLAN, 10.0, tmp_path)
    assert block.status is LevelStatus.OK, block.reason
    assert summarize_level([block], 0.0).prefix_hit_rate == 0.0


async def test_more_than_the_engine_can_do_is_overload_and_no_latency(default_model_dir: Path, tmp_path: Path) -> None:
    """One slot at 70 ms a request carries 14 requests/s; 20 are offered."""
    async with scripted_engine(
        default_model_dir, tmp_path / "engine.log", *FAST, "--token-ms", "15", "--max-num-seqs", "1"
    ) as endpoint:
        block = await measure(endpoint, WORKLOAD, PLAN, 20.0, tmp_path)
    assert block.status is LevelStatus.OVERLOADED, (block.reason, block.checks)
    assert "keeps growing" in block.reason
    assert block.server_counters["running_max"] == 1.0


async def test_an_engine_that_dies_in_the_block_is_named(default_model_dir: Path, tmp_path: Path) -> None:
    async with scripted_engine(default_model_dir, tmp_path / "engine.log", *FAST, "--die-after", "30") as endpoint:
        block = await measure(endpoint, WORKLOAD, PLAN, 20.0, tmp_path)
        assert block.status is LevelStatus.INVALID
        assert "the engine ended or restarted" in block.reason
        with pytest.raises(KiteDashError, match="could not be made ready"):
            await measure(endpoint, WORKLOAD, PLAN, 20.0, tmp_path)


async def test_prompts_that_can_not_be_written_are_the_users_to_mend(default_model_dir: Path, tmp_path: Path) -> None:
    from kitedash.measuring.endpoint import Endpoint

    endpoint = Endpoint(f"http://127.0.0.1:{free_port()}", "k", "m", default_model_dir, 2048, True, None)
    with pytest.raises(InvalidInput, match="shared tokens fit"):
        await measure(
            endpoint, Workload(input_tokens=120, shared_prefix_tokens=116, output_tokens=5), PLAN, 5.0, tmp_path
        )
