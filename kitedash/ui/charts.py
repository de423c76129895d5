"""The trade-off chart: a pure function from the view model to an Altair chart."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import altair as alt

from kitedash.services.views import TradeoffView
from kitedash.ui import chart_front, chart_names, chart_picks, chart_rows, formats, theme
from kitedash.ui.points import CostScale, Picture, picture


def tradeoff_chart(
    view: TradeoffView,
    scale: CostScale,
    ink: theme.Ink,
    *,
    shown: Collection[str] | None = None,
    height: int = 345,
) -> tuple[alt.LayerChart, Picture]:
    """Cost (x, log) against P90 TTFT (y, log), one curve per candidate over its measured rates.

    The marked point is the highest rate held. On the deployed scale every point's cost is that of a deployment
    whose replicas carry that rate each, so the cost target's rule and the points share one scale; on the saturated
    scale, where no target stands, there is no cost rule. `shown` names the candidates that are drawn, by default all.
    Also returns what was drawn, whose notes belong below.
    """
    pic = picture(view, scale, shown)
    x = alt.X("cost_usd:Q", title=_cost_title(scale), axis=_axis(pic.x_domain, "$"), scale=_log(pic.x_domain))
    y = alt.Y("ttft_ms:Q", title="P90 TTFT in ms (log)", axis=_axis(pic.y_domain, ""), scale=_log(pic.y_domain))
    inside = replace(pic, points=tuple(p for p in pic.points if p.ttft_p90_ms <= pic.y_domain[1]))
    layers: list[alt.Chart] = []
    layers += _feasible(pic, x, y, ink)
    layers += chart_front.layers(pic, view.targets.pass_rate, x, y, ink)
    layers += _curves(inside, pic, x, y, ink)
    layers += _target_rules(pic, x, y, ink)
    layers += _error_bars(inside, x, y, ink)
    layers += _marked(inside, view, x, y, ink)
    layers += chart_names.layers(inside, view.targets.pass_rate, x, y, ink, height)
    layers += chart_picks.layers(inside, x, y)
    if not layers:
        layers = [alt.Chart(chart_rows.frame([])).mark_point().encode(x, y)]
    chart = alt.layer(*layers).resolve_scale(color="independent", shape="independent", stroke="independent")
    return chart.properties(height=height).configure_view(stroke=None), pic


def _cost_title(scale: CostScale) -> str:
    if scale == "deployed":
        return "Deployed cost in USD per 1,000 requests, replicas sized for the peak (log)"
    return "Saturated cost in USD per 1,000 requests: one replica kept busy at each rate (log)"


def _log(domain: tuple[float, float]) -> alt.Scale:
    return alt.Scale(type="log", domain=list(domain), nice=False)


def _axis(domain: tuple[float, float], prefix: str) -> alt.Axis:
    values = ticks(*domain)
    return alt.Axis(values=values, labelExpr=f"'{prefix}' + format(datum.value, ',.3~r')", grid=True)


def ticks(low: float, high: float) -> list[float]:
    """Round tick values of a logarithmic axis: powers of ten, with 2 and 5 (or every step) while there are few."""
    for steps in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8), tuple(range(10, 100))):
        found: list[float] = []
        for power in range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1):
            unit = 10.0**power / (10 if steps[0] == 10 else 1)
            found += [float(f"{step * unit:.6g}") for step in steps if low <= step * unit <= high]
        if len(found) >= 4:
            break
    return found[:: max(1, math.ceil(len(found) / 8))]


def _feasible(pic: Picture, x: alt.X, y: alt.Y, ink: theme.Ink) -> list[alt.Chart]:
    if pic.target_ttft_ms is None and pic.target_cost_usd is None:
        return []
    row = {
        "cost_usd": pic.x_domain[0],
        "cost_to": pic.target_cost_usd or pic.x_domain[1],
        "ttft_ms": pic.y_domain[0],
        "ttft_to": pic.target_ttft_ms or pic.y_domain[1],
    }
    area = alt.Chart(chart_rows.frame([row])).mark_rect(color=ink.good, opacity=0.09, tooltip=None)
    return [area.encode(x, y, x2="cost_to", y2="ttft_to")]


def _target_rules(pic: Picture, x: alt.X, y: alt.Y, ink: theme.Ink) -> list[alt.Chart]:
    layers: list[alt.Chart] = []
    mark: dict[str, Any] = {"color": ink.rule, "strokeDash": [6, 4], "strokeWidth": 1.3}
    text: dict[str, Any] = {"color": ink.rule, "fontSize": 11, "align": "left", "baseline": "bottom"}
    if pic.target_ttft_ms is not None:
        row = {"ttft_ms": pic.target_ttft_ms, "cost_usd": pic.x_domain[0]}
        data = chart_rows.frame([{**row, "text": f"P90 TTFT target {formats.ms(pic.target_ttft_ms)}"}])
        layers.append(alt.Chart(data).mark_rule(**mark).encode(y))
        layers.append(alt.Chart(data).mark_text(**text, dx=4, dy=-3).encode(x, y, text="text:N"))
    if pic.target_cost_usd is not None:
        row = {"cost_usd": pic.target_cost_usd, "ttft_ms": pic.y_domain[0]}
        data = chart_rows.frame([{**row, "text": f"deployed cost target {formats.usd(pic.target_cost_usd)}"}])
        layers.append(alt.Chart(data).mark_rule(**mark).encode(x))
        layers.append(alt.Chart(data).mark_text(**text, angle=270, dx=4, dy=-3).encode(x, y, text="text:N"))
    return layers


def _curves(pic: Picture, whole: Picture, x: alt.X, y: alt.Y, ink: theme.Ink) -> list[alt.Chart]:
    """Thin dashed lines, since between measured rates they are interpolation; small rings are the measured rates."""
    layers: list[alt.Chart] = []
    steady = [chart_rows.row(p) for p in whole.points if not p.overloaded]
    if steady:
        line = alt.Chart(chart_rows.frame(steady)).mark_line(
            color=ink.muted, strokeWidth=1.1, strokeDash=[3, 2], opacity=0.75, clip=True
        )
        layers.append(line.encode(x, y, detail="number:N", order="rate:Q"))
    unmarked = [chart_rows.row(p) for p in pic.points if not p.overloaded and not p.marked]
    if unmarked:
        ring = alt.Chart(chart_rows.frame(unmarked)).mark_point(filled=False, size=34, color=ink.muted, opacity=1)
        layers.append(ring.encode(x, y, tooltip=chart_rows.tooltip()))
    overloaded = [chart_rows.row(p) for p in pic.points if p.overloaded]
    if overloaded:
        cross = alt.Chart(chart_rows.frame(overloaded)).mark_point(
            shape="cross", angle=45, size=52, color=ink.muted, opacity=0.7
        )
        layers.append(cross.encode(x, y, tooltip=chart_rows.tooltip()))
    return layers


def _error_bars(pic: Picture, x: alt.X, y: alt.Y, ink: theme.Ink) -> list[alt.Chart]:
    vertical, horizontal = [], []
    for p in pic.marked:
        row = chart_rows.row(p)
        if span := chart_rows.span(p.ttft, p.ttft_p90_ms, pic.y_domain):
            vertical.append({**row, "ttft_ms": span[0], "ttft_to": span[1]})
        if p.cost is not None and (span := chart_rows.span(p.cost, p.cost_usd, pic.x_domain)):
            horizontal.append({**row, "cost_usd": span[0], "cost_to": span[1]})
    style: dict[str, Any] = {"color": ink.text, "strokeWidth": 1.2, "opacity": 0.65}
    layers = []
    if vertical:
        layers.append(alt.Chart(chart_rows.frame(vertical)).mark_rule(**style).encode(x, y, y2="ttft_to"))
    if horizontal:
        layers.append(alt.Chart(chart_rows.frame(horizontal)).mark_rule(**style).encode(x, y, x2="cost_to"))
    return layers


def _marked(pic: Picture, view: TradeoffView, x: alt.X, y: alt.Y, ink: theme.Ink) -> list[alt.Chart]:
    rows = [chart_rows.row(p) for p in pic.marked]
    if not rows:
        return []
    layers: list[alt.Chart] = []
    front = [chart_rows.row(p) for p in pic.marked if p.on_front]
    if front:
        ring = alt.Chart(chart_rows.frame(front)).mark_point(
            shape="circle", size=420, strokeWidth=1.8, filled=False, opacity=1
        )
        layers.append(ring.encode(x, y, stroke=alt.value(ink.text)))
    present = [s for s in theme.SHAPES if any(p.status == s for p in pic.marked)]
    shape = alt.Shape(
        "status:N",
        title="Targets",
        scale=alt.Scale(domain=present, range=[theme.SHAPES[s] for s in present]),
        legend=alt.Legend(symbolFillColor=ink.muted, symbolStrokeColor=ink.text, symbolSize=110),
    )
    known = [r for r in rows if r["pass_rate"] is not None]
    unknown = [r for r in rows if r["pass_rate"] is None]
    style: dict[str, Any] = {"filled": True, "size": 165, "stroke": ink.text, "strokeWidth": 0.8, "opacity": 1}
    if known:
        colour = alt.Color(
            "pass_rate:Q",
            title="Pass rate",
            scale=alt.Scale(
                domain=pass_rate_domain(view), range=list(ink.pass_rate_range), interpolate="rgb", clamp=True
            ),
            legend=alt.Legend(format=".0%", gradientLength=110, tickCount=3),
        )
        layers.append(
            alt.Chart(chart_rows.frame(known))
            .mark_point(**style)
            .encode(x, y, colour, shape, tooltip=chart_rows.tooltip())
        )
    if unknown:  # the quality stage is still to come: hollow, so that no colour stands for a number
        hollow = alt.Chart(chart_rows.frame(unknown)).mark_point(**{**style, "filled": False, "strokeWidth": 1.8})
        layers.append(hollow.encode(x, y, shape.legend(None) if known else shape, tooltip=chart_rows.tooltip()))
    return layers


def pass_rate_domain(view: TradeoffView) -> list[float]:
    """Ends and middle of the colour scale: ends on tenths and at least 0.2 apart, so that noise looks like noise."""
    rates = [c.pass_rate.value for c in view.candidates if c.pass_rate is not None and c.pass_rate.value is not None]
    low = math.floor(min(rates) * 10) / 10 if rates else 0.0
    high = math.ceil(max(rates) * 10) / 10 if rates else 1.0
    if high - low < 0.2:
        high = min(1.0, low + 0.2)
        low = max(0.0, high - 0.2)
    return [round(low, 1), round((low + high) / 2, 2), round(high, 1)]
