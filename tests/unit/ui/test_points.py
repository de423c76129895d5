from __future__ import annotations

from dataclasses import replace

import pytest

from kitedash.domain.results import Estimate, LevelStatus
from kitedash.ui.points import Picture, picture
from tests.ui import builders


def drawn(pic: Picture, number: int) -> list[float]:
    return [p.level.summary.rate_per_s for p in pic.points if p.number == number]


def test_every_valid_rate_is_a_point_and_the_highest_held_is_marked() -> None:
    pic = picture(builders.one(), "deployed")
    assert drawn(pic, 1) == [0.25, 0.5, 1.0, 2.0]
    assert [p.level.summary.rate_per_s for p in pic.marked] == [1.0]


def test_deployed_cost_of_a_curve_point_is_that_of_replicas_at_its_rate() -> None:
    # 400 users x 20 requests = 8,000 a day; peak 5 x 8,000 / 86,400 s = 0.463/s: two replicas at 0.25/s, one at 1/s.
    cost_usd = {p.level.summary.rate_per_s: p.cost_usd for p in picture(builders.one(), "deployed").points}
    assert cost_usd[0.25] == pytest.approx(2 * 0.096 * 24 / 8_000 * 1_000)
    assert cost_usd[1.0] == pytest.approx(1 * 0.096 * 24 / 8_000 * 1_000)


def test_an_overloaded_point_costs_what_its_offered_rate_would() -> None:
    # 2/s offered and half of it answered: the price is that of the replicas, not of the answers.
    over = replace(builders.level(2, 900, held=False, status=LevelStatus.OVERLOADED), cost_usd=0.5)
    view = builders.tradeoff((builders.candidate(0, (builders.level(1, 300), over)),))
    cost_usd = {p.level.summary.rate_per_s: p.cost_usd for p in picture(view, "deployed").points}
    assert cost_usd[2] == pytest.approx(1 * 0.096 * 24 / 8_000 * 1_000)


def test_the_marked_point_and_the_cost_target_are_on_one_scale() -> None:
    view = builders.one()
    pic = picture(view, "deployed")
    assert pic.marked[0].cost_usd == view.candidates[0].cost.deployed_usd.value  # type: ignore[union-attr]
    assert pic.target_cost_usd == 0.6
    saturated = picture(view, "saturated")
    assert saturated.marked[0].cost_usd == pytest.approx(0.096 / 3_600 * 1_000)
    assert saturated.target_cost_usd is None


def test_invalid_levels_are_never_drawn_and_are_counted() -> None:
    bad = builders.level(4.0, 100, held=False, status=LevelStatus.INVALID, reason="hit rate")
    view = builders.tradeoff((builders.candidate(0, (*builders.one().candidates[0].levels, bad)),))
    pic = picture(view, "deployed")
    assert 4.0 not in drawn(pic, 1)
    assert "1 rate failed a check, so not drawn: see All measured rates." in pic.notes


def test_overloaded_levels_are_told_apart_and_noted() -> None:
    view = builders.many()
    pic = picture(view, "deployed")
    assert {p.overloaded for p in pic.points if p.number == 2} == {False, True}
    assert any(note.startswith("✕ 3 rates overloaded") for note in pic.notes)


def test_a_level_without_a_price_is_counted_and_not_drawn() -> None:
    unpriced = replace(builders.level(0.5, 300), cost_usd=None, deployed_usd=None)
    view = builders.tradeoff((builders.candidate(0, (builders.level(0.25, 250), unpriced)),))
    pic = picture(view, "deployed")
    assert drawn(pic, 1) == [0.25]
    assert any("without a cost" in note for note in pic.notes)


def test_scales_hold_the_marked_points_and_near_targets() -> None:
    pic = picture(builders.many(), "deployed")
    for p in pic.marked:
        assert pic.x_domain[0] < p.cost_usd < pic.x_domain[1]
        assert pic.y_domain[0] < p.ttft_p90_ms < pic.y_domain[1]
    assert pic.y_domain[0] < 800 < pic.y_domain[1]
    assert pic.x_domain[0] < 0.6 < pic.x_domain[1]


def test_a_target_far_from_every_point_is_said_and_not_drawn() -> None:
    view = builders.one()
    pic = picture(replace(view, targets=view.targets.model_copy(update={"ttft_p90_ms": 30.0 / 2})), "deployed")
    assert pic.target_ttft_ms is None
    assert any("TTFT target of 15.0 ms lies off this scale" in note for note in pic.notes)


def test_one_huge_latency_does_not_squeeze_the_rest() -> None:
    view = builders.tradeoff(
        (builders.candidate(0, (builders.level(0.5, 300), builders.level(1, 90_000, held=False))),)
    )
    pic = picture(view, "deployed")
    assert pic.y_domain[1] < 2_000
    assert "1 rate above the scale: see All measured rates." in pic.notes


def test_nothing_measured_is_no_point() -> None:
    assert picture(builders.failed(), "deployed").points == ()


def test_an_unestablished_value_is_not_drawn() -> None:
    level = builders.level(0.5, 300)
    blank = replace(level, summary=replace(level.summary, ttft_p90_ms=Estimate(None, note="too few")))
    assert picture(builders.tradeoff((builders.candidate(0, (blank,)),)), "deployed").points == ()
