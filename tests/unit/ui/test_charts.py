from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import vl_convert

from kitedash.services.views import TradeoffView
from kitedash.ui import chart_picks, chart_words, picks, theme
from kitedash.ui.charts import pass_rate_domain, ticks, tradeoff_chart
from kitedash.ui.points import CostScale
from tests.ui import builders


def rows(view: TradeoffView, mark: str, **wanted: Any) -> list[list[dict[str, Any]]]:
    """The data of each layer whose mark is `mark` with these properties."""
    spec = tradeoff_chart(view, "deployed", theme.LIGHT)[0].to_dict()
    layers = [la for la in spec["layer"] if la["mark"]["type"] == mark]
    found = [la for la in layers if all(la["mark"].get(k) == v for k, v in wanted.items())]
    return [spec["datasets"][la["data"]["name"]] for la in found]


@pytest.mark.parametrize("scale", ["deployed", "saturated"])
@pytest.mark.parametrize("ink", [theme.LIGHT, theme.DARK])
@pytest.mark.parametrize("name", ["one", "many", "running", "failed"])
def test_every_state_compiles_and_renders(name: str, ink: theme.Ink, scale: str) -> None:
    chart, _ = tradeoff_chart(getattr(builders, name)(), scale, ink)  # type: ignore[arg-type]
    svg = vl_convert.vegalite_to_svg(chart.to_json())
    assert svg.startswith("<svg")
    assert "NaN" not in svg


def test_marked_points_carry_status_shape_and_pass_rate_colour() -> None:
    spec = tradeoff_chart(builders.many(), "deployed", theme.LIGHT)[0].to_dict()
    (layer,) = [la for la in spec["layer"] if "color" in la["encoding"] and la["mark"]["type"] == "point"]
    data = spec["datasets"][layer["data"]["name"]]
    assert len(data) == 7  # one of eight holds no rate
    shape = layer["encoding"]["shape"]["scale"]
    assert dict(zip(shape["domain"], shape["range"], strict=True)) == {
        "meets": "circle",
        "uncertain": "diamond",
        "misses": "triangle-down",
    }
    assert layer["encoding"]["x"]["scale"]["type"] == layer["encoding"]["y"]["scale"]["type"] == "log"
    first = next(row for row in data if row["number"] == 1)
    assert first["P90 TTFT"] == "600 ms (95 %: 540 ms to 660 ms; n = 240)"
    assert first["pass_rate"] == pytest.approx(22 / 60)


def test_rings_are_the_front_among_the_marked_points() -> None:
    (front,) = rows(builders.many(), "point", size=420)
    assert {row["number"] for row in front} == {1, 4}


def test_a_candidate_without_quality_is_hollow_and_has_no_colour() -> None:
    (hollow,) = rows(builders.running(), "point", filled=False, size=165)
    assert [row["Candidate"] for row in hollow] == ["#2 int8"]


def test_error_bars_span_the_intervals() -> None:
    spec = tradeoff_chart(builders.one(), "deployed", theme.LIGHT)[0].to_dict()
    bars = [la for la in spec["layer"] if la["mark"]["type"] == "rule" and "y2" in la["encoding"]]
    (row,) = spec["datasets"][bars[0]["data"]["name"]]
    assert (row["ttft_ms"], row["ttft_to"]) == pytest.approx((540, 660))


def test_every_drawn_candidate_is_named_once() -> None:
    spec = tradeoff_chart(builders.many(), "deployed", theme.LIGHT)[0].to_dict()
    named = [la for la in spec["layer"] if la["mark"]["type"] == "text" and "color" in la["encoding"]]
    found = sorted(row["number"] for la in named for row in spec["datasets"][la["data"]["name"]])
    assert found == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_name_is_data_and_not_markup_in_the_picture() -> None:
    view = builders.one()
    hostile = replace(view.candidates[0], name="<script>x</script>")
    svg = vl_convert.vegalite_to_svg(
        tradeoff_chart(replace(view, candidates=(hostile,)), "deployed", theme.LIGHT)[0].to_json()
    )
    assert "<script" not in svg


@pytest.mark.parametrize(
    ("low", "high"), [(250, 950), (9, 11), (0.02, 0.03), (1, 1_000_000), (0.259, 0.634), (99, 101)]
)
def test_axes_have_a_few_round_ticks(low: float, high: float) -> None:
    found = ticks(low, high)
    assert 2 <= len(found) <= 10
    assert all(low <= value <= high for value in found)
    assert found == sorted(set(found))


def test_the_colour_scale_does_not_blow_up_noise() -> None:
    low, middle, high = pass_rate_domain(builders.many())
    assert high - low >= 0.2 - 1e-9
    assert low <= 19 / 60
    assert high >= 22 / 60
    assert middle == pytest.approx((low + high) / 2)


def test_the_caption_says_which_scale_the_target_is_on() -> None:
    view = builders.many()
    for scale, sentence in (("deployed", "Shaded: both"), ("saturated", "The cost target is on the deployed cost")):
        _, drawn = tradeoff_chart(view, scale, theme.LIGHT)  # type: ignore[arg-type]
        assert sentence in chart_words.legend_caption(drawn, scale, 0.3)  # type: ignore[arg-type]


def steps() -> TradeoffView:
    """float32 holds 1/s at 600 ms and costs the least; int8 only 0.5/s, at 300 ms. bfloat16 is dominated (0.5/s at
    400 ms). fp8 would be on the line by latency (0.25/s at 100 ms), but passes 10 of 60 items; the target is 30 %."""
    return builders.tradeoff(
        (
            builders.candidate(0, (builders.level(1.0, 600),)),
            builders.candidate(3, (builders.level(0.5, 300),)),
            builders.candidate(1, (builders.level(0.5, 400),)),
            builders.candidate(2, (builders.level(0.25, 100),), passed=10),
        )
    )


def corners(view: TradeoffView, scale: CostScale) -> list[tuple[float, float]]:
    spec = tradeoff_chart(view, scale, theme.LIGHT)[0].to_dict()
    lines = [la for la in spec["layer"] if la["mark"].get("interpolate") == "step-after"]
    return [(round(row["cost_usd"], 6), row["ttft_ms"]) for la in lines for row in spec["datasets"][la["data"]["name"]]]


def test_the_step_line_is_the_front_of_cost_and_latency_where_the_pass_rate_is_high_enough() -> None:
    """0.096 USD an hour: at 1/s 0.026667 USD per 1,000 requests, at 0.5/s twice, at 0.25/s four times as much."""
    assert corners(steps(), "saturated") == [(0.026667, 600), (0.053333, 300)]
    lenient = replace(steps(), targets=builders.TARGETS.model_copy(update={"pass_rate": 0.1}))
    assert corners(lenient, "saturated") == [(0.026667, 600), (0.053333, 300), (0.106667, 100)]


def test_the_step_line_is_explained_where_there_is_one() -> None:
    """Deployed, one replica carries the peak at 1/s and at 0.5/s alike: only int8 is left, and one point is no line."""
    assert corners(steps(), "deployed") == []
    for scale, there in (("saturated", True), ("deployed", False)):
        _, drawn = tradeoff_chart(steps(), scale, theme.LIGHT)  # type: ignore[arg-type]
        caption = chart_words.legend_caption(drawn, scale, 0.3)  # type: ignore[arg-type]
        assert ("pass rate is estimated at 30.0 % or more" in caption) == there


def test_clicks_select_by_number_on_the_topmost_layer() -> None:
    view = builders.many()
    spec = tradeoff_chart(view, "deployed", theme.LIGHT)[0].to_dict()
    top = spec["layer"][-1]
    (selection,) = [p for p in (*spec.get("params", ()), *top.get("params", ())) if "select" in p]
    assert selection["name"] == picks.POINT
    assert selection["select"]["fields"] == [picks.NUMBER]
    levels = sum(len(c.levels) for c in view.candidates)
    above = spec["datasets"][top["data"]["name"]]
    assert 0 < len(above) <= levels
    assert {row["number"] for row in above} == set(range(1, 9))


@pytest.mark.parametrize("ink", [theme.LIGHT, theme.DARK])
def test_the_ring_stands_at_the_picked_point_below_the_layer_that_takes_the_clicks(ink: theme.Ink) -> None:
    chart, drawn = tradeoff_chart(builders.many(), "deployed", ink)
    point = chart_picks.named_point(drawn, "int8")
    assert point is not None
    assert point.marked
    spec = chart.to_dict()
    ringed = chart_picks.with_ring(spec, point, ink)
    assert len(ringed["layer"]) == len(spec["layer"]) + 1  # and the built one is left as it was
    assert ringed["layer"][-1] == spec["layer"][-1]
    ring = ringed["layer"][-2]
    assert ring["data"]["values"] == [{"cost_usd": point.cost_usd, "ttft_ms": point.ttft_p90_ms}]
    assert ring["mark"]["color"] == ink.picked
    assert vl_convert.vegalite_to_svg(json.dumps(ringed)).startswith("<svg")
    assert chart_picks.named_point(drawn, "nobody") is None


def test_a_filtered_chart_keeps_the_numbers_of_the_table() -> None:
    _, drawn = tradeoff_chart(builders.many(), "deployed", theme.LIGHT, shown=("int8", "fp8"))
    assert {(p.number, p.candidate) for p in drawn.points} == {(3, "fp8"), (4, "int8")}
