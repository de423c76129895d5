"""The names on the trade-off chart: where each stands, and the layers that draw them."""

from __future__ import annotations

import itertools
import math
from typing import Any

import altair as alt

from kitedash.ui import chart_front, chart_rows, formats, labels, theme
from kitedash.ui.points import Picture, Point

# The plot beside the card in a 1,280 px window, without axes and legend: only the choice of places depends on it.
_PLANNED_WIDTH = 605.0
_AXES_HEIGHT = 84.0
_NAME_LIMIT = 34


def layers(pic: Picture, pass_rate: float, x: alt.X, y: alt.Y, ink: theme.Ink, chart_height: float) -> list[alt.Chart]:
    """A name beside each marked point, and beside the lowest rate of a candidate that held none. `pass_rate` is the
    target, on which the front's line depends that names keep clear of."""
    height = chart_height - _AXES_HEIGHT
    named: dict[int, Point] = {}
    for p in pic.points:
        if p.marked or p.number not in named:
            named[p.number] = p
    points = list(named.values())
    anchors = [_anchor(p, pic, height) for p in points]
    taken = _taken(pic, points, height) + _steps(pic, pass_rate, height)
    placed = labels.place_labels(anchors, _PLANNED_WIDTH, height, taken)
    found: list[alt.Chart] = []
    for place in labels.PLACES:
        rows = [
            {**chart_rows.row(p), "text": label.text, "ink": ink.text if p.marked else ink.muted}
            for p, label in zip(points, placed, strict=True)
            if label.place == place
        ]
        if not rows:
            continue
        if place.needs_line:
            end: dict[str, Any] = {"x2Offset": place.dx - math.copysign(3, place.dx), "y2Offset": place.dy}
            tie = alt.Chart(chart_rows.frame(rows)).mark_rule(color=ink.muted, strokeWidth=0.8, opacity=0.8, **end)
            found.append(tie.encode(x, y, x2="cost_usd", y2="ttft_ms"))
        style: dict[str, Any] = {"align": place.align, "dx": place.dx, "dy": place.dy, "baseline": "middle"}
        halo: dict[str, Any] = {
            "stroke": ink.background,
            "strokeWidth": 3,
            "strokeOpacity": 0.85,
            "color": ink.background,
        }
        text = alt.Chart(chart_rows.frame(rows))
        found.append(text.mark_text(**style, **halo, fontSize=12).encode(x, y, text="text:N"))
        found.append(
            text.mark_text(**style, fontSize=12).encode(x, y, text="text:N", color=alt.Color("ink:N", scale=None))
        )
    return found


def _taken(pic: Picture, named: list[Point], height: float) -> list[labels.Box]:
    """What names must not cover: the other points, the error bars, the target lines with their texts."""
    boxes: list[labels.Box] = []
    for p in pic.points:
        at = _at(p.cost_usd, p.ttft_p90_ms, pic, height)
        if p not in named:
            boxes.append(labels.Box(at[0] - 4, at[1] - 4, at[0] + 4, at[1] + 4))
        if p.marked and p.cost is not None and (span := chart_rows.span(p.cost, p.cost_usd, pic.x_domain)):
            left, right = (_at(end, p.ttft_p90_ms, pic, height)[0] for end in span)
            boxes.append(labels.Box(left, at[1] - 1, right, at[1] + 1))
        if p.marked and (span := chart_rows.span(p.ttft, p.ttft_p90_ms, pic.y_domain)):
            bottom, top = (_at(p.cost_usd, end, pic, height)[1] for end in span)
            boxes.append(labels.Box(at[0] - 1, top, at[0] + 1, bottom))
    if pic.target_ttft_ms is not None:
        y = _at(pic.x_domain[0], pic.target_ttft_ms, pic, height)[1]
        boxes += [labels.Box(0, y - 1, _PLANNED_WIDTH, y + 1), labels.Box(0, y - 16, 150, y)]
    if pic.target_cost_usd is not None:
        x = _at(pic.target_cost_usd, pic.y_domain[0], pic, height)[0]
        boxes += [labels.Box(x - 1, 0, x + 1, height), labels.Box(x - 16, height - 170, x, height)]
    return boxes


def _steps(pic: Picture, pass_rate: float, height: float) -> list[labels.Box]:
    boxes: list[labels.Box] = []
    corners = [_at(p.cost_usd, p.ttft_p90_ms, pic, height) for p in chart_front.members(pic, pass_rate)]
    for (left, y), (right, below) in itertools.pairwise(corners):
        boxes += [labels.Box(left, y - 1, right, y + 1), labels.Box(right - 1, y, right + 1, below)]
    return boxes


def _at(cost_usd: float, ttft_ms: float, pic: Picture, height: float) -> tuple[float, float]:
    """Pixels from the plot's upper left corner, on the planned width."""
    across = math.log(cost_usd / pic.x_domain[0]) / math.log(pic.x_domain[1] / pic.x_domain[0])
    up = math.log(ttft_ms / pic.y_domain[0]) / math.log(pic.y_domain[1] / pic.y_domain[0])
    return across * _PLANNED_WIDTH, (1 - up) * height


def _anchor(p: Point, pic: Picture, height: float) -> labels.Anchor:
    name = formats.shorten(p.candidate, _NAME_LIMIT)
    return labels.Anchor(
        *_at(p.cost_usd, p.ttft_p90_ms, pic, height), name if p.marked else f"{name} (no rate held)", f"#{p.number}"
    )
