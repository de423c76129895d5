"""Picking on the trade-off chart: the layer that takes the clicks, and the ring around the candidate that is picked."""

from __future__ import annotations

import copy
from typing import Any

import altair as alt

from kitedash.ui import chart_rows, picks, theme
from kitedash.ui.points import Picture, Point

_TARGET_SIZE = 400  # square pixels: about a fingertip
_RING_SIZE = 640  # outside of the ring that marks the front


def layers(pic: Picture, x: alt.X, y: alt.Y) -> list[alt.Chart]:
    """The topmost layer: an invisible disc over each point. A click on it selects the candidate by its number, and it
    carries the tooltip, so that names and error bars above a point are never in the way."""
    if not pic.points:
        return []
    rows = [chart_rows.row(p) for p in sorted(pic.points, key=lambda p: p.marked)]  # marked points on top
    disc = alt.Chart(chart_rows.frame(rows)).mark_point(
        filled=True, shape="circle", size=_TARGET_SIZE, opacity=0.001, cursor="pointer"
    )
    selection = alt.selection_point(picks.POINT, fields=[picks.NUMBER], toggle=False)
    return [disc.encode(x, y, tooltip=chart_rows.tooltip()).add_params(selection)]


def named_point(pic: Picture, candidate: str) -> Point | None:
    """Where a candidate's ring stands: its marked point, else its lowest measured rate."""
    points = [p for p in pic.points if p.candidate == candidate]
    return next((p for p in points if p.marked), points[0] if points else None)


def with_ring(spec: dict[str, Any], point: Point, ink: theme.Ink) -> dict[str, Any]:
    """A built specification with a ring around the picked candidate, below the layer that takes the clicks. The ring is
    added to the built one, so that picking does not build the chart again."""
    top = spec["layer"][-1]
    ring = {
        "data": {"values": [{"cost_usd": point.cost_usd, "ttft_ms": point.ttft_p90_ms}]},
        "mark": {
            "type": "point",
            "shape": "circle",
            "size": _RING_SIZE,
            "filled": False,
            "color": ink.picked,
            "strokeWidth": 3.2,
            "opacity": 1,
        },
        "encoding": {axis: copy.deepcopy(top["encoding"][axis]) for axis in ("x", "y")},
    }
    return {**spec, "layer": [*spec["layer"][:-1], ring, top]}
