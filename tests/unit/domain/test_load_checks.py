from __future__ import annotations

import heapq
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from kitedash.domain.load_checks import (
    BlockFacts,
    check_block,
    expected_cached_tokens,
    overload_reason,
    status_of,
)
from kitedash.domain.overload import growth_from, overload_together
from kitedash.domain.results import Check, LevelStatus

Floats = npt.NDArray[np.float64]


def facts(**changes: object) -> BlockFacts:
    """100 requests in 20 s: 1 ms late, 4 ms front end, 5 ms queue, 200 ms prefill, 400 ms in all."""
    due = np.arange(100) / 5.0
    block = BlockFacts(
        due_s=due,
        sent_s=due + 0.001,
        first_token_s=due + 0.210,
        ended_s=due + 0.400,
        tokens_in=np.full(100, 300.0),
        tokens_cached=np.full(100, 256.0),
        tokens_in_expected=np.full(100, 300.0),
        queue_ms=np.full(100, 5.0),
        engine_ttft_ms=np.full(100, 200.0),
        timed_out=np.zeros(100, dtype=bool),
        errors=("",) * 100,
        duration_s=20.0,
        warm_up_s=0.0,
        cached_tokens_expected=256,
        client_cpu_share=0.1,
        engine_queue_and_prefill_s=20.5,
        engine_finished=100,
    )
    return replace(block, **changes)  # type: ignore[arg-type]


def failed_checks(block: BlockFacts) -> list[Check]:
    return [check for check in check_block(block) if not check.passed]


def at(values: Floats, index: int, value: float) -> Floats:
    changed = values.copy()
    changed[index] = value
    return changed


def test_a_clean_block_passes_and_every_check_shows_its_bound() -> None:
    checks = check_block(facts())
    assert status_of(checks, "") == (LevelStatus.OK, "")
    assert all(check.low is not None or check.high is not None for check in checks)
    front_end = next(check for check in checks if check.name.startswith("front end"))
    assert front_end.value == pytest.approx(4.0), "210 ms to the first token less 1 + 5 + 200"


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"engine_answers": False}, "engine answers after the block"),
        ({"in_system_before": 1.0}, "idle before the block"),
        ({"sent_s": at(np.arange(100) / 5.0, 3, np.nan)}, "requests sent, share of those due"),
        ({"tokens_in": np.full(100, 304.0)}, "prompt tokens, largest deviation"),
        ({"tokens_in": at(np.full(100, 300.0), 7, 280.0)}, "prompt tokens, largest deviation"),
        ({"tokens_in": np.full(100, np.nan)}, "prompt tokens, largest deviation"),
        ({"tokens_cached": np.full(100, 0.0)}, "cached prompt tokens, mean"),
        ({"tokens_cached": np.full(100, 288.0)}, "cached prompt tokens, mean"),
        ({"tokens_cached": np.full(100, np.nan)}, "cached prompt tokens, mean"),
        ({"sent_s": np.arange(100) / 5.0 + 0.030, "queue_ms": np.full(100, 0.0)}, "client lateness P99 (ms)"),
        ({"client_cpu_share": 0.95}, "client CPU, share of a core"),
        ({"queue_ms": at(np.full(100, 5.0), 2, 10.5)}, "front end, smallest (ms)"),
        ({"engine_queue_and_prefill_s": 20.8}, "queue + prefill, requests / engine's counters"),
        ({"engine_finished": 99}, "queue + prefill, requests / engine's counters"),
        ({"ended_s": np.arange(100) / 5.0 + 11}, "block length / median time in system"),
    ],
)
def test_each_thing_that_can_be_wrong_is_caught_by_its_own_check(change: dict[str, object], name: str) -> None:
    block = facts(**change)
    assert name in [check.name for check in failed_checks(block)]
    status, reason = status_of(check_block(block), "")
    assert status is LevelStatus.INVALID
    assert reason.startswith(failed_checks(block)[0].name)


def test_within_one_percent_of_the_prompt_tokens_passes() -> None:
    assert not failed_checks(facts(tokens_in=np.full(100, 303.0)))


def test_a_cache_that_should_be_cold_and_is_warm_is_caught() -> None:
    block = facts(cached_tokens_expected=0)
    assert [check.name for check in failed_checks(block)] == ["cached prompt tokens, mean"]
    assert not failed_checks(facts(cached_tokens_expected=0, tokens_cached=np.full(100, 0.0)))


def test_single_failures_are_results_and_only_most_of_them_make_a_block_invalid() -> None:
    nan = np.arange(100) < 40
    some = facts(
        errors=("HTTP 500",) * 40 + ("",) * 60,
        first_token_s=np.where(nan, np.nan, np.arange(100) / 5.0 + 0.210),
        queue_ms=np.where(nan, np.nan, 5.0),
        engine_ttft_ms=np.where(nan, np.nan, 200.0),
    )
    assert status_of(check_block(some), "")[0] is LevelStatus.OK
    most = replace(some, errors=("HTTP 500",) * 60 + ("",) * 40)
    status, reason = status_of(check_block(most), "")
    assert status is LevelStatus.INVALID
    assert "HTTP 500" in reason


def test_a_block_without_requests_is_invalid() -> None:
    empty = {
        name: np.array([])
        for name in ("due_s", "sent_s", "first_token_s", "ended_s", "tokens_in", "tokens_cached", "tokens_in_expected")
    }
    block = facts(**empty, queue_ms=np.array([]), engine_ttft_ms=np.array([]), timed_out=np.array([], bool), errors=())
    status, reason = status_of(check_block(block), overload_reason(block))
    assert status is LevelStatus.INVALID
    assert "no request was due" in reason


def test_overload_excuses_a_late_client_but_not_a_warm_cache() -> None:
    due = np.arange(100) / 5.0
    late = check_block(facts(sent_s=due + 0.1, first_token_s=due + 0.31, client_cpu_share=0.5))
    assert status_of(late, "12 more") == (LevelStatus.OVERLOADED, "12 more")
    at_its_end = check_block(facts(sent_s=due + 0.1, first_token_s=due + 0.31, client_cpu_share=0.95))
    assert status_of(at_its_end, "12 more")[0] is LevelStatus.INVALID
    warm = check_block(facts(cached_tokens_expected=0))
    assert status_of(warm, "12 more")[0] is LevelStatus.INVALID


@pytest.mark.parametrize(
    ("prefix", "block_size", "tokens_in", "expected"),
    [(284, 128, 300, 256), (284, 16, 300, 272), (127, 128, 300, 0), (256, 128, 256, 128), (0, 16, 300, 0)],
)
def test_whole_blocks_of_the_prefix_are_expected_from_the_cache(
    prefix: int, block_size: int, tokens_in: int, expected: int
) -> None:
    arguments = {"shared_tokens": prefix, "block_size": block_size, "tokens_in": tokens_in}
    assert expected_cached_tokens(prefix_caching=True, **arguments) == expected
    assert expected_cached_tokens(prefix_caching=False, **arguments) == 0


# -- overload, on queues of known utilisation -------------------------------------------------------------------------


def queue(rng: np.random.Generator, utilisation: float, servers: int, service_s: float, duration_s: float):  # type: ignore[no-untyped-def]
    """(due, left) of an M/D/c queue that starts empty."""
    rate = servers / service_s * utilisation
    due = np.sort(rng.uniform(0, duration_s, rng.poisson(rate * duration_s)))
    free = [0.0] * servers
    left = np.empty(len(due))
    for index, arrival in enumerate(due):
        left[index] = max(arrival, heapq.heappop(free)) + service_s
        heapq.heappush(free, left[index])
    return due, left


def overloaded_share(utilisation: float, servers: int, service_s: float, duration_s: float, times: int = 200) -> float:
    rng, seen = np.random.default_rng(5), 0
    for _ in range(times):
        due, left = queue(rng, utilisation, servers, service_s, duration_s)
        n = len(due)
        block = facts(
            due_s=due, ended_s=left, duration_s=duration_s, errors=("",) * n, timed_out=np.zeros(n, dtype=bool)
        )
        seen += bool(overload_reason(block))
    return seen / times


@pytest.mark.parametrize(("servers", "service_s"), [(1, 0.2), (8, 0.8)])
def test_a_queue_that_keeps_up_is_hardly_ever_called_overloaded(servers: int, service_s: float) -> None:
    assert overloaded_share(0.7, servers, service_s, 20.0) <= 0.01
    assert overloaded_share(0.9, servers, service_s, 20.0) <= 0.03


@pytest.mark.parametrize(("servers", "service_s"), [(1, 0.2), (8, 0.8)])
def test_a_queue_at_one_and_a_half_times_its_capacity_is_named(servers: int, service_s: float) -> None:
    assert overloaded_share(1.5, servers, service_s, 20.0) >= 0.9


def test_blocks_together_find_a_growth_that_one_block_can_not_show() -> None:
    """Utilisation 1.2: one block of 20 s names it in a third of the cases, six together nearly always; at 0.9 never."""

    def share(utilisation: float) -> float:
        rng, seen = np.random.default_rng(6), 0
        for _ in range(60):
            blocks = [queue(rng, utilisation, 1, 0.2, 20.0) for _ in range(6)]
            grown = [growth_from(due_s=due, left_s=left, duration_s=20.0, warm_up_s=0.0) for due, left in blocks]
            seen += bool(overload_together([growth for growth in grown if growth is not None]))
        return seen / 60

    assert overloaded_share(1.2, 1, 0.2, 20.0) < 0.6
    assert share(1.2) >= 0.9
    assert share(0.9) <= 0.05


def test_slow_but_steady_service_is_not_overload() -> None:
    """Every request takes 9 s whatever the others do: the number in the system rises only while the block fills."""
    due = np.arange(100) / 5.0
    assert overload_reason(facts(due_s=due, ended_s=due + 9.0)) == ""


def test_a_shared_engine_that_is_overrun_is_overload_though_all_but_the_first_are_slowed_alike() -> None:
    """Seen on a real vLLM at several times its capacity: nothing leaves before the arrivals stop."""
    due = np.arange(100) / 5.0
    took = np.where(due < 1.5, 1.0 + due, 19.0)
    assert "keeps growing" in overload_reason(facts(due_s=due, ended_s=due + took))


def test_requests_that_time_out_never_leave() -> None:
    due = np.arange(100) / 5.0
    late = due > 4
    block = facts(ended_s=np.where(late, due + 5.0, due + 0.4), timed_out=late)
    assert "keeps growing" in overload_reason(block)


def test_too_few_requests_to_tell_is_no_overload() -> None:
    assert growth_from(due_s=np.arange(9.0), left_s=np.full(9, 99.0), duration_s=9.0, warm_up_s=0.0) is None


def test_fewer_cached_tokens_are_the_candidates_own_where_its_kv_cache_was_full() -> None:
    few = facts(tokens_cached=np.full(100, 100.0))
    assert [check.name for check in failed_checks(few)] == ["cached prompt tokens, mean"]
    full = replace(few, kv_cache_full=True)
    assert failed_checks(full) == []
    said = next(check for check in check_block(full) if check.name == "cached prompt tokens, mean")
    assert said.value == 100
    assert said.sentence == "less than the 256 expected: the KV cache was full"
    more = facts(tokens_cached=np.full(100, 290.0), kv_cache_full=True)
    assert len(failed_checks(more)) == 1, "a warm cache is no matter of room"


def test_fewer_cached_tokens_are_right_where_the_cache_had_no_room_to_keep_them() -> None:
    few = facts(tokens_cached=np.full(100, 200.0))
    assert [check.name for check in failed_checks(few)] == ["cached prompt tokens, mean"]
    room = replace(few, cached_tokens_least=190.0)
    assert failed_checks(room) == []
    said = next(check for check in check_block(room) if check.name == "cached prompt tokens, mean")
    assert said.low == pytest.approx(190 - 0.02 * 256)
    assert said.sentence == "less than the 256 expected: the KV cache had no room for all that was to be used again"
    assert len(failed_checks(replace(few, cached_tokens_least=210.0))) == 1, "fewer than could have been dropped"
