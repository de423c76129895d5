"""Differences between two candidates: values worked by hand, and the ratio's interval against a known truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from kitedash.domain.comparison import Side, cost_difference, pass_rate_difference, ttft_difference
from kitedash.domain.quantile import quantile_interval
from kitedash.domain.ratio import cost_change, latency_change
from kitedash.domain.results import Estimate

MINE = Estimate(230.0, 207.0, 253.0, 240)
THEIRS = Estimate(260.0, 234.0, 286.0, 180)


def test_the_ratio_of_two_latencies_by_hand() -> None:
    """Both intervals are 10 % to each side: ln(1/0.9) = 0.105361 and ln(1.1) = 0.095310 add to 0.142074 as squares.
    230/260 = 0.884615; x exp(-0.142074) = 0.767455; x exp(0.142074) = 1.019662."""
    found = latency_change(MINE, THEIRS)
    assert found is not None
    assert found.value == pytest.approx(-0.115385, abs=1e-6)
    assert (found.low, found.high) == pytest.approx((-0.232545, 0.019662), abs=2e-6)
    assert found.n == 180


def test_a_latency_difference_in_words() -> None:
    found = ttft_difference(Side(MINE, 4.0), Side(THEIRS, 2.0))
    assert (found.outcome, found.established) == ("better", False)
    assert found.sentence == (
        "P90 TTFT 230 ms at 4/s against 260 ms at 2/s: 11.5 % lower (95 %: 23.3 % lower to 2.0 % higher), "
        "not established."
    )
    turned = ttft_difference(Side(Estimate(500.0, 480.0, 520.0, 9)), Side(THEIRS))
    assert (turned.outcome, turned.established) == ("worse", True)


def test_costs_jump_by_whole_replicas_so_their_ends_are_opposite_ends() -> None:
    found = cost_change(Estimate(0.2, 0.1, 0.3, 5), Estimate(0.4, 0.35, 0.5, 5))
    assert found is not None
    assert found.value == pytest.approx(-0.5)
    assert (found.low, found.high) == pytest.approx((0.1 / 0.5 - 1, 0.3 / 0.35 - 1))
    difference = cost_difference(Side(Estimate(0.2, 0.1, 0.3, 5)), Side(Estimate(0.4, 0.35, 0.5, 5)))
    assert (difference.outcome, difference.established) == ("better", True)  # the two intervals do not overlap
    overlapping = cost_difference(Side(Estimate(0.2, 0.1, 0.36, 5)), Side(Estimate(0.4, 0.35, 0.5, 5)))
    assert (overlapping.outcome, overlapping.established) == ("better", False)


def test_costs_of_as_many_replicas_are_equal() -> None:
    same = Estimate(0.0418, 0.0418, 0.0418, 240)
    found = cost_difference(Side(same), Side(replace(same, value=0.0418 * (1 + 1e-12))))
    assert (found.outcome, found.established) == ("equal", False)
    assert "no change (95 %: both ends 0.0 %)." in found.sentence


@pytest.mark.parametrize("bound", ["low", "high"])
def test_a_bound_that_is_not_known_leaves_its_end_open(bound: str) -> None:
    found = latency_change(replace(MINE, **{bound: None}), THEIRS)
    assert found is not None
    assert getattr(found, bound) is None
    assert "is not established" in found.note
    for mine in (replace(MINE, low=None, high=None), replace(MINE, **{bound: None})):
        difference = ttft_difference(Side(mine), Side(THEIRS))
        assert (difference.outcome, difference.established) == ("better", False)


def test_no_interval_at_all_establishes_nothing() -> None:
    found = ttft_difference(Side(Estimate(10.0, n=3)), Side(Estimate(1_000.0, n=3)))
    assert (found.outcome, found.established) == ("better", False)
    assert "(no interval), not established" in found.sentence
    assert found.change is not None
    assert (found.change.low, found.change.high) == (None, None)


def test_without_an_operating_point_it_is_unknown_and_says_why() -> None:
    found = ttft_difference(Side(MINE), Side(None, missing="No measured rate of fp8 is held."))
    assert (found.outcome, found.established, found.change) == ("unknown", False, None)
    assert found.sentence == "P90 TTFT: not comparable. No measured rate of fp8 is held."
    both = cost_difference(Side(None, missing="One."), Side(None, missing="Two."))
    assert both.sentence == "Deployed cost: not comparable. One. Two."
    assert ttft_difference(Side(Estimate(None, 5.0)), Side(THEIRS)).outcome == "unknown"


@pytest.mark.parametrize(
    ("change", "outcome", "established"),
    [
        (Estimate(-0.05, -0.12, 0.02, 60), "worse", False),
        (Estimate(-0.05, -0.08, -0.01, 60), "worse", True),
        (Estimate(0.05, 0.01, 0.08, 60), "better", True),
        (Estimate(0.0, -0.05, 0.05, 60), "equal", False),
    ],
)
def test_the_pass_rate_is_judged_by_its_paired_change(change: Estimate, outcome: str, established: bool) -> None:
    found = pass_rate_difference(Side(Estimate(0.55)), Side(Estimate(0.6)), change, "")
    assert (found.outcome, found.established) == (outcome, established)
    assert found.sentence.startswith("Pass rate 55.0 % against 60.0 %: ")
    assert pass_rate_difference(Side(None), Side(None), None, "Nobody asked.").sentence.endswith("Nobody asked.")


def _exact(sample: NDArray[np.float64]) -> Estimate:
    """P90 of independent values with the exact interval of order statistics: as near to 95 % as ranks allow."""
    values, n = np.sort(sample), len(sample)
    low, high = (int(rank) for rank in stats.binom.ppf((0.025, 0.975), n, 0.9))
    return Estimate(float(values[int(0.9 * n) - 1]), float(values[low - 1]), float(values[high]), n)


def _coverage(
    interval: Callable[[NDArray[np.float64]], Estimate], *, shared: float, rounds: int, seed: int = 3
) -> float:
    """Share of rounds in which the interval holds the true ratio of the P90s, 1.3, of two log-normal latencies (800
    requests each) whose logarithms have the part `shared` in common, as under the same arrivals. An open end holds."""
    random = np.random.default_rng(seed)
    held = 0
    for _ in range(rounds):
        common, one, two = random.normal(size=(3, 800))
        mine = 1.3 * np.exp(0.5 * (shared**0.5 * common + (1 - shared) ** 0.5 * one))
        theirs = np.exp(0.5 * (shared**0.5 * common + (1 - shared) ** 0.5 * two))
        found = latency_change(interval(mine), interval(theirs))
        assert found is not None
        held += (found.low is None or found.low <= 0.3) and (found.high is None or found.high >= 0.3)
    return held / rounds


def test_from_exact_intervals_the_ratio_is_held_as_often_as_said() -> None:
    assert 0.94 <= _coverage(_exact, shared=0.0, rounds=3_000) <= 0.97


def test_shared_arrivals_make_the_interval_wider_than_needed_never_narrower() -> None:
    assert _coverage(_exact, shared=0.7, rounds=1_000) >= 0.985


def test_from_stored_intervals_which_allow_for_blocks_it_errs_on_the_safe_side() -> None:
    stored = _coverage(lambda sample: quantile_interval(np.split(sample, 8), 0.9), shared=0.0, rounds=200)
    assert stored >= 0.95


def test_a_true_change_of_a_third_is_established() -> None:
    """What the width is worth: 800 requests each, a ratio of 1.3."""
    random = np.random.default_rng(5)
    found = [
        ttft_difference(Side(_exact(1.3 * np.exp(0.3 * one))), Side(_exact(np.exp(0.3 * two))))
        for one, two in random.normal(size=(200, 2, 800))
    ]
    assert sum(one.established and one.outcome == "worse" for one in found) >= 190
    none = [
        ttft_difference(Side(_exact(np.exp(0.3 * one))), Side(_exact(np.exp(0.3 * two))))
        for one, two in random.normal(size=(500, 2, 800))
    ]
    assert sum(one.established for one in none) <= 40  # 5 % of 500 are due
