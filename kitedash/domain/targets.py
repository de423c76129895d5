"""The status of a number against its target, and of a candidate.

A status speaks about the 95 % interval, never about the point estimate: `meets` if all of it is on the right side of
the target, `misses` if all of it is on the wrong side, else `uncertain`. A bound that is not established leaves its
own side open and says nothing about the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from kitedash.domain.cost import HeldRange
from kitedash.domain.experiment import Targets
from kitedash.domain.results import Estimate, LevelStatus, LevelSummary


class Status(StrEnum):
    """Of a target, and of a candidate: any miss -> misses; all meet -> meets; else uncertain."""

    MEETS = "meets"
    MISSES = "misses"
    UNCERTAIN = "uncertain"
    PENDING = "pending"  # not measured yet: the run is under way, or it failed


def status_of(estimate: Estimate | None, target: float, *, higher_is_better: bool = False) -> Status:
    """The status of one number; a number exactly on its target meets it. `pending` without any data."""
    if estimate is None or (estimate.value is None and estimate.low is None and estimate.high is None):
        return Status.PENDING
    good_side, bad_side = (estimate.low, estimate.high) if higher_is_better else (estimate.high, estimate.low)
    sign = -1 if higher_is_better else 1
    if good_side is not None and sign * good_side <= sign * target:
        return Status.MEETS
    if bad_side is not None and sign * bad_side > sign * target:
        return Status.MISSES
    return Status.UNCERTAIN


def candidate_status(statuses: Iterable[Status]) -> Status:
    """One miss is enough for a miss; what is not measured is said before what is merely uncertain."""
    seen = set(statuses)
    for status in (Status.MISSES, Status.PENDING, Status.UNCERTAIN):
        if status in seen:
            return status
    return Status.MEETS if seen else Status.PENDING


def operating_status(
    levels: Sequence[LevelSummary], held: HeldRange, deployed_usd: Estimate | None, targets: Targets, *, complete: bool
) -> tuple[Status, Status]:
    """The statuses of P90 TTFT and of the deployed cost.

    With a rate held, both are judged at the marked point. While rates are still to be measured (`complete` is False)
    both are pending, since a higher rate may move the marked point. With no rate held there is no operating point,
    and so nothing that could meet a target:

    - every measured rate is ruled out: the cost misses (no number of replicas carries the peak at a rate that was
      seen to work); TTFT misses if the lowest rate, the easiest one, is overloaded or its whole interval is above the
      target, and is uncertain if only a guardrail stands in the way there.
    - some rate may hold: TTFT is uncertain; the cost misses if even the highest such rate would cost more than the
      target.

    `deployed_usd` is None when the device has no price: the cost is then pending.
    """
    valid = sorted(
        (level for level in levels if level.status != LevelStatus.INVALID), key=lambda level: level.rate_per_s
    )
    if not valid or not complete:
        return Status.PENDING, Status.PENDING
    if held.value is not None:
        point = next(level for level in valid if level.rate_per_s == held.value)
        return (
            status_of(point.ttft_p90_ms, targets.ttft_p90_ms),
            status_of(deployed_usd, targets.cost_per_1000_requests_usd),
        )
    if held.optimistic is None:
        lowest = valid[0]
        ttft = lowest.ttft_p90_ms
        too_slow = status_of(ttft, targets.ttft_p90_ms) == Status.MISSES or _is_failure(ttft)
        lost = too_slow or lowest.status == LevelStatus.OVERLOADED
        return Status.MISSES if lost else Status.UNCERTAIN, Status.MISSES
    cost = status_of(deployed_usd, targets.cost_per_1000_requests_usd)
    return Status.UNCERTAIN, Status.UNCERTAIN if cost == Status.MEETS else cost


def _is_failure(ttft_p90_ms: Estimate) -> bool:
    """Whether the percentile and its lower bound are failed requests, which count as above any target."""
    return ttft_p90_ms.n > 0 and ttft_p90_ms.value is None and ttft_p90_ms.low is None
