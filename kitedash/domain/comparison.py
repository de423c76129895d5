"""Two candidates, number by number: what one is better or worse by, and whether that is established.

P90 TTFT and cost are compared by their ratio (`ratio.py`), the pass rate by its paired change, item by item
(`quality.paired_change`). A difference in latency or cost that is no larger than what two measurements of the baseline
show is called noise (`noise.py`), and is never established.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from kitedash.domain import wording
from kitedash.domain.noise import Noise
from kitedash.domain.ratio import cost_change, excludes_zero, latency_change
from kitedash.domain.results import Estimate

Dimension = Literal["P90 TTFT", "deployed cost", "pass rate"]
Outcome = Literal["better", "worse", "equal", "noise", "unknown"]

SAME: Final = 0.0005  # a relative change below this is written as 0.0 %


@dataclass(frozen=True)
class Difference:
    """`mine` against `theirs` in one of the three numbers.

    `change` is relative for P90 TTFT and cost (0.2 = 20 % more than theirs; 95 % interval) and a share of items for the
    pass rate (-0.05 = 5 points fewer; 90 % interval). `outcome` follows the estimates, but is "noise" for what the
    noise floor covers; `established` says that it is no noise and the change's interval excludes no change. `sentence`
    says all of it, or why it is unknown.
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


def ttft_difference(mine: Side, theirs: Side, noise: Noise | None = None) -> Difference:
    """P90 TTFT, each at its own operating point: lower is better. `noise`: of P90 TTFT, where it is measured."""
    change = _change_of(mine, theirs, latency_change)
    return _relative("P90 TTFT", "", mine, theirs, change, _covered(noise, change))


def cost_difference(mine: Side, theirs: Side, noise: Noise | None = None, *, could_swap: bool = False) -> Difference:
    """Deployed cost in USD per 1,000 requests: lower is better. `noise`: of the cost, where it is measured;
    `could_swap`: latencies moved by the noise floor give the one the other's cost (`noise.cost_range`)."""
    change = _change_of(mine, theirs, cost_change)
    why = _covered(noise, change)
    if not why and could_swap:
        why = (
            "noise: with latencies moved by the noise floor the one holds a rate at which it costs what the other does"
        )
    return _relative("deployed cost", " per 1,000 requests", mine, theirs, change, why)


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
        outcome != "equal" and excludes_zero(change),
        f"{numbers}: {words}{_interval(change, _points, 90)}{_judged(outcome, change)}.",
    )


def _relative(
    dimension: Dimension, unit: str, mine: Side, theirs: Side, change: Estimate | None, noise: str
) -> Difference:
    """`noise`: why the difference is noise, in words; "" where it is none."""
    if change is None or change.value is None:
        reasons = " ".join(dict.fromkeys(side.missing for side in (mine, theirs) if not side.is_known and side.missing))
        return _unknown(dimension, mine, theirs, reasons)
    same = abs(change.value) < SAME
    outcome: Outcome = "equal" if same else "noise" if noise else "better" if change.value < 0 else "worse"
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
        not same and not noise and excludes_zero(change),
        f"{numbers}: {words}{_interval(change, _per_cent, 95)}{_judged(outcome, change, noise)}.",
    )


def _change_of(mine: Side, theirs: Side, rule: Callable[[Estimate, Estimate], Estimate | None]) -> Estimate | None:
    if mine.estimate is None or theirs.estimate is None:
        return None
    return rule(mine.estimate, theirs.estimate)


def _unknown(dimension: Dimension, mine: Side, theirs: Side, reason: str) -> Difference:
    sentence = f"{dimension[0].upper()}{dimension[1:]}: not comparable. {reason}".rstrip()
    return Difference(dimension, mine.estimate, theirs.estimate, None, "unknown", False, sentence)


def _covered(noise: Noise | None, change: Estimate | None) -> str:
    if noise is None or change is None or not noise.covers(change.value):
        return ""
    return f"noise: no more than the baseline differs from itself when it is measured twice ({noise.words})"


def _judged(outcome: Outcome, change: Estimate, noise: str = "") -> str:
    if outcome == "equal":
        return ""
    if outcome == "noise":
        return f", {noise}"
    return ", established" if excludes_zero(change) else ", not established"


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
