"""What stands around the trade-off chart in words. Our own text only, so it is safe as Markdown."""

from __future__ import annotations

from collections.abc import Collection

from kitedash.services.views import TradeoffView
from kitedash.ui import chart_front, formats
from kitedash.ui.points import CostScale, Picture


def describe(view: TradeoffView, scale: CostScale, shown: Collection[str]) -> str:
    """The chart's name for people who don't see it."""
    held = [c for c in view.candidates if c.point is not None and c.name in shown]
    return (
        f"{scale.capitalize()} cost per 1,000 requests against P90 TTFT for {len(shown)} candidates, "
        f"{len(held)} of which hold a measured rate. {view.recommendation.sentence}"
    )


def legend_caption(pic: Picture, scale: CostScale, pass_rate: float) -> str:
    """How to read the marks, and what is not drawn."""
    parts = [
        "Large mark: the highest rate held, with its 95 % intervals. Small rings: other measured rates; dashed lines "
        "between them are interpolation. Plain ring: on the front of all three numbers. Thick ring: picked; click "
        "another point, or the box of a row below."
    ]
    if len(chart_front.members(pic, pass_rate)) > 1:
        parts.append(
            "Green steps: the front of cost and latency only, among large marks whose pass rate is estimated at "
            f"{formats.share(pass_rate)} or more."
        )
    if scale == "saturated":
        parts.append("The cost target is on the deployed cost, so it has no line here.")
    elif pic.target_cost_usd is not None or pic.target_ttft_ms is not None:
        parts.append("Shaded: both the TTFT and the deployed cost target are met.")
    return " ".join([*parts, *pic.notes])


def no_points(view: TradeoffView, shown: Collection[str]) -> str:
    if not shown:
        return "The filters hide every candidate."
    if any(level for c in view.candidates if c.name in shown for level in c.levels):
        return "No measured rate can be drawn; the tables below say why for each."
    if any(level for c in view.candidates for level in c.levels):
        return "None of the candidates that the filters leave has a measured rate."
    if view.runs_active:
        return "No point yet: the first appears when the first candidate's load stage is done."
    return "Nothing was measured: no candidate reached the end of its load stage."
