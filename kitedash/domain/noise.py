"""The noise floor: how far two measurements of one and the same thing lie apart (an A/A test).

The baseline's load is measured at the start of an experiment and once more at its end, under the same requests. What
differs between the two is brought about by nothing that a candidate does: another start of the server, a machine that
grew warm, neighbours. The intervals of a candidate know nothing of that: all their blocks are of one start, within
minutes.

Of each latency the floor is the largest relative difference over the rates that both measurements carried. It is a
ratio, the larger over the smaller, so that it does not matter which of the two is called the first. With n such rates a
difference that is noise alone, drawn like these, exceeds it with probability 1/(n+1): so a difference beyond the floor
is not thereby established, it also needs an interval that excludes no change; one within the floor is called noise,
whatever its interval says.

A cost follows from the highest rate held and jumps with it. It is noise where the two measurements of the baseline
themselves differ by as much, or where latencies moved by their floor bring the rate held by one candidate to the
other's. The pass rate has no floor: greedy answers are not asked for a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, log1p

from kitedash.domain import wording
from kitedash.domain.cost import held_range
from kitedash.domain.experiment import Guardrails, Targets
from kitedash.domain.ratio import excludes_zero, latency_change
from kitedash.domain.results import Estimate, LevelStatus, LevelSummary

ROUNDING = 1e-9  # a difference that equals the floor must not exceed it by its last bit
NOT_ASKED = "the baseline was measured once only"


@dataclass(frozen=True)
class Noise:
    """Of one number. `floor` is relative (0.1: the larger is 10 % above the smaller), infinite where one measurement
    had the number and the other had none, None where it is not measured: `missing` says why. `rates`: over how many it
    is the largest, `at_rate_per_s`: where."""

    floor: float | None
    rates: int = 0
    at_rate_per_s: float | None = None
    missing: str = ""

    def covers(self, change: float | None) -> bool:
        """Whether a relative change, mine / theirs - 1, is within the floor, up or down."""
        if self.floor is None or change is None or change <= -1:
            return False
        return abs(log1p(change)) <= log1p(self.floor) + ROUNDING

    @property
    def words(self) -> str:
        if self.floor is None:
            return wording.UNKNOWN
        return wording.percent(self.floor) if isfinite(self.floor) else "without bound"


@dataclass(frozen=True)
class NoiseFloor:
    """Of one experiment. `moved`: a sentence where the two measurements differ by more than their own intervals
    explain: the machine changed meanwhile; else "". `missing` is "" once it is measured."""

    ttft_p50: Noise
    ttft_p90: Noise
    tpot_p90: Noise
    e2e_p90: Noise
    cost: Noise
    moved: str = ""
    missing: str = ""

    @property
    def is_measured(self) -> bool:
        return not self.missing

    @property
    def sentence(self) -> str:
        """In one line, with the number of rates; or why there is none."""
        if self.missing:
            return f"Noise floor: not measured, since {self.missing}."
        known = [
            f"{one.words} in {name}"
            for name, one in (("P90 TTFT", self.ttft_p90), ("P90 TPOT", self.tpot_p90), ("deployed cost", self.cost))
            if one.floor is not None
        ]
        rates = "1 rate" if self.ttft_p90.rates == 1 else f"the largest of {self.ttft_p90.rates} rates"
        return f"Noise floor: the baseline measured twice differs by {wording.listed(known)} ({rates})."


def not_measured(reason: str) -> NoiseFloor:
    nothing = Noise(None, missing=reason)
    return NoiseFloor(nothing, nothing, nothing, nothing, nothing, missing=reason)


ONCE = not_measured(NOT_ASKED)


def noise_floor(
    first: Sequence[LevelSummary],
    again: Sequence[LevelSummary],
    *,
    first_usd: float | None = None,
    again_usd: float | None = None,
    priced: bool = False,
) -> NoiseFloor:
    """From the levels of the two measurements, and what each costs deployed (None: it holds no rate). `priced`: whether
    the device has a price at all."""
    others = {level.rate_per_s: level for level in again if level.status is LevelStatus.OK}
    pairs = [
        (level, others[level.rate_per_s])
        for level in first
        if level.status is LevelStatus.OK and level.rate_per_s in others
    ]
    if not pairs:
        return not_measured("no rate gave a result both times")
    return NoiseFloor(
        ttft_p50=_largest(pairs, lambda level: level.ttft_p50_ms),
        ttft_p90=_largest(pairs, lambda level: level.ttft_p90_ms),
        tpot_p90=_largest(pairs, lambda level: level.tpot_p90_ms),
        e2e_p90=_largest(pairs, lambda level: level.e2e_p90_ms),
        cost=_of_cost(first_usd, again_usd) if priced else Noise(None, missing="the baseline's device has no price"),
        moved=_moved(pairs),
    )


def cost_range(
    levels: Sequence[LevelSummary],
    floor: NoiseFloor,
    targets: Targets,
    guardrails: Guardrails,
    usd_at: Callable[[float], float],
) -> tuple[float, float]:
    """(least, most) that a candidate could have been seen to cost, had its latencies come out lower or higher by the
    noise floor. `usd_at`: its cost by the highest rate held; infinite where none is."""
    rates = [held_range(_moved_by(levels, floor, down=down), targets, guardrails).value for down in (True, False)]
    least, most = (inf if rate is None else usd_at(rate) for rate in rates)
    return least, most


def reaches(range_usd: tuple[float, float], usd: float | None) -> bool:
    """Whether a candidate of such a `cost_range` could as well have been seen to cost `usd`."""
    if usd is None:
        return False
    return range_usd[0] * (1 - ROUNDING) <= usd <= range_usd[1] * (1 + ROUNDING)


def _moved_by(levels: Sequence[LevelSummary], floor: NoiseFloor, *, down: bool) -> list[LevelSummary]:
    def moved(estimate: Estimate, noise: Noise) -> Estimate:
        factor = 1 + (noise.floor or 0.0)
        if estimate.value is None:
            return estimate
        return replace(estimate, value=estimate.value / factor if down else estimate.value * factor)

    return [
        replace(
            level,
            ttft_p90_ms=moved(level.ttft_p90_ms, floor.ttft_p90),
            tpot_p90_ms=moved(level.tpot_p90_ms, floor.tpot_p90),
        )
        for level in levels
    ]


def _largest(pairs: Sequence[tuple[LevelSummary, LevelSummary]], number: Callable[[LevelSummary], Estimate]) -> Noise:
    found = [
        (apart, one.rate_per_s)
        for one, other in pairs
        if (apart := _apart(number(one).value, number(other).value)) is not None
    ]
    if not found:
        return Noise(None, missing="it could not be stated both times at any rate")
    largest, at = max(found)
    return Noise(largest, len(found), at)


def _apart(one: float | None, other: float | None) -> float | None:
    """The larger over the smaller, less 1."""
    if one is None or other is None or not (0 < one < inf and 0 < other < inf):
        return None
    return max(one, other) / min(one, other) - 1


def _of_cost(one: float | None, other: float | None) -> Noise:
    if one is None and other is None:
        return Noise(None, missing="the baseline held no measured rate either time")
    apart = _apart(one, other)
    return Noise(inf if apart is None else apart, rates=1)


def _moved(pairs: Sequence[tuple[LevelSummary, LevelSummary]]) -> str:
    """At which rates P90 TTFT or P90 TPOT changed for sure, and by how much at most."""
    changes = [
        (abs(log1p(change.value)), change.value, name, first.rate_per_s)
        for first, again in pairs
        for name, one, other in (
            ("P90 TTFT", first.ttft_p90_ms, again.ttft_p90_ms),
            ("P90 TPOT", first.tpot_p90_ms, again.tpot_p90_ms),
        )
        if (change := latency_change(other, one)) is not None and change.value is not None and excludes_zero(change)
    ]
    if not changes:
        return ""
    _, value, name, at = max(changes)
    rates = [wording.rate(rate) for rate in sorted({rate for *_, rate in changes})]
    return (
        f"The baseline changed between its two measurements by more than their intervals explain, at "
        f"{wording.listed(rates)}: {name} was {100 * abs(value):.1f} % {'higher' if value > 0 else 'lower'} at the end "
        f"at {wording.rate(at)}."
    )
