"""The step line of the two-criteria front: the lowest P90 TTFT for each cost, where the pass rate is high enough."""

from __future__ import annotations

import altair as alt

from kitedash.domain import pareto
from kitedash.ui import chart_rows, theme
from kitedash.ui.points import Picture, Point


def members(pic: Picture, pass_rate: float) -> list[Point]:
    """Marked points whose pass rate is at least the target (by the estimate) and that no other such point beats in both
    cost and P90 TTFT; cheapest first. Equal ones stay."""
    able = [p for p in pic.marked if p.pass_rate is not None and (p.pass_rate.value or 0.0) >= pass_rate]
    kept = [p for p in able if not any(pareto.dominates(_losses(other), _losses(p)) for other in able)]
    return sorted(kept, key=lambda p: (p.cost_usd, -p.ttft_p90_ms))


def layers(pic: Picture, pass_rate: float, x: alt.X, y: alt.Y, ink: theme.Ink) -> list[alt.Chart]:
    """Nothing with fewer than two members: a front of one is a point."""
    rows = [
        {"cost_usd": p.cost_usd, "ttft_ms": p.ttft_p90_ms, "place": place}
        for place, p in enumerate(members(pic, pass_rate))
    ]
    if len(rows) < 2:
        return []
    line = alt.Chart(chart_rows.frame(rows)).mark_line(
        interpolate="step-after", color=ink.good, strokeWidth=1.6, opacity=0.85
    )
    return [line.encode(x, y, order="place:Q")]


def _losses(point: Point) -> tuple[float, float]:
    return point.cost_usd, point.ttft_p90_ms
