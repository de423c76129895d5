"""The charts of a run: what is drawn adds up, failed requests end a curve early, both themes render."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import vl_convert

from kitedash.domain.quantile_curve import quantile_curve
from kitedash.domain.results import LevelStatus, LevelSummary
from kitedash.services.distributions import LevelCurves
from kitedash.ui import theme
from kitedash.ui.run_charts import curves_chart, describe_curves, describe_parts, is_far, parts_chart, rate_colours
from tests.ui import builders


def summary(rate: float, **parts: float) -> LevelSummary:
    known = {"client": 1.0, "front_end": 5.0, "queue": 90.0, "prefill": 180.0, "decode": 700.0}
    return replace(builders.level(rate, 300).summary, parts_ms=known | parts)


def curves(rate: float, status: LevelStatus | None = LevelStatus.OK, failed: int = 0) -> LevelCurves:
    values = np.concatenate([np.arange(1.0, 101.0 - failed), np.full(failed, np.inf)])
    return LevelCurves(
        rate, status, 6, quantile_curve(values * rate), quantile_curve(values[: 100 - failed]), quantile_curve(values)
    )


def data(spec: dict[str, Any], mark: str) -> list[list[dict[str, Any]]]:
    return [spec["datasets"][la["data"]["name"]] for la in spec["layer"] if la["mark"]["type"] == mark]


def test_the_parts_lie_end_to_end_and_sum_to_the_whole() -> None:
    (bars,) = data(parts_chart([summary(1.0), summary(2.0, queue=400.0)], theme.LIGHT).to_dict(), "bar")
    first = [row for row in bars if row["Rate"] == "1/s"]
    assert [(row["start"], row["end"]) for row in first] == [(0, 1), (1, 6), (6, 96), (96, 276), (276, 976)]
    assert [row["end"] for row in bars if row["Rate"] == "2/s"][-1] == 1 + 5 + 400 + 180 + 700


def test_a_residual_below_zero_has_no_width_and_shows_its_value() -> None:
    (bars,) = data(parts_chart([summary(1.0, front_end=-0.5)], theme.LIGHT).to_dict(), "bar")
    assert (bars[1]["start"], bars[1]["end"], bars[1]["Time"]) == (1, 1, "-0.500 ms")


def test_only_segments_with_room_are_labelled() -> None:
    (text,) = data(parts_chart([summary(1.0)], theme.LIGHT).to_dict(), "text")
    assert [row["Time"] for row in text] == ["90.0 ms", "180 ms", "700 ms"]


def test_a_curve_with_failed_requests_ends_below_one_and_keeps_its_p90() -> None:
    spec = curves_chart([curves(1.0, failed=5)], "TTFT", 80.0, "target 80 ms", theme.LIGHT).to_dict()
    (line,) = data(spec, "line")
    assert max(row["share"] for row in line) == 0.95
    (marks,) = data(spec, "point")
    assert [(row["ms"], row["share"], row["P90"]) for row in marks] == [(90.0, 0.9, "90.0 ms (n = 100)")]
    assert data(spec, "rule")[1][0]["ms"] == 80.0


@pytest.mark.parametrize(
    ("limit_ms", "far"),
    [(1e308, True), (10_001.0, True), (9_999.0, False), (50.0, False), (0.011, False), (0.009, True), (1e-300, True)],
)
def test_a_limit_over_two_decades_off_the_data_does_not_stretch_the_axis(limit_ms: float, far: bool) -> None:
    """The curve goes from 1 to 100 ms."""
    found = [curves(1.0)]
    assert is_far(found, "TTFT", limit_ms) is far
    spec = curves_chart(found, "TTFT", limit_ms, "target", theme.LIGHT).to_dict()
    x = next(la["encoding"]["x"] for la in spec["layer"] if la["mark"]["type"] == "line")
    low, high = x["scale"]["domain"]
    if far:
        assert (low, high) == (pytest.approx(0.9), pytest.approx(110))
    else:
        assert low <= limit_ms <= high
    assert len(data(spec, "rule")) == (1 if far else 2)


def test_where_the_p90_failed_nothing_is_marked() -> None:
    spec = curves_chart([curves(1.0, failed=20)], "TTFT", None, "", theme.LIGHT).to_dict()
    assert data(spec, "point") == []
    assert "P90 failed" in describe_curves([curves(1.0, failed=20)], "TTFT")


def test_overloaded_rates_are_dashed_and_named_so() -> None:
    found = [curves(1.0), curves(2.0, LevelStatus.OVERLOADED), curves(4.0, None)]
    spec = curves_chart(found, "E2E", None, "", theme.DARK).to_dict()
    solid, dashed = (la for la in spec["layer"] if la["mark"]["type"] == "line")
    assert dashed["mark"]["strokeDash"] != solid["mark"]["strokeDash"]
    (rows,) = [spec["datasets"][dashed["data"]["name"]]]
    assert {row["Rate"] for row in rows} == {"2/s overloaded"}
    assert len(rate_colours(3, theme.DARK)) == len(set(rate_colours(3, theme.DARK))) == 3


@pytest.mark.parametrize("ink", [theme.LIGHT, theme.DARK])
def test_both_render(ink: theme.Ink) -> None:
    for chart in (
        parts_chart([summary(1.0), summary(2.0)], ink),
        curves_chart([curves(1.0), curves(2.0, LevelStatus.OVERLOADED)], "TPOT", 50.0, "guardrail", ink),
    ):
        svg = vl_convert.vegalite_to_svg(chart.to_json())
        assert svg.startswith("<svg")
        assert "NaN" not in svg


def test_the_words_say_what_is_drawn() -> None:
    assert "1/s: Client lateness 1.00 ms, Front end + HTTP 5.00 ms, Queue 90.0 ms" in describe_parts([summary(1.0)])
    assert "1/s: P50 50.0 ms, P90 90.0 ms, P99 99.0 ms" in describe_curves([curves(1.0)], "TTFT")
