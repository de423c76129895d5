"""From the trade-off view to what the chart draws: points on one cost scale, the scales' ends, what is left out."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from kitedash.domain.results import Estimate, LevelStatus
from kitedash.services.views import CandidateView, LevelPoint, TradeoffView
from kitedash.ui import formats

CostScale = Literal["deployed", "saturated"]
_FAR = 10.0  # a target further than this factor from every point would squeeze the points into a corner


@dataclass(frozen=True)
class Point:
    """A measured rate of a candidate as drawn. Cost in USD per 1,000 requests, TTFT in ms."""

    number: int  # the candidate's number in the table, from 1
    candidate: str
    cost_usd: float
    ttft: Estimate
    ttft_p90_ms: float
    level: LevelPoint
    overloaded: bool
    marked: bool
    cost: Estimate | None  # with interval, on the marked point only
    pass_rate: Estimate | None
    status: str
    on_front: bool


@dataclass(frozen=True)
class Picture:
    points: tuple[Point, ...]
    x_domain: tuple[float, float]
    y_domain: tuple[float, float]
    target_cost_usd: float | None  # None: on the saturated scale, or off the scale
    target_ttft_ms: float | None
    notes: tuple[str, ...]

    @property
    def marked(self) -> tuple[Point, ...]:
        return tuple(p for p in self.points if p.marked)


def picture(view: TradeoffView, scale: CostScale, shown: Collection[str] | None = None) -> Picture:
    """What the chart shows of `view`, or of the candidates named in `shown`, which keep their numbers. Levels that
    failed a check are never drawn; the notes count them."""
    points: list[Point] = []
    invalid = undrawn = 0
    for number, candidate in enumerate(view.candidates, start=1):
        if shown is not None and candidate.name not in shown:
            continue
        for level in candidate.levels:
            summary = level.summary
            if summary.status is LevelStatus.INVALID:
                invalid += 1
                continue
            cost_usd = level.cost_usd if scale == "saturated" else level.deployed_usd
            ttft_p90_ms = summary.ttft_p90_ms.value
            if cost_usd is None or ttft_p90_ms is None or not 0 < ttft_p90_ms < math.inf:
                undrawn += 1
                continue
            points.append(_point(number, candidate, level, cost_usd, ttft_p90_ms, scale))
    target_cost = view.targets.cost_per_1000_requests_usd if scale == "deployed" else None
    target_ttft: float | None = view.targets.ttft_p90_ms
    notes: list[str] = []
    x, target_cost = _domain([p.cost_usd for p in points], _bounds([p.cost for p in points]), target_cost)
    y, target_ttft = _domain(_heights(points, target_ttft), _bounds([p.ttft for p in points if p.marked]), target_ttft)
    if above := sum(p.ttft_p90_ms > y[1] for p in points):
        notes.append(f"{_levels(above)} above the scale: see All measured rates.")
    if points and target_ttft is None:
        notes.append(f"The TTFT target of {formats.ms(view.targets.ttft_p90_ms)} lies off this scale.")
    if points and scale == "deployed" and target_cost is None:
        notes.append(f"The cost target of {formats.usd(view.targets.cost_per_1000_requests_usd)} lies off this scale.")
    if overloaded := sum(p.overloaded for p in points):
        notes.append(f"✕ {_levels(overloaded)} overloaded: the queue kept growing, so the latency is no steady state.")
    if invalid:
        notes.append(f"{_levels(invalid)} failed a check, so not drawn: see All measured rates.")
    if undrawn:
        notes.append(f"{_levels(undrawn)} without a cost or a P90 TTFT: not drawn; the table says why.")
    return Picture(tuple(points), x, y, target_cost, target_ttft, tuple(notes))


def _point(
    number: int, candidate: CandidateView, level: LevelPoint, cost_usd: float, ttft_p90_ms: float, scale: CostScale
) -> Point:
    marked = candidate.point is not None and level.summary.rate_per_s == candidate.point.summary.rate_per_s
    interval = None
    if marked and candidate.cost is not None:
        interval = candidate.cost.deployed_usd if scale == "deployed" else candidate.cost.saturated_usd
        cost_usd = interval.value or cost_usd
    return Point(
        number=number,
        candidate=candidate.name,
        cost_usd=cost_usd,
        ttft=level.summary.ttft_p90_ms,
        ttft_p90_ms=ttft_p90_ms,
        level=level,
        overloaded=level.summary.status is LevelStatus.OVERLOADED,
        marked=marked,
        cost=interval,
        pass_rate=candidate.pass_rate,
        status=candidate.status,
        on_front=candidate.on_front,
    )


def _heights(points: list[Point], target_ms: float | None) -> list[float]:
    """Latencies that the scale must hold: the marked points and each candidate's lowest rate. What lies far above both
    these and the target would squeeze the comparison into a strip; it is counted in the notes instead."""
    lowest = {p.number: p for p in sorted(points, key=lambda p: -p.level.summary.rate_per_s)}
    wanted = [p.ttft_p90_ms for p in points if p.marked] or [p.ttft_p90_ms for p in lowest.values()]
    ceiling = 4 * max([*wanted, target_ms or 0.0])
    wanted += [p.ttft_p90_ms for p in lowest.values() if p.ttft_p90_ms <= ceiling]
    return wanted + [p.ttft_p90_ms for p in points if p.ttft_p90_ms < max(wanted, default=0.0)]


def _bounds(estimates: list[Estimate | None]) -> list[float]:
    found = [bound for e in estimates if e is not None for bound in (e.low, e.high)]
    return [bound for bound in found if bound is not None and 0 < bound < math.inf]


def _domain(values: list[float], bounds: list[float], target: float | None) -> tuple[tuple[float, float], float | None]:
    """Ends of a logarithmic scale with room around, and the target if it is near enough to be drawn."""
    if not values:
        middle = target or 1.0
        return (middle / 4, middle * 4), target
    low, high = min(values), max(values)
    near = [bound for bound in bounds if low / 2 <= bound <= high * 2]  # one huge interval must not squeeze the rest
    low, high = min([low, *near]), max([high, *near])
    if target is not None and not low / _FAR <= target <= high * _FAR:
        target = None
    if target is not None:
        low, high = min(low, target), max(high, target)
    room = max((high / low) ** 0.08, 1.12)
    return (low / room, high * room), target


def _levels(count: int) -> str:
    return "1 rate" if count == 1 else f"{count} rates"
