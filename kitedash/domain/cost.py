"""Which rate a candidate holds, and what 1,000 requests cost at it.

Which rate counts. Capacity is a statement about the *offered* rate: one replica was seen to carry a Poisson stream of
that rate, so replicas are counted with it. The number of arrivals that a seed happened to draw is noise of the
measurement, the same for every candidate, and stays out. What a stream at that rate costs is divided by the requests
that were *answered*: the offered rate times the answered share of the drawn arrivals, and never more than the
throughput when the level is overloaded. On a held rate the two differ by at most the error guardrail. The delivered
rate of a level does not enter: it says that the client sent what was drawn, and a check holds it to that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import ceil
from typing import NamedTuple

from kitedash.domain.experiment import Guardrails, Targets, Workload
from kitedash.domain.latency import is_held
from kitedash.domain.results import Estimate, LevelStatus, LevelSummary

HOURS_PER_DAY = 24
SECONDS_PER_HOUR = 3_600


class HeldRange(NamedTuple):
    """Highest rates (requests/s) among the measured ones. None: no measured rate qualifies."""

    value: float | None  # held by the point estimates: the marked point
    pessimistic: float | None  # held even at the unfavourable ends of the intervals
    optimistic: float | None  # not ruled out: held at the favourable ends


def held_range(levels: Iterable[LevelSummary], targets: Targets, guardrails: Guardrails) -> HeldRange:
    """The highest rate held, with the range that the intervals of P90 TTFT and P90 TPOT leave open.

    `is_held` is asked three times of each level: at the estimates, at both upper bounds (a bound that is not
    established never holds) and at both lower bounds (one that is not established never rules out). A rate that holds
    at its upper bounds counts for the pessimistic end only if no lower rate is ruled out: latency grows with the
    rate, so the two contradict each other and nothing is established. Invalid levels say nothing.

    Wrong at the pessimistic end means that a rate above the true one looks held with its whole interval (2.5 % for
    the next rate, less beyond), at the optimistic end that the true one looks ruled out (2.5 %): about 95 % for the
    pair, over the measured rates.
    """
    valid = sorted(
        (level for level in levels if level.status != LevelStatus.INVALID), key=lambda level: level.rate_per_s
    )
    value = pessimistic = optimistic = None
    none_ruled_out = True
    for level in valid:
        if is_held(level, targets, guardrails)[0]:
            value = level.rate_per_s
        if may_hold(level, targets, guardrails):
            optimistic = level.rate_per_s
        else:
            none_ruled_out = False
        if none_ruled_out and surely_held(level, targets, guardrails):
            pessimistic = level.rate_per_s
    return HeldRange(value, pessimistic, optimistic)


def surely_held(level: LevelSummary, targets: Targets, guardrails: Guardrails) -> bool:
    """Whether the level is held at the upper bounds of P90 TTFT and P90 TPOT."""
    ttft, tpot = level.ttft_p90_ms.high, level.tpot_p90_ms.high
    if ttft is None or (tpot is None and level.tpot_p90_ms.value is not None):
        return False
    return _held_at(level, ttft, tpot or 0.0, targets, guardrails)


def may_hold(level: LevelSummary, targets: Targets, guardrails: Guardrails) -> bool:
    """Whether the level is held at the lower bounds; the conditions without an interval count as they were seen."""
    return _held_at(level, level.ttft_p90_ms.low or 0.0, level.tpot_p90_ms.low or 0.0, targets, guardrails)


def could_hold(level: LevelSummary, targets: Targets, guardrails: Guardrails) -> bool:
    """Whether the conditions without an interval are met: it would be held if P90 TTFT and TPOT were low enough."""
    return _held_at(level, 0.0, 0.0, targets, guardrails)


def _held_at(level: LevelSummary, ttft_ms: float, tpot_ms: float, targets: Targets, guardrails: Guardrails) -> bool:
    tpot = level.tpot_p90_ms
    moved = replace(
        level,
        ttft_p90_ms=replace(level.ttft_p90_ms, value=ttft_ms),
        tpot_p90_ms=tpot if tpot.value is None else replace(tpot, value=tpot_ms),  # answers of one token have none
    )
    return is_held(moved, targets, guardrails)[0]


def served_rate_per_s(level: LevelSummary) -> float:
    """Requests answered per second of the offered stream."""
    return level.rate_per_s * (1 - level.error_rate)


def level_cost_usd(
    level: LevelSummary, price_usd_per_hour: float, devices: int, output_tokens: float | None
) -> float | None:
    """USD per 1,000 requests at this level; None where nothing is answered or a check failed.

    An overloaded replica answers fewer requests than it is offered: there the rate is that of its output tokens over
    the tokens of an answer, and unknown where these are (None, of a trace).
    """
    if level.status == LevelStatus.INVALID:
        return None
    rate_per_s = served_rate_per_s(level)
    if level.status == LevelStatus.OVERLOADED:
        if output_tokens is None:
            return None
        rate_per_s = min(rate_per_s, level.output_tokens_per_s / output_tokens)
    return cost_at_rate_usd(price_usd_per_hour, devices, rate_per_s)


def cost_at_rate_usd(price_usd_per_hour: float, devices: int, rate_per_s: float) -> float | None:
    """USD per 1,000 requests of one replica kept busy at `rate_per_s`; None where nothing is served."""
    if rate_per_s <= 0:
        return None
    return price_usd_per_hour * devices / (rate_per_s * SECONDS_PER_HOUR) * 1_000


def replicas_for_peak(workload: Workload, held_rate_per_s: float) -> int:
    """Replicas that carry the peak at the highest rate held, and the spare ones."""
    # A quotient that is whole but for rounding (12 / 0.1) must not cost one more replica.
    return ceil(workload.peak_rate_per_s / held_rate_per_s - 1e-9) + workload.spare_replicas


def deployed_cost_usd(price_usd_per_hour: float, devices: int, held_rate_per_s: float, workload: Workload) -> float:
    """USD per 1,000 requests of the day with the peak's replicas up all day."""
    replicas = replicas_for_peak(workload, held_rate_per_s)
    return replicas * price_usd_per_hour * devices * HOURS_PER_DAY / workload.requests_per_day * 1_000


def saturated_cost(
    levels: Sequence[LevelSummary], held: HeldRange, price_usd_per_hour: float, devices: int
) -> Estimate:
    """USD per 1,000 requests at the highest rate held; the interval is that of the rate."""
    by_rate = {level.rate_per_s: level for level in levels}

    def at(rate_per_s: float | None) -> float | None:
        if rate_per_s is None:
            return None
        return cost_at_rate_usd(price_usd_per_hour, devices, served_rate_per_s(by_rate[rate_per_s]))

    return _estimate(at(held.value), at(held.optimistic), at(held.pessimistic), levels, held)


def deployed_cost(
    levels: Sequence[LevelSummary], held: HeldRange, price_usd_per_hour: float, devices: int, workload: Workload
) -> Estimate:
    """USD per 1,000 requests of the day; the interval is that of the highest rate held. Without a rate held the value
    is None, and `low` is what the highest rate that is not ruled out would cost."""

    def at(rate_per_s: float | None) -> float | None:
        if rate_per_s is None:
            return None
        return deployed_cost_usd(price_usd_per_hour, devices, rate_per_s, workload)

    return _estimate(at(held.value), at(held.optimistic), at(held.pessimistic), levels, held)


def _estimate(
    value: float | None, low: float | None, high: float | None, levels: Sequence[LevelSummary], held: HeldRange
) -> Estimate:
    n = next((level.n_requests for level in levels if level.rate_per_s == held.value), 0)
    note = "" if held.pessimistic is not None else "no rate is held with its whole interval: no upper bound"
    if value is not None:  # two rates a few per mille apart may swap by their answered shares
        low = value if low is None else min(low, value)
        high = None if high is None else max(high, value)
    return Estimate(value, low, high, n, note)
