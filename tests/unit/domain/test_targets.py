"""Statuses by hand, and that an easier target never makes a status worse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitedash.domain.cost import HeldRange
from kitedash.domain.experiment import Targets
from kitedash.domain.results import Estimate, LevelStatus
from kitedash.domain.targets import Status, candidate_status, operating_status, status_of
from tests.unit.domain.levels import level, spread

TARGETS = Targets(ttft_p90_ms=1_000, cost_per_1000_requests_usd=1, pass_rate=0.6)
MEETS, MISSES, UNCERTAIN, PENDING = Status.MEETS, Status.MISSES, Status.UNCERTAIN, Status.PENDING


@pytest.mark.parametrize(
    ("low", "value", "high", "status"),
    [
        (80, 90, 99, MEETS),
        (80, 90, 100, MEETS),  # the bound on the target is on the right side
        (90, 95, 101, UNCERTAIN),
        (99, 105, 110, UNCERTAIN),
        (100, 105, 110, UNCERTAIN),
        (101, 105, 110, MISSES),
        (101, 105, None, MISSES),  # the open side is the wrong one anyway
        (80, 90, None, UNCERTAIN),
        (None, 90, 99, MEETS),
        (None, 105, 110, UNCERTAIN),
        (None, 90, None, UNCERTAIN),
        (101, None, None, MISSES),  # a floor alone: what no rate held leaves of the cost
        (None, None, None, PENDING),
    ],
)
def test_lower_is_better(low: float | None, value: float | None, high: float | None, status: Status) -> None:
    assert status_of(Estimate(value, low, high, 10), 100) == status


@pytest.mark.parametrize(
    ("low", "value", "high", "status"),
    [
        (0.6, 0.7, 0.8, MEETS),
        (0.59, 0.7, 0.8, UNCERTAIN),
        (0.4, 0.5, 0.6, UNCERTAIN),
        (0.4, 0.5, 0.59, MISSES),
        (None, 0.5, 0.59, MISSES),
        (0.6, 0.7, None, MEETS),
    ],
)
def test_higher_is_better(low: float | None, value: float, high: float | None, status: Status) -> None:
    assert status_of(Estimate(value, low, high, 10), 0.6, higher_is_better=True) == status


def test_no_data_is_pending() -> None:
    assert status_of(None, 100) == PENDING


@pytest.mark.parametrize(
    ("statuses", "status"),
    [
        ([MEETS, MEETS, MEETS], MEETS),
        ([MEETS, UNCERTAIN, MEETS], UNCERTAIN),
        ([MEETS, UNCERTAIN, PENDING], PENDING),
        ([MISSES, UNCERTAIN, PENDING], MISSES),
        ([], PENDING),
    ],
)
def test_a_candidates_status(statuses: list[Status], status: Status) -> None:
    assert candidate_status(statuses) == status


RANK = {MISSES: 0, UNCERTAIN: 1, MEETS: 2}
bounds = st.none() | st.floats(0, 200)


@given(low=bounds, high=bounds, targets=st.tuples(st.floats(1, 200), st.floats(1, 200)))
def test_an_easier_target_is_never_worse(low: float | None, high: float | None, targets: tuple[float, float]) -> None:
    if low is not None and high is not None and low > high:
        low, high = high, low
    estimate = Estimate(100.0, low, high, 10)
    hard, easy = min(targets), max(targets)
    assert RANK[status_of(estimate, hard)] <= RANK[status_of(estimate, easy)]
    as_share = (
        RANK[status_of(estimate, easy, higher_is_better=True)],
        RANK[status_of(estimate, hard, higher_is_better=True)],
    )
    assert as_share[0] <= as_share[1]


def test_at_the_marked_point() -> None:
    levels = [level(1, spread(500, 400, 600)), level(2, spread(900, 700, 1_100))]
    cost = Estimate(0.9, 0.6, 1.0, 400)
    assert operating_status(levels, HeldRange(2, 1, 2), cost, TARGETS, complete=True) == (UNCERTAIN, MEETS)
    assert operating_status(levels, HeldRange(1, 1, 2), cost, TARGETS, complete=True) == (MEETS, MEETS)
    assert operating_status(levels, HeldRange(1, 1, 2), None, TARGETS, complete=True) == (MEETS, PENDING)


def test_rates_still_to_come_leave_both_pending() -> None:
    levels = [level(1, spread(500, 400, 600))]
    cost = Estimate(9.0, 9.0, 9.0, 400)
    assert operating_status(levels, HeldRange(1, 1, 1), cost, TARGETS, complete=False) == (PENDING, PENDING)
    assert operating_status([], HeldRange(None, None, None), None, TARGETS, complete=True) == (PENDING, PENDING)
    invalid = [level(1, spread(500, 400, 600), status=LevelStatus.INVALID)]
    assert operating_status(invalid, HeldRange(None, None, None), None, TARGETS, complete=True) == (PENDING, PENDING)


def test_every_rate_ruled_out() -> None:
    nothing, floor = HeldRange(None, None, None), Estimate(None)
    slow = [level(1, spread(1_500, 1_200, 1_900)), level(2, spread(3_000, 2_500, 3_900))]
    assert operating_status(slow, nothing, floor, TARGETS, complete=True) == (MISSES, MISSES)
    overloaded = [level(1, spread(800, 700, 900), status=LevelStatus.OVERLOADED)]
    assert operating_status(overloaded, nothing, floor, TARGETS, complete=True) == (MISSES, MISSES)
    # A guardrail stands in the way at the lowest rate, and TTFT is within its target there: TTFT itself is not lost.
    guardrail = [level(1, spread(300, 250, 350), tpot=spread(80, 70, 90))]
    assert operating_status(guardrail, nothing, floor, TARGETS, complete=True) == (UNCERTAIN, MISSES)
    assert operating_status(guardrail, nothing, None, TARGETS, complete=True) == (UNCERTAIN, MISSES)
    # More than a tenth failed: the P90 and its lower bound are failed requests, above any target.
    failed = [level(1, Estimate(None, None, None, 400, "more than 10% of the requests failed"), error_rate=0.5)]
    assert operating_status(failed, nothing, floor, TARGETS, complete=True) == (MISSES, MISSES)


def test_no_rate_held_but_one_may_be() -> None:
    levels = [level(1, spread(1_100, 900, 1_300)), level(2, spread(2_000, 1_800, 2_300))]
    held = HeldRange(None, None, 1)
    assert operating_status(levels, held, Estimate(None, 0.5), TARGETS, complete=True) == (UNCERTAIN, UNCERTAIN)
    assert operating_status(levels, held, Estimate(None, 3.6), TARGETS, complete=True) == (UNCERTAIN, MISSES)
    assert operating_status(levels, held, None, TARGETS, complete=True) == (UNCERTAIN, PENDING)
