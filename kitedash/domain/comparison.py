"""Two candidates, number by number: what one is better or worse by, and whether that is established.

P90 TTFT and cost are compared by their ratio, from the two stored intervals alone:

- P90 TTFT: on the log scale, where both half-widths are about symmetric, the half-widths on the sides concerned add as
  squares (the method of variance estimates recovery: Zou and Donner, Statistics in Medicine 27 (2008) 1693-1702). With
  m, m_low, m_high mine and t, t_low, t_high theirs:
  low = m/t * exp(-sqrt(ln(m/m_low)^2 + ln(t_high/t)^2)), high = m/t * exp(sqrt(ln(m_high/m)^2 + ln(t/t_low)^2)).
  It takes the two as independent. Candidates are measured under the same arrivals, so they tend to be slow together,
  and the true interval is narrower: this one errs on the safe side, the more so the more alike they are.
- deployed cost: replicas are whole, so a cost jumps and its errors do not add as squares. The ends are those that both
  intervals allow: low = m_low/t_high, high = m_high/t_low. It excludes no change only where the two do not overlap.

An end that needs a bound which is not established is not established either. The pass rate's change is paired, item by
item: `quality.paired_change`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, hypot, isfinite, log
from typing import Final, Literal

from kitedash.domain import wording
from kitedash.domain.results import Estimate

Dimension = Literal["P90 TTFT", "deployed cost", "pass rate"]
Outcome = Literal["better", "worse", "equal", "unknown"]

SAME: Final = 0.0005  # a relative change below this is written as 0.0 %


@dataclass(frozen=True)
class Difference:
    """`mine` against `theirs` in one of the three numbers.

    `change` is relative for P90 TTFT and cost (0.2 = 20 % more than theirs; 95 % interval) and a share of items for the
    pass rate (-0.05 = 5 points fewer; 90 % interval). `outcome` follows the estimates; `established` says that the
    change's interval excludes no change. `sentence` says all of it, or why it is unknown.
    """

    dimension: Dimension
    mine: Estimate | None
    theirs: Estimate | None
    change: Estimate | None
    outcome: Outcome
    established: bool
    sentence: str


@dataclass(frozen=True)
class Side:
    """One candidate's number, at which rate it was taken, or why there is none."""

    estimate: Estimate | None
    at_rate_per_s: float | None = None
    missing: str = ""

    @property
    def is_known(self) -> bool:
        return self.estimate is not None and self.estimate.value is not None


def ttft_change(mine: Estimate, theirs: Estimate) -> Estimate | None:
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


def ttft_difference(mine: Side, theirs: Side) -> Difference:
    """P90 TTFT, each at its own operating point: lower is better."""
    change = _change_of(mine, theirs, ttft_change)
    return _relative("P90 TTFT", "", mine, theirs, change)


def cost_difference(mine: Side, theirs: Side) -> Difference:
    """Deployed cost in USD per 1,000 requests: lower is better."""
    change = _change_of(mine, theirs, cost_change)
    return _relative("deployed cost", " per 1,000 requests", mine, theirs, change)


def pass_rate_difference(mine: Side, theirs: Side, change: Estimate | None, missing: str) -> Difference:
    """Pass rate from its paired `change` (share of items, 90 % interval); higher is better. `missing` says why there is
    no change where there is none."""
    if change is None or change.value is None:
        return _unknown("pass rate", mine, theirs, missing or mine.missing or theirs.missing)
    outcome: Outcome = "equal" if change.value == 0 else "better" if change.value > 0 else "worse"
    numbers = f"Pass rate {_share(mine.estimate)} against {_share(theirs.estimate)}"
    words = "as many items pass" if outcome == "equal" else _points(change.value)
    return Difference(
        "pass rate",
        mine.estimate,
        theirs.estimate,
        change,
        outcome,
        outcome != "equal" and _excludes_zero(change),
        f"{numbers}: {words}{_interval(change, _points, 90)}{_judged(outcome, change)}.",
    )


def _relative(dimension: Dimension, unit: str, mine: Side, theirs: Side, change: Estimate | None) -> Difference:
    if change is None or change.value is None:
        reasons = " ".join(dict.fromkeys(side.missing for side in (mine, theirs) if not side.is_known and side.missing))
        return _unknown(dimension, mine, theirs, reasons)
    same = abs(change.value) < SAME
    outcome: Outcome = "equal" if same else "better" if change.value < 0 else "worse"
    write = wording.milliseconds if dimension == "P90 TTFT" else wording.usd
    title = dimension[0].upper() + dimension[1:]
    words = "no change" if same else _per_cent(change.value)
    numbers = f"{title} {_at(mine, write)} against {_at(theirs, write)}{unit}"
    return Difference(
        dimension,
        mine.estimate,
        theirs.estimate,
        change,
        outcome,
        not same and _excludes_zero(change),
        f"{numbers}: {words}{_interval(change, _per_cent, 95)}{_judged(outcome, change)}.",
    )


def _change_of(mine: Side, theirs: Side, rule: Callable[[Estimate, Estimate], Estimate | None]) -> Estimate | None:
    if mine.estimate is None or theirs.estimate is None:
        return None
    return rule(mine.estimate, theirs.estimate)


def _unknown(dimension: Dimension, mine: Side, theirs: Side, reason: str) -> Difference:
    sentence = f"{dimension[0].upper()}{dimension[1:]}: not comparable. {reason}".rstrip()
    return Difference(dimension, mine.estimate, theirs.estimate, None, "unknown", False, sentence)


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


def _excludes_zero(change: Estimate) -> bool:
    return (change.low is not None and change.low > 0) or (change.high is not None and change.high < 0)


def _open_note(low: bool, high: bool) -> str:
    if low and high:
        return "no interval"
    if low or high:
        return f"its {'lower' if low else 'upper'} end needs a bound that is not established"
    return ""


def _judged(outcome: Outcome, change: Estimate) -> str:
    if outcome == "equal":
        return ""
    return ", established" if _excludes_zero(change) else ", not established"


def _interval(change: Estimate, write: Callable[[float], str], level: int) -> str:
    if change.low is None and change.high is None:
        return " (no interval)"
    low = "open" if change.low is None else write(change.low)
    high = "open" if change.high is None else write(change.high)
    return f" ({level} %: both ends {low})" if low == high else f" ({level} %: {low} to {high})"


def _at(side: Side, write: Callable[[float | None], str]) -> str:
    assert side.estimate is not None
    at = "" if side.at_rate_per_s is None else f" at {wording.rate(side.at_rate_per_s)}"
    return f"{write(side.estimate.value)}{at}"


def _per_cent(change: float) -> str:
    """ "12.3 % lower"; a change that rounds to nothing has no direction."""
    if abs(change) < SAME:
        return "0.0 %"
    return f"{100 * abs(change):.1f} % {'higher' if change > 0 else 'lower'}"


def _points(change: float) -> str:
    if abs(change) < SAME:
        return "0.0 points"
    return f"{100 * abs(change):.1f} points {'higher' if change > 0 else 'lower'}"


def _share(estimate: Estimate | None) -> str:
    return wording.percent(estimate.value if estimate is not None else None)
