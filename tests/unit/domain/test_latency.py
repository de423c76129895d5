from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from kitedash.domain.block_effect import DesignEffect, design_effect, effective_size
from kitedash.domain.experiment import Guardrails, Targets
from kitedash.domain.latency import BlockSample, is_held, quantile_interval, summarize
from kitedash.domain.request_parts import parts_around
from kitedash.domain.results import Estimate, LevelStatus, LevelSummary

Floats = npt.NDArray[np.float64]
Rng = np.random.Generator


def even(n: int, blocks: int) -> list[Floats]:
    """1..n dealt out in turn, so that every block has nearly the same distribution."""
    return [np.arange(1 + block, n + 1, blocks, dtype=np.float64) for block in range(blocks)]


def test_the_value_is_the_smallest_that_reaches_the_share() -> None:
    blocks = even(100, 4)
    assert quantile_interval(blocks, 0.5).value == 50
    assert quantile_interval(blocks, 0.9).value == 90
    assert quantile_interval(blocks, 0.99).value == 99
    assert quantile_interval(blocks, 0.9).n == 100


def test_with_many_even_blocks_it_is_the_exact_order_statistic_interval() -> None:
    # 1,000 independent values in 200 blocks: the binomial's own ranks, found here by search over its distribution.
    shuffle = np.random.default_rng(2).permutation
    blocks = [shuffle(block) for block in even(1_000, 200)]
    estimate = quantile_interval(blocks, 0.9)
    below = [rank for rank in range(1, 1_001) if stats.binom.cdf(rank - 1, 1_000, 0.9) <= 0.025]
    above = [rank for rank in range(1, 1_001) if stats.binom.sf(rank - 1, 1_000, 0.9) <= 0.025]
    assert estimate.low == pytest.approx(below[-1], abs=2)
    assert estimate.high == pytest.approx(above[0], abs=2)


def test_failed_requests_are_misses_not_gaps() -> None:
    blocks = [np.array([1.0] * 17 + [math.inf] * 3) for _ in range(10)]
    estimate = quantile_interval(blocks, 0.9)
    assert estimate.value is None, "15 % failed, so the P90 is a failed request"
    assert "more than 10% of the requests failed" in estimate.note
    assert quantile_interval(blocks, 0.5).value == 1.0
    assert estimate.n == 200


def test_an_interval_that_reaches_failed_requests_has_no_upper_bound_and_says_why() -> None:
    blocks = [np.array([*np.linspace(1, 2, 23), math.inf, math.inf]) for _ in range(20)]
    estimate = quantile_interval(blocks, 0.9)
    assert estimate.value is not None
    assert estimate.high is None
    assert "failed" in estimate.note


def test_few_requests_are_called_too_few_and_the_number_offered_is_about_right() -> None:
    rng = np.random.default_rng(3)
    few = [rng.exponential(size=10) for _ in range(4)]
    estimate = quantile_interval(few, 0.9)
    assert estimate.value is not None
    assert estimate.high is None
    assert estimate.note.startswith("too few (about ")
    more = int(estimate.note.split()[3])
    bounded = [
        quantile_interval([rng.exponential(size=10) for _ in range(4 + math.ceil(2 * more / 10))], 0.9).high is not None
        for _ in range(20)
    ]
    assert sum(bounded) >= 15, "twice what it asks for must mostly do"


def test_one_block_gives_a_value_and_no_interval() -> None:
    estimate = quantile_interval([np.arange(500.0)], 0.5)
    assert (estimate.value, estimate.low, estimate.high) == (249.0, None, None)


def test_no_requests_is_no_value() -> None:
    assert quantile_interval([], 0.9) == Estimate(None, note="no requests")
    assert quantile_interval([np.array([])], 0.9).value is None


def test_blocks_that_differ_widen_the_interval() -> None:
    same = even(600, 6)
    apart = list(np.split(np.arange(1.0, 601.0), 6))
    narrow, wide = quantile_interval(same, 0.5), quantile_interval(apart, 0.5)
    assert narrow.value == wide.value == 300
    assert narrow.low is not None
    assert narrow.high is not None
    assert wide.low is None or wide.low < narrow.low
    assert wide.high is None or wide.high > narrow.high


def test_ties_cost_no_width() -> None:
    """All answers equal: the percentile is known exactly, whatever the share at it."""
    estimate = quantile_interval([np.full(50, 7.0) for _ in range(6)], 0.9)
    assert (estimate.low, estimate.value, estimate.high) == (7.0, 7.0, 7.0)


def test_copies_count_once() -> None:
    """Every request repeated five times within its block carries the information of one: a design effect of about 5."""
    rng = np.random.default_rng(8)
    copies = [np.repeat((rng.random(100) < 0.9).astype(float), 5) for _ in range(40)]
    assert 3.5 < design_effect(copies, 0.9).value < 7.5
    assert design_effect([rng.permutation(block) for block in [np.repeat([0.0, 1.0], 50)] * 40], 0.5).value < 1.5


def test_few_blocks_cost_effective_size() -> None:
    """By the squared ratio of tabled quantiles: the normal one is 1.95996, Student's t has 2.0227 at 39 degrees of
    freedom, 2.5706 at 5 and 1.9719 at 200."""
    between = DesignEffect(5.0, window=0)
    assert effective_size(20_000, 40, between) == pytest.approx(4_000 * (1.95996 / 2.0227) ** 2, rel=1e-3)
    assert effective_size(600, 6, DesignEffect(1.0, window=0)) == pytest.approx(600 * (1.95996 / 2.5706) ** 2, rel=1e-3)
    within = DesignEffect(5.0, window=25)  # 15,000 requests are 200 stretches of three times that
    assert effective_size(15_000, 40, within) == pytest.approx(3_000 * (1.95996 / 1.9719) ** 2, rel=1e-3)
    assert effective_size(600, 1, between) == 0.0


def test_the_effect_of_a_pattern_is_its_autocorrelation() -> None:
    """Two blocks 1 1 0 0: centred on 1/2 the products are 4 x 1/4 at lag 0, and 1/4 - 1/4 + 1/4 = 1/4 at lag 1,
    -1/4 - 1/4 = -2/4 at lag 2, a block: the first pair of lags is negative, so nothing is added."""
    pattern = [np.array([1.0, 1.0, 0.0, 0.0])] * 2
    assert design_effect(pattern, 0.5) == DesignEffect(1.0, 1)
    # 1 1 1 0 0 0: 6/4 at lag 0; lag 1: 3/4; lag 2: 0; lag 3: -3/4; lag 4: -2/4. The first pair is 3/4, the next
    # negative: 1 + 2 x (3/4) / (6/4) = 2, over 3 lags.
    longer = [np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])] * 2
    effect = design_effect(longer, 0.5)
    assert (effect.value, effect.window) == (pytest.approx(2.0), 3)


def test_blocks_that_differ_are_taken_at_their_word() -> None:
    """Six blocks, shares 0.7 and 0.3 in turn, each evenly mixed: a block's sum is 4 off 10 of 20. 6/5 x 6 x 16 / 120 /
    (1/4) = 3.84, where neighbours alone tell of hardly any resemblance."""
    high = np.tile([1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0], 2)
    blocks = [high, 1 - high] * 3
    assert design_effect(blocks, 0.5) == DesignEffect(pytest.approx(3.84), 0)


def test_blocks_that_differ_at_a_share_nearer_the_middle_count_too() -> None:
    """At the share itself all blocks are alike (four of five in turn); at the median they differ as above."""
    alike = [np.tile([1.0, 1.0, 1.0, 1.0, 0.0], 4)] * 6
    high = np.tile([1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0], 2)
    assert design_effect(alike, 0.8) == DesignEffect(1.0, 1)
    assert design_effect(alike, 0.8, [([high, 1 - high] * 3, 0.5)]) == DesignEffect(pytest.approx(3.84), 0)


@pytest.mark.parametrize(("q", "too_few", "enough"), [(0.9, 138, 144), (0.99, 1_464, 1_476)])
def test_an_upper_end_needs_four_times_what_independent_requests_would(q: float, too_few: int, enough: int) -> None:
    """0.9 ^ 35 = 0.0250 and 0.99 ^ 367 = 0.0250: four times that are 140 and 1,468."""
    rng = np.random.default_rng(4)
    assert quantile_interval(np.split(rng.exponential(size=too_few), 6), q).high is None
    assert quantile_interval(np.split(rng.exponential(size=enough), 6), q).high is not None


# -- coverage: the interval must hold the truth that made the data ----------------------------------------------------


def coverage(make: Callable[[Rng], list[Floats]], q: float, truth: float, times: int) -> tuple[float, float]:
    """(share of answered simulations whose interval holds the truth, share answered "too few")."""
    rng, held, few = np.random.default_rng(20), 0, 0
    for _ in range(times):
        estimate = quantile_interval(make(rng), q)
        if estimate.low is None or estimate.high is None:
            few += 1
        else:
            held += estimate.low <= truth <= estimate.high
    return held / max(1, times - few), few / times


@pytest.mark.parametrize(("q", "blocks", "each"), [(0.5, 6, 40), (0.9, 6, 100), (0.9, 12, 100), (0.99, 20, 100)])
def test_coverage_on_independent_draws(q: float, blocks: int, each: int) -> None:
    share, few = coverage(
        lambda rng: [rng.exponential(size=each) for _ in range(blocks)], q, -math.log(1 - q), times=300
    )
    # 300 simulations of a true 95 % fall below 92 % once in a hundred.
    assert share >= 0.92
    assert few <= 0.02


def md1_block(rng: Rng, utilisation: float, duration: float) -> Floats:
    """Times in an M/D/1 queue of service time 1 that starts empty, by Lindley's recursion."""
    arrivals = np.sort(rng.uniform(0, duration, rng.poisson(utilisation * duration)))
    waits, wait, before = [], 0.0, -math.inf
    for arrival in arrivals:
        wait = max(0.0, wait + 1.0 - (arrival - before)) if before > -math.inf else 0.0
        waits.append(wait)
        before = arrival
    return np.array(waits) + 1.0


@pytest.mark.parametrize("q", [0.5, 0.9])
def test_coverage_in_a_queue(q: float) -> None:
    """Utilisation 0.5, 12 blocks of about 100 requests: where independence is not there, the interval still holds."""
    truth_rng = np.random.default_rng(1)
    truth = float(np.quantile(np.concatenate([md1_block(truth_rng, 0.5, 200) for _ in range(1_000)]), q))
    share, few = coverage(lambda rng: [md1_block(rng, 0.5, 200) for _ in range(12)], q, truth, times=200)
    assert share >= 0.91
    assert few <= 0.05


def test_an_interval_that_takes_a_queue_for_independent_fails_here() -> None:
    """The simulation above can fail: the same data shuffled across blocks look independent, and the truth is missed."""
    truth_rng = np.random.default_rng(1)
    truth = float(np.quantile(np.concatenate([md1_block(truth_rng, 0.7, 200) for _ in range(1_000)]), 0.9))

    def shuffled(rng: Rng) -> list[Floats]:
        pooled = np.concatenate([md1_block(rng, 0.7, 200) for _ in range(12)])
        rng.shuffle(pooled)
        return np.array_split(pooled, 100)

    share, _ = coverage(shuffled, 0.9, truth, times=150)
    assert share < 0.85


# -- a level ----------------------------------------------------------------------------------------------------------


def sample(ttft_ms: Floats, **changes: object) -> BlockSample:
    n = len(ttft_ms)
    known = np.where(np.isfinite(ttft_ms), 1.0, np.nan)
    block = BlockSample(
        ttft_ms=ttft_ms,
        tpot_ms=10.0 * known,
        e2e_ms=ttft_ms + 190.0,
        client_ms=1.0 * known,
        front_end_ms=4.0 * known,
        queue_ms=(ttft_ms - 205.0) * known if np.all(np.isfinite(ttft_ms)) else 0.0 * known,
        prefill_ms=200.0 * known,
        decode_ms=190.0 * known,
        tokens_in=np.full(n, 300.0),
        tokens_cached=np.full(n, 256.0),
        sent=n,
        window_s=20.0,
        tokens_out_in_window=20.0 * n,
    )
    return replace(block, **changes)  # type: ignore[arg-type]


def level(blocks: list[BlockSample], status: LevelStatus = LevelStatus.OK, reason: str = "") -> LevelSummary:
    return summarize(blocks, rate_per_s=5.0, status=status, reason=reason, running_max=3.0)


def test_a_level_adds_its_blocks_up() -> None:
    summary = level([sample(205.0 + np.arange(100.0)), sample(205.0 + np.arange(100.0))])
    assert (summary.n_requests, summary.n_failed, summary.blocks) == (200, 0, 2)
    assert summary.delivered_rate_per_s == 5.0
    assert summary.output_tokens_per_s == 100.0
    assert summary.prefix_hit_rate == pytest.approx(256 / 300)
    assert summary.ttft_p50_ms.value == 205.0 + 49
    assert summary.tpot_p90_ms.value == 10.0
    assert summary.error_rate == 0.0


def test_a_failed_request_raises_the_percentile_and_the_error_rate() -> None:
    ttft = np.array([*(205.0 + np.arange(9.0)), math.inf])
    summary = level([sample(ttft)] * 4)
    assert summary.error_rate == pytest.approx(0.1)
    assert summary.ttft_p50_ms.value == 209.0
    assert summary.tpot_p50_ms.n == 36, "a failed request has no TPOT"


def test_the_parts_around_the_p90_add_up_to_its_ttft() -> None:
    parts = parts_around([sample(205.0 + np.arange(1_000.0))])
    ttft = sum(parts[name] for name in ("client", "front_end", "queue", "prefill"))
    assert ttft == pytest.approx(205.0 + np.mean(np.arange(850.0, 950.0)))
    assert parts["queue"] == pytest.approx(np.mean(np.arange(850.0, 950.0)))
    assert parts["decode"] == 190.0


def test_parts_that_the_engine_did_not_report_are_not_made_up() -> None:
    assert parts_around([sample(205.0 + np.arange(100.0), queue_ms=np.full(100, np.nan))]) == {}
    assert parts_around([]) == {}


TARGETS = Targets(ttft_p90_ms=300, cost_per_1000_requests_usd=1, pass_rate=0.5)
GUARDRAILS = Guardrails(tpot_p90_ms=20, error_rate=0.02)


def test_held_when_every_condition_holds() -> None:
    assert is_held(level([sample(205.0 + np.arange(90.0))] * 2), TARGETS, GUARDRAILS) == (True, "")


def test_the_first_failed_condition_is_named_with_its_numbers() -> None:
    good = level([sample(205.0 + np.arange(90.0))] * 2)
    cases = {
        "invalid: client late": replace(good, status=LevelStatus.INVALID, reason="client late"),
        "overloaded: 9 more": replace(good, status=LevelStatus.OVERLOADED, reason="9 more"),
        "P90 TTFT 301 ms, target 300 ms": replace(good, ttft_p90_ms=Estimate(301.0, 250.0, 400.0, 180)),
        "P90 TTFT can't be stated (no requests), target 300 ms": replace(
            good, ttft_p90_ms=Estimate(None, note="no requests")
        ),
        "P90 TPOT 20.1 ms, guardrail 20 ms": replace(good, tpot_p90_ms=Estimate(20.1)),
        "error rate 5.0% (9 of 180 requests failed), guardrail 2.0%": replace(good, error_rate=0.05, n_failed=9),
    }
    for reason, summary in cases.items():
        assert is_held(summary, TARGETS, GUARDRAILS) == (False, reason)
    several = replace(good, ttft_p90_ms=Estimate(301.0), error_rate=0.5, n_failed=90)
    assert is_held(several, TARGETS, GUARDRAILS)[1].startswith("P90 TTFT")


def test_exactly_at_a_bound_is_held() -> None:
    good = level([sample(205.0 + np.arange(90.0))] * 2)
    at = replace(good, ttft_p90_ms=Estimate(300.0), tpot_p90_ms=Estimate(20.0), error_rate=0.02)
    assert is_held(at, TARGETS, GUARDRAILS)[0]


def test_quantiles_are_ordered() -> None:
    rng = np.random.default_rng(4)
    summary = level([sample(205.0 + rng.exponential(100, 200)) for _ in range(8)])
    values = [summary.ttft_p50_ms.value, summary.ttft_p90_ms.value, summary.ttft_p99_ms.value]
    assert all(a is not None and b is not None and a <= b for a, b in itertools.pairwise(values))
