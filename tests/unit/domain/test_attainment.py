from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from kitedash.domain.attainment import (
    BlockPoint,
    attainment_interval,
    block_point,
    goodput,
    variance_between,
)
from kitedash.domain.latency import BlockSample
from kitedash.domain.results import Estimate
from tests.unit.domain.test_latency import md1_block, sample

Floats = npt.NDArray[np.float64]


def test_attainment_is_the_share_within_the_target_and_failed_requests_miss_it() -> None:
    blocks = [np.array([100.0, 200.0, 300.0, math.inf]), np.array([200.0, 250.0, 100.0, 100.0])]
    estimate = attainment_interval(blocks, 200.0)
    assert (estimate.value, estimate.n) == (5 / 8, 8)
    assert attainment_interval(blocks, math.inf).value == 7 / 8, "a failed request misses every target"


def test_independent_requests_have_the_interval_of_clopper_and_pearson() -> None:
    """180 of 200 in time, the misses spread so that neighbours do not resemble each other; over so many stretches the
    t quantile is the normal one but for a hundredth. Clopper and Pearson, from the binomial's own tails: the shares at
    which so many or more, and so many or fewer, have a chance of 2.5 %."""
    block = np.tile([1.0] * 9 + [5.0], 2)
    estimate = attainment_interval([block] * 10, 2.0)
    shares = np.linspace(0.8, 0.99, 19_001)
    low = shares[np.argmax(stats.binom.sf(179, 200, shares) >= 0.025)]
    high = shares[np.argmax(stats.binom.cdf(180, 200, shares) < 0.025)]
    assert estimate.value == 0.9
    assert estimate.low == pytest.approx(low, abs=0.004)
    assert estimate.high == pytest.approx(high, abs=0.004)


def test_all_in_time_still_leaves_room_below() -> None:
    """Without a miss the lower end is 0.025 ^ (1 / effective requests): 0.9817 for 200, lower where fewer count."""
    rng = np.random.default_rng(31)
    estimate = attainment_interval([rng.random(20) for _ in range(10)], 2.0)
    assert (estimate.value, estimate.high) == (1.0, 1.0)
    assert estimate.low is not None
    assert 0.95 < estimate.low <= 0.025 ** (1 / 200)


def test_none_in_time_leaves_as_much_room_as_requests_that_resemble_each_other_need() -> None:
    """Independent, none of 400 would bound the share by 1 - 0.025 ^ (1 / 400). Each latency comes ten times in a row,
    so there are about 40 of them: 1 - 0.025 ^ (1 / 40) = 0.088."""
    rng = np.random.default_rng(33)
    estimate = attainment_interval([np.repeat(1 + rng.random(4), 10) for _ in range(10)], 0.5)
    assert (estimate.value, estimate.low) == (0.0, 0.0)
    assert estimate.high is not None
    assert 0.06 < estimate.high < 0.25


def test_one_block_is_too_few_and_another_would_do() -> None:
    estimate = attainment_interval([np.arange(40.0)], 29.0)
    assert estimate == Estimate(0.75, None, None, 40, "too few (about 40 more requests would do)", 40)
    assert attainment_interval([], 1.0) == Estimate(None, note="no requests")
    assert attainment_interval([np.array([])], 1.0).value is None


def test_requests_that_wait_together_widen_the_interval() -> None:
    """The same 900 of 1,000 in time, the misses spread or in one stretch a block."""
    spread = [np.tile([1.0] * 9 + [5.0], 10)] * 10
    together = [np.array([1.0] * 90 + [5.0] * 10)] * 10
    narrow, wide = attainment_interval(spread, 2.0), attainment_interval(together, 2.0)
    assert narrow.value == wide.value == 0.9
    assert narrow.low is not None
    assert wide.low is not None
    assert wide.low < narrow.low - 0.02


@pytest.mark.parametrize("utilisation", [0.3, 0.6])
def test_attainment_in_a_queue_holds_the_truth(utilisation: float) -> None:
    """Short of the bench's 2,000: in 200 simulations of a true 95 %, fewer than 181 hold it once in two hundred."""
    truth_rng, rng = np.random.default_rng(41), np.random.default_rng(42)
    target = 1.8
    truth = np.mean(np.concatenate([md1_block(truth_rng, utilisation, 200) for _ in range(1_500)]) <= target)
    held = 0
    for _ in range(200):
        estimate = attainment_interval([md1_block(rng, utilisation, 200) for _ in range(8)], target)
        assert estimate.low is not None
        assert estimate.high is not None
        held += estimate.low <= truth <= estimate.high
    assert held >= 181


def test_goodput_counts_what_meets_both_limits_a_second() -> None:
    """10 s a block. In time and at most 20 ms a token: 4 of 8; one has no TPOT, since its answer is one token long."""
    ttft = np.array([100.0, 100.0, 400.0, 100.0, 100.0, 100.0, math.inf, 400.0])
    tpot = np.array([10.0, 20.0, 10.0, 30.0, np.nan, 10.0, np.nan, 30.0])
    block = sample(ttft, tpot_ms=tpot, window_s=10.0)
    estimate = goodput([block, block], ttft_ms=200.0, tpot_ms=20.0)
    assert estimate.value == pytest.approx(8 / 20)
    assert estimate.n == 16
    assert estimate.low is not None
    assert estimate.high is not None
    assert 0 < estimate.low < 0.4 < estimate.high < 0.8, "never more than the 16 requests of 20 s"


def test_goodput_is_the_attainment_times_what_was_due_where_tpot_does_not_bind() -> None:
    rng = np.random.default_rng(5)
    blocks: list[BlockSample] = [sample(rng.exponential(100, 60)) for _ in range(6)]  # 20 s each
    share = attainment_interval([block.ttft_ms for block in blocks], 150.0)
    rate = goodput(blocks, ttft_ms=150.0, tpot_ms=1_000.0)
    for of_share, of_rate in ((share.value, rate.value), (share.low, rate.low), (share.high, rate.high)):
        assert of_share is not None
        assert of_rate == pytest.approx(of_share * 3.0)
    late = goodput([replace(block, tpot_ms=np.full(60, 2_000.0)) for block in blocks], ttft_ms=150.0, tpot_ms=1_000.0)
    assert late.value == 0.0


def test_a_block_by_itself() -> None:
    ttft = np.array([30.0, 10.0, 20.0, 40.0, 50.0, 60.0, 70.0, 80.0, math.inf, 90.0])
    assert block_point(ttft, 45.0) == BlockPoint(n=10, n_failed=1, ttft_p50_ms=50.0, ttft_p90_ms=90.0, attainment=0.4)
    assert block_point(np.array([math.inf, 1.0]), 45.0).ttft_p90_ms is None


def test_the_variance_between_blocks_by_hand() -> None:
    """Ranks 1 2 | 3 4, middle 2.5: between 2 x (1 + 1) / 1 = 4, within (0.5 + 0.5) / 2 = 0.5, two a block:
    (4 - 0.5) / (4 + 0.5) = 7/9. The values themselves do not matter."""
    assert variance_between([np.array([1.0, 2.0]), np.array([3.0, 4.0])]) == pytest.approx(7 / 9)
    assert variance_between([np.array([10.0, 11.0]), np.array([1e6, math.inf])]) == pytest.approx(7 / 9)
    # Ties share a rank: 1.5 1.5 | 3.5 3.5 leaves nothing within.
    assert variance_between([np.array([1.0, 1.0]), np.array([2.0, 2.0])]) == pytest.approx(1.0)
    # Ranks 1 4 | 2 3: equal means.
    assert variance_between([np.array([1.0, 4.0]), np.array([2.0, 3.0])]) == 0.0


def test_blocks_that_tell_nothing_have_no_variance_between_them() -> None:
    assert variance_between([np.arange(5.0)]) is None
    assert variance_between([np.array([1.0]), np.array([2.0])]) is None
    assert variance_between([np.array([7.0, 7.0]), np.array([7.0, 7.0])]) == 0.0
