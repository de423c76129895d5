"""The noise floor: by hand, and against simulations in which nothing but noise differs."""

from __future__ import annotations

from dataclasses import replace
from math import inf, isinf

import numpy as np
import pytest

from kitedash.domain.comparison import Side, cost_difference, ttft_difference
from kitedash.domain.experiment import Guardrails, Targets
from kitedash.domain.noise import ONCE, Noise, cost_range, noise_floor, not_measured, reaches
from kitedash.domain.results import Estimate, LevelStatus
from tests.unit.domain.levels import level, spread

FIRST = (level(1, spread(100, 90, 111)), level(2, spread(200, 180, 222)), level(4, spread(400, 360, 444)))
# 5 % up, 10 % down (200 / 180 = 1.111), 2 % up
AGAIN = (level(1, spread(105, 95, 116)), level(2, spread(180, 165, 198)), level(4, spread(408, 370, 450)))
TARGETS = Targets(ttft_p90_ms=410, cost_per_1000_requests_usd=1, pass_rate=0.5)
GUARDRAILS = Guardrails(tpot_p90_ms=50)


def test_the_floor_is_the_largest_ratio_whichever_way_it_goes() -> None:
    for one, other in ((FIRST, AGAIN), (AGAIN, FIRST)):
        found = noise_floor(one, other)
        assert found.ttft_p90.floor == pytest.approx(200 / 180 - 1)
        assert (found.ttft_p90.rates, found.ttft_p90.at_rate_per_s) == (3, 2)
        assert found.tpot_p90.floor == 0
        assert found.is_measured


def test_a_change_is_covered_up_to_the_floor_and_to_its_reverse() -> None:
    noise = Noise(0.25)
    assert [noise.covers(change) for change in (0.25, 0.2501, -0.2, -0.2001, 0.0)] == [True, False, True, False, True]
    assert not Noise(None).covers(0.0)
    assert not noise.covers(None)
    assert Noise(inf).covers(9.0)


def test_only_rates_that_both_carried_count() -> None:
    overloaded = replace(AGAIN[1], status=LevelStatus.OVERLOADED)
    unstated = level(4, Estimate(None, note="more than a tenth failed"))
    found = noise_floor(FIRST, (AGAIN[0], overloaded, unstated))
    assert found.ttft_p90.floor == pytest.approx(0.05)
    assert found.ttft_p90.rates == 1
    assert found.tpot_p90.rates == 2  # those of 4/s can be stated
    nothing = noise_floor(FIRST, (level(8, spread(1, 1, 1)), replace(AGAIN[0], status=LevelStatus.INVALID)))
    assert nothing.sentence == "Noise floor: not measured, since no rate gave a result both times."
    assert not nothing.ttft_p90.covers(0.0)


def test_in_one_line() -> None:
    found = noise_floor(FIRST, AGAIN, first_usd=0.2, again_usd=0.2, priced=True)
    assert found.sentence == (
        "Noise floor: the baseline measured twice differs by 11.1 % in P90 TTFT, 0.0 % in P90 TPOT and 0.0 % in "
        "deployed cost (the largest of 3 rates)."
    )
    assert "deployed cost" not in noise_floor(FIRST, AGAIN).sentence
    assert not_measured("it was cancelled").sentence == "Noise floor: not measured, since it was cancelled."
    assert not ONCE.is_measured


def test_a_cost_that_one_of_the_two_has_not_is_noise_without_bound() -> None:
    assert noise_floor(FIRST, AGAIN, first_usd=0.2, again_usd=0.3, priced=True).cost.floor == pytest.approx(0.5)
    floor = noise_floor(FIRST, AGAIN, first_usd=0.2, again_usd=None, priced=True).cost.floor
    assert floor is not None
    assert isinf(floor)
    assert "without bound in deployed cost" in noise_floor(FIRST, AGAIN, first_usd=0.2, priced=True).sentence
    neither = noise_floor(FIRST, AGAIN, priced=True).cost
    assert (neither.floor, neither.missing) == (None, "the baseline held no measured rate either time")


def test_what_the_intervals_do_not_explain_is_a_change_of_the_machine() -> None:
    """At 2/s the ends are ln(200/180) = 0.105 each and ln(260/234) = 0.105: a half-width of 0.149 around
    ln(1.3) = 0.262."""
    moved = noise_floor((level(2, spread(200, 180, 222)),), (level(2, spread(260, 234, 289)),)).moved
    assert moved == (
        "The baseline changed between its two measurements by more than their intervals explain, at 2/s: P90 TTFT was "
        "30.0 % higher at the end at 2/s."
    )
    assert noise_floor(FIRST, AGAIN).moved == ""


def test_a_difference_within_the_floor_is_noise_even_where_its_interval_excludes_none() -> None:
    mine, theirs = Side(Estimate(210.0, 209.0, 211.0, 900), 2.0), Side(Estimate(200.0, 199.0, 201.0, 900), 2.0)
    assert ttft_difference(mine, theirs).established
    found = ttft_difference(mine, theirs, Noise(0.06))
    assert (found.outcome, found.established) == ("noise", False)
    assert found.sentence == (
        "P90 TTFT 210 ms at 2/s against 200 ms at 2/s: 5.0 % higher (95 %: 4.3 % higher to 5.7 % higher), noise: no "
        "more than the baseline differs from itself when it is measured twice (6.0 %)."
    )
    assert ttft_difference(mine, theirs, Noise(0.04)).established  # beyond it nothing changes
    assert ttft_difference(mine, mine, Noise(0.06)).outcome == "equal"


def test_a_cost_difference_is_noise_where_the_floor_moves_the_rate_held() -> None:
    """P90 TTFT 400 and 408 ms at 4/s: both within 410 ms, but 400 x 1.111 is not; so the first could have been seen
    to hold 2/s only, and to cost what holds 2/s costs."""
    floor = noise_floor(FIRST, AGAIN)
    could = cost_range(FIRST, floor, TARGETS, GUARDRAILS, lambda rate: 1.2 / rate)
    assert could == pytest.approx((0.3, 0.6))
    assert [reaches(could, usd) for usd in (0.3, 0.6, 0.61, 0.29, None)] == [True, True, False, False, False]
    far = tuple(level(rate, spread(50, 49, 51)) for rate in (1, 2, 4))
    assert cost_range(far, floor, TARGETS, GUARDRAILS, lambda rate: 1.2 / rate) == pytest.approx((0.3, 0.3))
    none = tuple(level(rate, spread(9_000, 8_000, 9_900)) for rate in (1, 2, 4))
    assert cost_range(none, floor, TARGETS, GUARDRAILS, lambda rate: 1.2 / rate) == (inf, inf)
    cheap, dear = Side(Estimate(0.3, 0.3, 0.3, 9)), Side(Estimate(0.6, 0.6, 0.6, 9))
    assert cost_difference(cheap, dear).established
    assert cost_difference(cheap, dear, could_swap=True).outcome == "noise"
    assert cost_difference(cheap, dear, Noise(1.0)).outcome == "noise"
    assert cost_difference(cheap, dear, Noise(0.9)).outcome == "better"


@pytest.mark.parametrize("rates", [3, 5, 9])
def test_noise_alone_exceeds_the_floor_once_in_n_plus_one(rates: int) -> None:
    """Two candidates that are one: the log ratio of a third pair is drawn as those of the n A/A pairs are, so it is
    the largest of n + 1 with probability 1/(n + 1)."""
    draw, simulations = np.random.default_rng(20_261_130), 4_000

    def measured() -> tuple[Estimate, ...]:
        return tuple(spread(float(100 * np.exp(draw.normal(0, 0.04))), None, None) for _ in range(rates + 1))

    beyond = 0
    for _ in range(simulations):
        one, other = measured(), measured()
        floor = noise_floor(
            [level(rate + 1, estimate) for rate, estimate in enumerate(one[:-1])],
            [level(rate + 1, estimate) for rate, estimate in enumerate(other[:-1])],
        )
        beyond += ttft_difference(Side(one[-1]), Side(other[-1]), floor.ttft_p90).outcome in ("better", "worse")
    expected = 1 / (rates + 1)
    assert beyond / simulations == pytest.approx(expected, abs=4 * (expected * (1 - expected) / simulations) ** 0.5)
