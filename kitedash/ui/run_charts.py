"""Charts of one run: the parts of its slower requests, and the distributions of its latencies. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

from kitedash.domain.quantile_curve import QuantileCurve
from kitedash.domain.request_parts import PARTS
from kitedash.domain.results import LevelStatus, LevelSummary
from kitedash.services.distributions import LevelCurves
from kitedash.ui import formats, theme
from kitedash.ui.charts import ticks

PART_NAMES: dict[str, str] = dict(
    zip(
        PARTS,
        ("Client lateness", "Front end + HTTP", "Queue", "Prefill", "Decode (after the first token)"),
        strict=True,
    )
)
METRICS = {"TTFT": "ttft", "TPOT": "tpot", "E2E": "e2e"}  # as shown -> field of LevelCurves
METRIC_NAMES = {
    "TTFT": "Time to first token",
    "TPOT": "Time per output token after the first",
    "E2E": "End-to-end latency",
}
MARKED = 0.9
_PARTS_LIGHT = ("#7b8594", "#9d5fb8", "#c2700f", "#1f8478", "#1d4ed8")
_PARTS_DARK = ("#9aa5b4", "#cfa3e2", "#fbbf24", "#2dd4bf", "#6ea3ff")
_LABELLED_SHARE = 0.075  # of the longest bar: a segment shorter than this has no room for its number
_FAR = 100.0  # two decades: the curves keep a third of an axis that is stretched by as much
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")


def parts_chart(levels: Sequence[LevelSummary], ink: theme.Ink) -> alt.LayerChart:
    """One bar a rate: the mean parts, in the order in which a request goes through them, laid end to end."""
    rows = _part_rows(levels)
    rates = [formats.rate(level.rate_per_s) for level in levels]
    names = list(PART_NAMES.values())
    y = alt.Y("Rate:N", sort=rates, title="Offered rate", scale=alt.Scale(paddingInner=0.35, paddingOuter=0.2))
    x = alt.X("start:Q", title="ms from when the request was due", axis=alt.Axis(format=",.0f", tickCount=8))
    bars = (
        alt.Chart(pd.DataFrame(rows))
        .mark_bar()
        .encode(
            y,
            x,
            x2="end:Q",
            color=alt.Color(
                "Part:N",
                sort=names,
                scale=alt.Scale(domain=names, range=list(part_colours(ink))),
                legend=alt.Legend(orient="top", title=None, columns=len(names), symbolType="square", labelLimit=240),
            ),
            tooltip=[alt.Tooltip("Rate:N"), alt.Tooltip("Part:N"), alt.Tooltip("Time:N")],
        )
    )
    labelled = [row for row in rows if row["labelled"]]
    layers: list[alt.Chart] = [bars]
    if labelled:
        text = alt.Chart(pd.DataFrame(labelled)).mark_text(color=ink.background, fontSize=11, fontWeight="bold")
        layers.append(text.encode(y, alt.X("middle:Q"), text="Time:N"))
    chart: alt.LayerChart = alt.layer(*layers).properties(height=125 + 44 * len(levels)).configure_view(stroke=None)
    return chart


def part_colours(ink: theme.Ink) -> tuple[str, ...]:
    """Of PARTS, in their order."""
    return _PARTS_DARK if ink is theme.DARK else _PARTS_LIGHT


def _part_rows(levels: Sequence[LevelSummary]) -> list[dict[str, Any]]:
    longest = max((sum(level.parts_ms.values()) for level in levels), default=0.0)
    rows = []
    for level in levels:
        start = 0.0
        for part, name in PART_NAMES.items():
            ms = level.parts_ms[part]
            end = start + max(0.0, ms)  # the residual may be a hair below zero
            rows.append(
                {
                    "Rate": formats.rate(level.rate_per_s),
                    "Part": name,
                    "Time": formats.ms(ms),
                    "start": start,
                    "middle": (start + end) / 2,
                    "end": end,
                    "labelled": end - start >= _LABELLED_SHARE * longest,
                }
            )
            start = end
    return rows


def describe_parts(levels: Sequence[LevelSummary]) -> str:
    """The chart in words, for whoever can't see it."""
    said = []
    for level in levels:
        parts = ", ".join(f"{name} {formats.ms(level.parts_ms[part])}" for part, name in PART_NAMES.items())
        said.append(f"{formats.rate(level.rate_per_s)}: {parts}")
    return "Mean parts of the requests around the TTFT P90, one bar a rate. " + "; ".join(said) + "."


def curves_chart(
    curves: Sequence[LevelCurves], metric: str, limit_ms: float | None, limit_text: str, ink: theme.Ink
) -> alt.LayerChart:
    """The share of requests that were at least as fast, over time (log): one step line a rate, its P90 marked."""
    drawn = [(level, curve_of(level, metric)) for level in curves if curve_of(level, metric).values]
    names = [_name(level) for level, _ in drawn]
    colours = rate_colours(len(drawn), ink)
    low, high = _span(drawn)
    limit_ms = None if is_far(curves, metric, limit_ms) else limit_ms
    low, high = min(low, limit_ms or low) * 0.9, max(high, limit_ms or high) * 1.1
    low = max(low, high / 1e5)  # a latency near zero must not stretch the axis over nothing
    axis = alt.Axis(values=ticks(low, high), format=",.3~r", grid=True)
    x = alt.X("ms:Q", title=f"{METRIC_NAMES[metric]} in ms (log)", axis=axis, scale=_log(low, high))
    y = alt.Y(
        "share:Q",
        title="Requests at least this fast",
        axis=alt.Axis(format=".0%", values=[0, 0.25, 0.5, 0.75, 0.9, 1]),
        scale=alt.Scale(domain=[0, 1], nice=False),
    )
    colour = alt.Color("Rate:N", sort=names, scale=alt.Scale(domain=names, range=colours), title="Offered rate")
    lines = pd.DataFrame([row for level, curve in drawn for row in _curve_rows(level, curve, low)])
    layers: list[alt.Chart] = [_ninety(ink, y), *_limit(limit_ms, limit_text, x, ink)]
    for overloaded in (False, True):
        part = lines[lines["overloaded"] == overloaded]
        if len(part):
            dash = [5, 3] if overloaded else [1, 0]
            line = alt.Chart(part).mark_line(interpolate="step-after", strokeWidth=2, strokeDash=dash, clip=True)
            layers.append(line.encode(x, y, colour, order="share:Q"))
    marks = pd.DataFrame([row for level, curve in drawn for row in _mark_rows(level, curve)])
    if len(marks):
        shape = alt.Shape(
            "Rate:N",
            sort=names,
            scale=alt.Scale(domain=names, range=[_SHAPES[i % len(_SHAPES)] for i in range(len(names))]),
            title="Offered rate",
        )
        point = alt.Chart(marks).mark_point(filled=True, size=95, opacity=1, stroke=ink.text, strokeWidth=0.7)
        layers.append(point.encode(x, y, colour, shape, tooltip=[alt.Tooltip("Rate:N"), alt.Tooltip("P90:N")]))
    chart: alt.LayerChart = alt.layer(*layers).properties(height=360).configure_view(stroke=None)
    return chart


def is_far(curves: Sequence[LevelCurves], metric: str, limit_ms: float | None) -> bool:
    """Whether the limit is so far from all that was measured that an axis to it would flatten the curves."""
    drawn = [(level, curve_of(level, metric)) for level in curves if curve_of(level, metric).values]
    if limit_ms is None or not drawn:
        return False
    low, high = _span(drawn)
    return not low / _FAR <= limit_ms <= high * _FAR


def _span(drawn: Sequence[tuple[LevelCurves, QuantileCurve]]) -> tuple[float, float]:
    return min(curve.values[0] for _, curve in drawn), max(curve.values[-1] for _, curve in drawn)


def curve_of(level: LevelCurves, metric: str) -> QuantileCurve:
    curve: QuantileCurve = getattr(level, METRICS[metric])
    return curve


def describe_curves(curves: Sequence[LevelCurves], metric: str, limit_text: str = "") -> str:
    said = []
    for level in curves:
        curve = curve_of(level, metric)
        said.append(f"{_name(level)}: P50 {_at(curve, 0.5)}, P90 {_at(curve, 0.9)}, P99 {_at(curve, 0.99)}")
    limit = f" Drawn beside them: {limit_text}." if limit_text else ""
    return f"Distribution of {metric}, the share of requests that were at least so fast. {'; '.join(said)}.{limit}"


def rate_colours(n: int, ink: theme.Ink) -> list[str]:
    """`n` colours from the slow end of the theme's scale to the fast one: rates are in order."""
    low, middle, high = (_rgb(colour) for colour in ink.pass_rate_range)
    found = []
    for i in range(n):
        at = 2 * i / max(1, n - 1)
        start, end, share = (high, middle, at) if at <= 1 else (middle, low, at - 1)
        found.append("#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in zip(start, end, strict=True)))
    return found


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _name(level: LevelCurves) -> str:
    return formats.rate(level.rate_per_s) + (" overloaded" if level.status is LevelStatus.OVERLOADED else "")


def _at(curve: QuantileCurve, share: float) -> str:
    value = curve.at(share)
    return "failed" if value is None and curve.n else formats.ms(value)


def _curve_rows(level: LevelCurves, curve: QuantileCurve, low: float) -> list[dict[str, Any]]:
    overloaded = level.status is LevelStatus.OVERLOADED
    return [
        {"Rate": _name(level), "ms": max(value, low), "share": share, "overloaded": overloaded}
        for value, share in zip(curve.values, curve.shares, strict=True)
    ]


def _mark_rows(level: LevelCurves, curve: QuantileCurve) -> list[dict[str, Any]]:
    value = curve.at(MARKED)
    if value is None:
        return []
    return [{"Rate": _name(level), "ms": value, "share": MARKED, "P90": f"{formats.ms(value)} (n = {curve.n:,})"}]


def _ninety(ink: theme.Ink, y: alt.Y) -> alt.Chart:
    rule = alt.Chart(pd.DataFrame([{"share": MARKED}])).mark_rule(color=ink.muted, strokeDash=[2, 3])
    chart: alt.Chart = rule.encode(y)
    return chart


def _limit(limit_ms: float | None, text: str, x: alt.X, ink: theme.Ink) -> list[alt.Chart]:
    if limit_ms is None:
        return []
    data = pd.DataFrame([{"ms": limit_ms, "share": 0.02, "text": text}])
    rule = alt.Chart(data).mark_rule(color=ink.rule, strokeDash=[6, 4], strokeWidth=1.4).encode(x)
    label = alt.Chart(data).mark_text(color=ink.rule, fontSize=11, align="left", baseline="top", angle=270, dx=2, dy=3)
    return [rule, label.encode(x, alt.Y("share:Q"), text="text:N")]


def _log(low: float, high: float) -> alt.Scale:
    return alt.Scale(type="log", domain=[low, high], nice=False)
