"""One estimate over another, as a relative change with its interval: from the two stored intervals alone.

- latency: on the log scale, where both half-widths are about symmetric, the half-widths on the sides concerned add as
  squares (the method of variance estimates recovery: Zou and Donner, Statistics in Medicine 27 (2008) 1693-1702). With
  m, m_low, m_high mine and t, t_low, t_high theirs:
  low = m/t * exp(-sqrt(ln(m/m_low)^2 + ln(t_high/t)^2)), high = m/t * exp(sqrt(ln(m_high/m)^2 + ln(t/t_low)^2)).
  It takes the two as independent. Candidates are measured under the same arrivals, so they tend to be slow together,
  and the true interval is narrower: this one errs on the safe side, the more so the more alike they are.
- deployed cost: replicas are whole, so a cost jumps and its errors do not add as squares. The ends are those that both
  intervals allow: low = m_low/t_high, high = m_high/t_low. It excludes no change only where the two do not overlap.

An end that needs a bound which is not established is not established either.
"""

from __future__ import annotations

from math import exp, hypot, isfinite, log

from kitedash.domain.results import Estimate


def latency_change(mine: Estimate, theirs: Estimate) -> Estimate | None:
    """mine / theirs - 1 with its 95 % interval by the log-scale rule above; None unless both are above 0."""
    if not _positive(mine.value) or not _positive(theirs.value):
        return None
    assert mine.value is not None
    assert theirs.value is not None
    ratio = mine.value / theirs.value
    down = _half_width(mine.value, mine.low, theirs.value, theirs.high)
    up = _half_width(mine.value, mine.high, theirs.value, theirs.low)
    return Estimate(
        ratio - 1,
        None if down is None else ratio * exp(-down) - 1,
        None if up is None else ratio * exp(up) - 1,
        min(mine.n, theirs.n),
        _open_note(down is None, up is None),
    )


def cost_change(mine: Estimate, theirs: Estimate) -> Estimate | None:
    """mine / theirs - 1 with the ends that both intervals allow; None unless both are above 0."""
    if not _positive(mine.value) or not _positive(theirs.value):
        return None
    assert mine.value is not None
    assert theirs.value is not None
    low, high = _ratio(mine.low, theirs.high), _ratio(mine.high, theirs.low)
    return Estimate(
        mine.value / theirs.value - 1,
        None if low is None else low - 1,
        None if high is None else high - 1,
        min(mine.n, theirs.n),
        _open_note(low is None, high is None),
    )


def excludes_zero(change: Estimate) -> bool:
    """Whether the whole interval is on one side of no change."""
    return (change.low is not None and change.low > 0) or (change.high is not None and change.high < 0)


def _half_width(mine: float, my_bound: float | None, theirs: float, their_bound: float | None) -> float | None:
    """Of the log ratio on one side, from my bound on that side and theirs on the other."""
    if my_bound is None or their_bound is None or not _positive(my_bound) or not _positive(their_bound):
        return None
    return hypot(log(my_bound / mine), log(their_bound / theirs))


def _ratio(mine: float | None, theirs: float | None) -> float | None:
    if mine is None or theirs is None or not _positive(mine) or not _positive(theirs):
        return None
    return mine / theirs


def _positive(value: float | None) -> bool:
    return value is not None and isfinite(value) and value > 0


def _open_note(low: bool, high: bool) -> str:
    if low and high:
        return "no interval"
    if low or high:
        return f"its {'lower' if low else 'upper'} end needs a bound that is not established"
    return ""
