"""Costs by hand for Kite's day, and the range of the highest rate held against a simulated truth."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student

from kitedash.domain.cost import (
    HeldRange,
    cost_at_rate_usd,
    deployed_cost,
    deployed_cost_usd,
    held_range,
    level_cost_usd,
    replicas_for_peak,
    saturated_cost,
    served_rate_per_s,
)
from kitedash.domain.experiment import Guardrails, Targets, Workload
from kitedash.domain.results import Estimate, LevelStatus
from tests.unit.domain.levels import level, spread

TARGETS = Targets(ttft_p90_ms=1_000, cost_per_1000_requests_usd=1, pass_rate=0.6)
GUARDRAILS = Guardrails(tpot_p90_ms=50, error_rate=0.01)
KITE = Workload()  # 10,000 developers x 20 questions a day, five times the mean at the peak

MEASURED = [
    level(1, spread(300, 250, 350)),
    level(2, spread(600, 500, 750)),
    level(4, spread(900, 800, 1_100)),
    level(8, spread(1_050, 950, 1_300)),
]


def test_kites_day() -> None:
    assert KITE.requests_per_day == 200_000
    assert KITE.mean_rate_per_s == pytest.approx(2.3148, abs=5e-5)
    assert KITE.peak_rate_per_s == pytest.approx(11.574, abs=5e-4)


def test_one_busy_replica() -> None:
    # 4/s are 14,400 requests an hour: 2.50 USD / 14.4 thousands.
    assert cost_at_rate_usd(2.5, 1, 4) == pytest.approx(0.1736, abs=5e-5)
    assert cost_at_rate_usd(2.5, 2, 4) == pytest.approx(0.3472, abs=5e-5)
    assert cost_at_rate_usd(2.5, 1, 0) is None


def test_deployed_for_kites_peak() -> None:
    # 11.57/s over 4/s: 3 replicas; 3 x 2.50 USD x 24 h = 180 USD a day over 200 thousands.
    assert replicas_for_peak(KITE, 4) == 3
    assert deployed_cost_usd(2.5, 1, 4, KITE) == pytest.approx(0.90)
    assert deployed_cost_usd(2.5, 2, 4, KITE) == pytest.approx(1.80)
    spare = KITE.model_copy(update={"spare_replicas": 1})
    assert replicas_for_peak(spare, 4) == 4
    assert deployed_cost_usd(2.5, 1, 4, spare) == pytest.approx(1.20)


def test_a_whole_quotient_needs_no_further_replica() -> None:
    # A tenth of a request a second, six times at the peak: 0.6 / 0.1 is 6.000000000000001 in floating point.
    workload = Workload(users=8_640, requests_per_user_per_day=1, peak_factor=6)
    assert [replicas_for_peak(workload, rate) for rate in (0.1, 0.2, 0.3, 0.6, 0.7)] == [6, 3, 2, 1, 1]
    assert replicas_for_peak(workload, 0.59) == 2


def test_held_range_by_hand() -> None:
    assert held_range(MEASURED, TARGETS, GUARDRAILS) == HeldRange(value=4, pessimistic=2, optimistic=8)


def test_cost_intervals_come_from_the_held_range() -> None:
    held = held_range(MEASURED, TARGETS, GUARDRAILS)
    deployed = deployed_cost(MEASURED, held, 2.5, 1, KITE)
    # replicas 3, and 2 at 8/s, 6 at 2/s: each is 0.30 USD per 1,000 requests.
    assert (deployed.value, deployed.low, deployed.high) == pytest.approx((0.9, 0.6, 1.8))
    saturated = saturated_cost(MEASURED, held, 2.5, 1)
    assert (saturated.value, saturated.low, saturated.high) == pytest.approx((0.17361, 0.08681, 0.34722), rel=1e-4)
    assert deployed.n == 400


def test_a_bound_that_is_not_established() -> None:
    few = [level(1, Estimate(300, 200, None, 30, "too few")), level(2, Estimate(600, None, None, 60, "too few"))]
    held = held_range(few, TARGETS, GUARDRAILS)
    assert held == HeldRange(value=2, pessimistic=None, optimistic=2)
    cost = deployed_cost(few, held, 2.5, 1, KITE)
    assert cost.value == pytest.approx(1.8)
    assert cost.high is None
    assert "no upper bound" in cost.note


def test_overload_errors_and_guardrails_rule_a_rate_out() -> None:
    fine = spread(300, 250, 350)
    assert (
        held_range([level(1, fine), level(2, fine, status=LevelStatus.OVERLOADED)], TARGETS, GUARDRAILS).optimistic == 1
    )
    assert held_range([level(1, fine), level(2, fine, error_rate=0.02)], TARGETS, GUARDRAILS).optimistic == 1
    slow_tokens = level(2, fine, tpot=spread(60, 55, 65))
    assert held_range([level(1, fine), slow_tokens], TARGETS, GUARDRAILS) == HeldRange(1, 1, 1)
    perhaps = level(2, fine, tpot=spread(48, 45, 55))
    assert held_range([level(1, fine), perhaps], TARGETS, GUARDRAILS) == HeldRange(2, 1, 2)


def test_invalid_levels_say_nothing() -> None:
    fine = spread(300, 250, 350)
    assert held_range([level(1, fine), level(2, fine, status=LevelStatus.INVALID)], TARGETS, GUARDRAILS) == HeldRange(
        1, 1, 1
    )
    assert held_range([], TARGETS, GUARDRAILS) == HeldRange(None, None, None)


def test_a_rate_held_above_one_that_is_ruled_out_is_not_established() -> None:
    contradiction = [level(1, spread(1_200, 1_100, 1_300)), level(2, spread(300, 250, 350))]
    assert held_range(contradiction, TARGETS, GUARDRAILS) == HeldRange(value=2, pessimistic=None, optimistic=2)


def test_no_rate_held_leaves_a_floor_under_the_cost() -> None:
    nearly = [level(1, spread(1_100, 900, 1_300)), level(2, spread(2_000, 1_800, 2_300))]
    held = held_range(nearly, TARGETS, GUARDRAILS)
    assert held == HeldRange(None, None, 1)
    cost = deployed_cost(nearly, held, 2.5, 1, KITE)
    assert cost.value is None
    assert cost.low == pytest.approx(3.6)  # 12 replicas at 1/s


def test_the_rate_that_counts_is_what_was_answered() -> None:
    fine = spread(300, 250, 350)
    # The seed drew 10 % more arrivals than the rate says: no gain for the candidate.
    assert served_rate_per_s(level(4, fine, delivered_rate_per_s=4.4)) == 4
    assert level_cost_usd(level(4, fine), 2.5, 1, 20) == pytest.approx(0.17361, rel=1e-4)
    assert served_rate_per_s(level(4, fine, error_rate=0.25)) == pytest.approx(3)
    assert level_cost_usd(level(4, fine, error_rate=1.0), 2.5, 1, 20) is None
    assert level_cost_usd(level(4, fine, status=LevelStatus.INVALID), 2.5, 1, 20) is None
    # Offered 8/s, of which 50 output tokens a second came out, 20 to an answer: 2.5/s.
    overloaded = level(8, fine, status=LevelStatus.OVERLOADED, output_tokens_per_s=50)
    assert level_cost_usd(overloaded, 2.5, 1, 20) == pytest.approx(2.5 / (2.5 * 3_600) * 1_000)


def test_answers_of_one_token_have_no_tpot() -> None:
    single = [
        level(1, spread(300, 250, 350), tpot=Estimate(None)),
        level(2, spread(900, 800, 1_100), tpot=Estimate(None)),
    ]
    assert held_range(single, TARGETS, GUARDRAILS) == HeldRange(2, 1, 2)


ttfts = st.builds(
    lambda value, down, up: Estimate(
        value, value - down if down is not None else None, value + up if up is not None else None, 50
    ),
    st.floats(500, 1_500),
    st.none() | st.floats(0, 400),
    st.none() | st.floats(0, 400),
)


@given(
    st.lists(
        st.tuples(ttfts, st.sampled_from(LevelStatus), st.sampled_from([0.0, 0.005, 0.05])), min_size=1, max_size=6
    )
)
def test_the_range_encloses_the_rate_and_the_costs_follow(drawn: list[tuple[Estimate, LevelStatus, float]]) -> None:
    levels = [
        level(rate, ttft, status=status, error_rate=errors)
        for rate, (ttft, status, errors) in enumerate(drawn, start=1)
    ]
    held = held_range(reversed(levels), TARGETS, GUARDRAILS)
    order = [rate if rate is not None else 0 for rate in (held.pessimistic, held.value, held.optimistic)]
    assert order == sorted(order)
    for cost in (deployed_cost(levels, held, 2.5, 1, KITE), saturated_cost(levels, held, 2.5, 1)):
        assert (cost.value is None) == (held.value is None)
        present = [bound for bound in (cost.low, cost.value, cost.high) if bound is not None]
        assert present == sorted(present)


def test_the_range_covers_the_true_rate() -> None:
    """Simulated: P90 TTFT known at four rates, eight blocks each with 15 % noise, t intervals of the blocks' mean.

    At 3/s the truth is 6 % below the target: this rate is the highest held. By design at most 2.5 % of the ranges lie
    above it and 2.5 % below (a little more through rates beyond, none here).
    """
    rng = np.random.default_rng(20_261_130)
    truth = {1: 400.0, 2: 700.0, 3: 940.0, 4: 1_070.0}
    runs, blocks, covered, wrong_point = 1_000, 8, 0, 0
    factor = student.ppf(0.975, blocks - 1) / sqrt(blocks)
    for _ in range(runs):
        levels = []
        for rate, true_ms in truth.items():
            seen = true_ms * (1 + 0.15 * rng.standard_normal(blocks))
            half = factor * seen.std(ddof=1)
            levels.append(level(rate, spread(seen.mean(), seen.mean() - half, seen.mean() + half)))
        held = held_range(levels, TARGETS, GUARDRAILS)
        covered += (held.pessimistic or 0) <= 3 <= (held.optimistic or 0)
        wrong_point += held.value != 3
    assert wrong_point > 100  # the marked point alone is often the wrong one, so the range has work to do
    assert covered >= 0.935 * runs  # 95 % less two standard errors
