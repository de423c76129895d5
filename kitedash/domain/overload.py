"""Overload: does the number in the system keep growing? An overloaded level is a result, but no latency."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

GROWTH_SHARE = 0.05
DELAY_GROWTH = 1.25
DELAY_GROWTH_OF_FIRST = 2.0
NOISE_SIGMAS = 2.0


@dataclass(frozen=True)
class Growth:
    """Of one block. `share`: of the arrivals that did not leave. `rise`: in requests over the window; `noise`: the
    standard deviation of the number of arrivals over it. `delay_growth`: how much longer requests
    take towards the end, as a multiple of what rule (c) asks for. `backlog`: unfinished when the block ended."""

    share: float
    rise: float
    noise: float
    delay_growth: float
    backlog: int
    arrivals: int


def growth_from(
    *, due_s: Floats, left_s: Floats, duration_s: float, warm_up_s: float, dispersion: float = 1.0
) -> Growth | None:
    """None where the block has fewer than 10 requests. `dispersion`: of the arrivals,
    `schedule.dispersion`. Over a level's blocks rises add up, and noise in squares."""
    if len(due_s) < 10:
        return None
    took = left_s - due_s
    median_s = float(np.median(took))
    # The block starts empty: until the first requests are through, the number in the system must rise.
    begin = max(warm_up_s, min(median_s, duration_s / 2) if math.isfinite(median_s) else 0.0)
    arrivals = int(np.sum(due_s >= begin))
    if not arrivals:
        return None
    times = np.linspace(begin, duration_s, 101)
    in_system = np.searchsorted(np.sort(due_s), times, side="right") - np.searchsorted(
        np.sort(left_s), times, side="right"
    )
    rise = float(np.polyfit(times, in_system, 1)[0]) * (duration_s - begin)
    ordered = took[np.argsort(due_s)]
    third, tenth = len(ordered) // 3, max(3, len(ordered) // 10)
    last = float(np.median(ordered[-third:]))
    ratio = max(
        _ratio(last, float(np.median(ordered[:third]))) / DELAY_GROWTH,
        _ratio(last, float(np.median(ordered[:tenth]))) / DELAY_GROWTH_OF_FIRST,
    )
    noise = math.sqrt(arrivals * dispersion)
    return Growth(rise / arrivals, rise, noise, ratio, int(np.sum(left_s > duration_s)), arrivals)


def _ratio(last: float, first: float) -> float:
    return last / first if math.isfinite(first) and first > 0 else math.inf


def overload_in(growth: Growth) -> str:
    """Why a block counts as overloaded, or "".

    Overloaded: (a) the number in the system rises by more than 5 % of the arrivals, by regression over the block
    after its filling phase; (b) the rise is beyond twice the noise of the arrivals' own randomness; (c) requests due
    in the last third take at least 1.25 times as long as those in the first third, or twice as long as those in the
    first tenth (where a batch shares the engine, all but the very first requests are slowed alike). (c) keeps slow
    but steady service apart, whose number in the system rises while the block fills. Error rates of this rule on
    simulated queues: tests/unit/domain/test_load_checks.py.
    """
    if growth.share <= GROWTH_SHARE or growth.rise <= NOISE_SIGMAS * growth.noise or growth.delay_growth < 1:
        return ""
    return (
        f"the number in the system keeps growing: {growth.rise:.0f} more at the end of the block, "
        f"{growth.share:.0%} of the arrivals; {growth.backlog} requests were unfinished when it ended"
    )


def overload_together(grown: Sequence[Growth]) -> str:
    """Why a level counts as overloaded over its blocks, or "". The blocks' rises add up, their noise in squares: this
    finds a slow growth that no single block shows beyond its noise."""
    if len(grown) < 2:
        return ""
    rise = sum(growth.rise for growth in grown)
    arrivals = sum(growth.arrivals for growth in grown)
    noise = math.sqrt(sum(growth.noise**2 for growth in grown))
    slower = float(np.median([growth.delay_growth for growth in grown]))
    if rise <= GROWTH_SHARE * arrivals or rise <= NOISE_SIGMAS * noise or slower < 1:
        return ""
    return f"over {len(grown)} blocks the number in the system grows by {rise / arrivals:.0%} of the arrivals"
