"""The front against a brute-force oracle; its probabilities against cases whose answer is known."""

from __future__ import annotations

from time import process_time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitedash.domain.experiment import Guardrails, Targets
from kitedash.domain.pareto import FrontEvidence, RateEvidence, _front, dominates, front_probability, losses, on_front
from kitedash.domain.results import Estimate

TARGETS = Targets(ttft_p90_ms=1_000, cost_per_1000_requests_usd=1, pass_rate=0.6)
GUARDRAILS = Guardrails(tpot_p90_ms=50)
Point = tuple[float, float, float]

# Few distinct values, so that ties are common.
points = st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4)).map(
    lambda p: (float(p[0]), float(p[1]), p[2] / 4)
)


def front(drawn: list[Point]) -> list[bool]:
    return on_front([p[0] for p in drawn], [p[1] for p in drawn], [p[2] for p in drawn])


def beats(one: Point, other: Point) -> bool:
    as_good = one[0] <= other[0] and one[1] <= other[1] and one[2] >= other[2]
    return as_good and one != other


@given(st.lists(points, min_size=1, max_size=10))
def test_the_front_is_what_nobody_beats(drawn: list[Point]) -> None:
    assert front(drawn) == [not any(beats(other, one) for other in drawn) for one in drawn]
    assert any(front(drawn))
    every = np.array([losses(*one) for one in drawn]).T[:, np.newaxis, :]
    assert _front(every)[0].tolist() == front(drawn)  # all draws at once, by the same rule


def test_as_good_in_all_and_better_in_one_is_needed() -> None:
    assert dominates(losses(399, 1, 0.6), losses(400, 1, 0.6))
    assert dominates(losses(400, 1, 0.7), losses(400, 1, 0.6))
    assert not dominates(losses(400, 1, 0.6), losses(400, 1, 0.6))
    assert not dominates(losses(300, 1.1, 0.6), losses(400, 1, 0.6))
    assert dominates((1, 2), (1, 3))


@given(st.lists(points, min_size=1, max_size=8), st.data())
def test_a_dominated_candidate_changes_nothing(drawn: list[Point], data: st.DataObject) -> None:
    one = data.draw(st.sampled_from(drawn))
    worse = (one[0] + 1, one[1], one[2])
    assert front([*drawn, worse]) == [*front(drawn), False]


def test_ties_are_kept() -> None:
    assert front([(1, 1, 0.5), (1, 1, 0.5), (1, 1, 0.4)]) == [True, True, False]


ITEMS = {f"item-{i}": f"item-{i}" for i in range(100)}


def evidence(ttft: Estimate, cost: float = 0.5, passes: int = 70, *, tpot: Estimate | None = None) -> FrontEvidence:
    rate = RateEvidence(ttft, tpot or Estimate(20, 19, 21, 400), True, cost)
    return FrontEvidence((rate,), {item: i < passes for i, item in enumerate(ITEMS)})


def probabilities(*candidates: FrontEvidence, draws: int = 4_000) -> list[float]:
    return front_probability(candidates, ITEMS, TARGETS, GUARDRAILS, draws=draws)


def test_clearly_separated() -> None:
    good, bad = evidence(Estimate(300, 280, 320, 400), 0.4, 80), evidence(Estimate(600, 560, 650, 400), 0.8, 60)
    assert probabilities(good, bad) == [1.0, 0.0]


def test_each_better_at_something() -> None:
    fast, cheap = evidence(Estimate(300, 280, 320, 400), 0.8), evidence(Estimate(600, 560, 650, 400), 0.4)
    assert probabilities(fast, cheap) == [1.0, 1.0]


def test_equal_candidates_share_the_front() -> None:
    """Without noise a tie keeps both. With noise, equal cost and equal answers, the faster draw wins: one half each."""
    still = evidence(Estimate(300, 300, 300, 400))
    assert probabilities(still, still) == [1.0, 1.0]
    noisy = evidence(Estimate(300, 250, 360, 400))
    one, other = probabilities(noisy, noisy)
    assert one == pytest.approx(0.5, abs=0.03)
    assert one + other == pytest.approx(1.0)


def test_the_probability_of_being_faster() -> None:
    """Log-normal with the same spread s: P(A < B) = Phi(ln(b / a) / (s sqrt 2)); here ln 1.1 / (0.1 sqrt 2) =
    0.674: 0.75.
    """
    s = np.exp(1.959964 * 0.1)
    a, b = 300.0, 330.0
    one, other = probabilities(
        evidence(Estimate(a, a / s, a * s, 400)), evidence(Estimate(b, b / s, b * s, 400)), draws=20_000
    )
    assert one == pytest.approx(0.75, abs=0.015)
    assert other == pytest.approx(0.25, abs=0.015)


def test_pairing_of_the_answers_carries_over() -> None:
    """B passes all that A passes and two items more; all else equal. Resampled in pairs, A is never above B."""
    still = Estimate(300, 300, 300, 400)
    a, b = probabilities(evidence(still, passes=70), evidence(still, passes=72))
    assert b == 1.0
    # A ties with B where neither of the two items is drawn: (98 / 100) ** 100 = 0.133.
    assert a == pytest.approx(0.133, abs=0.02)


def test_clusters_are_resampled_whole() -> None:
    """One of ten clusters holds the only difference; a draw leaves it out with probability 0.9 ** 10 = 0.349."""
    clusters = {f"item-{i}": f"file-{i // 10}" for i in range(100)}
    still = Estimate(300, 300, 300, 400)
    pair = evidence(still, passes=60), evidence(still, passes=70)
    a, b = front_probability(pair, clusters, TARGETS, GUARDRAILS, draws=4_000)
    assert b == 1.0
    assert a == pytest.approx(0.349, abs=0.03)


def test_few_clusters_are_taken_as_independent_items() -> None:
    clusters = {f"item-{i}": f"file-{i // 20}" for i in range(100)}
    still = Estimate(300, 300, 300, 400)
    pair = evidence(still, passes=70), evidence(still, passes=72)
    assert front_probability(pair, clusters, TARGETS, GUARDRAILS) == front_probability(pair, ITEMS, TARGETS, GUARDRAILS)


def test_a_missing_answer_is_not_a_pass() -> None:
    still = Estimate(300, 300, 300, 400)
    full = evidence(still, passes=70)
    lacking = FrontEvidence(full.rates, {item: passed for item, passed in full.passed.items() if item > "item-5"})
    assert probabilities(lacking, full)[1] == 1.0
    assert probabilities(lacking, full)[0] < 0.01


def test_the_held_rate_is_found_anew_in_every_draw() -> None:
    """2/s is on its target: held in half of the draws, at half the cost. Only then does it beat the fixed rival's
    cost.
    """
    low = RateEvidence(Estimate(500, 500, 500, 400), Estimate(20, 19, 21, 400), True, 1.0)
    high = RateEvidence(Estimate(1_000, 800, 1_250, 400), Estimate(20, 19, 21, 400), True, 0.5)
    passed = dict.fromkeys(ITEMS, True)
    rival = evidence(Estimate(400, 400, 400, 400), 0.7, 100)
    unsure, always = probabilities(FrontEvidence((low, high), passed), rival)
    assert unsure == pytest.approx(0.5, abs=0.03)
    assert always == 1.0


def test_a_candidate_that_holds_nothing_is_never_on_the_front() -> None:
    too_slow = evidence(Estimate(2_000, 1_900, 2_100, 400), 0.1, 100)
    overloaded = FrontEvidence((RateEvidence(Estimate(100, 90, 110, 400), Estimate(20, 19, 21, 400), False, 0.1),), {})
    slow_tokens = evidence(Estimate(100, 90, 110, 400), 0.1, 100, tpot=Estimate(80, 75, 85, 400))
    plain = evidence(Estimate(300, 280, 320, 400))
    assert probabilities(too_slow, overloaded, slow_tokens, plain) == [0.0, 0.0, 0.0, 1.0]


def test_answers_of_one_token_are_held_without_tpot() -> None:
    assert probabilities(evidence(Estimate(300, 280, 320, 400), tpot=Estimate(None))) == [1.0]


def test_missing_bounds_are_drawn_wide() -> None:
    """One bound missing: the other's spread. Both missing: e^0.5 is one standard deviation; here P(TTFT <= 1,000
    ms).
    """
    unsure = probabilities(evidence(Estimate(1_000 / np.exp(0.5), None, None, 12)), draws=20_000)[0]
    assert unsure == pytest.approx(0.841, abs=0.01)
    s = np.exp(1.959964 * 0.1)
    one_sided = probabilities(evidence(Estimate(1_000 / np.exp(0.1), 1_000 / np.exp(0.1) / s, None, 12)), draws=20_000)[
        0
    ]
    assert one_sided == pytest.approx(0.841, abs=0.01)


def test_it_repeats_by_its_seed() -> None:
    noisy = evidence(Estimate(300, 250, 360, 400))
    assert probabilities(noisy, noisy, noisy) == probabilities(noisy, noisy, noisy)


def test_nothing_to_compare() -> None:
    assert front_probability([], ITEMS, TARGETS, GUARDRAILS) == []
    assert front_probability([evidence(Estimate(300, 280, 320, 400))], {}, TARGETS, GUARDRAILS) == [0.0]


def test_a_thousand_draws_of_twelve_candidates_are_quick() -> None:
    rates = tuple(
        RateEvidence(
            Estimate(300 + 100 * i, 250 + 100 * i, 380 + 100 * i, 400), Estimate(20, 19, 21), True, 1 / (i + 1)
        )
        for i in range(5)
    )
    items = {f"item-{i}": f"item-{i}" for i in range(160)}
    candidates = [FrontEvidence(rates, {item: (i + j) % 3 > 0 for i, item in enumerate(items)}) for j in range(12)]
    begun = process_time()  # other processes of a busy machine don't count
    front_probability(candidates, items, TARGETS, GUARDRAILS)
    assert process_time() - begun < 0.3
