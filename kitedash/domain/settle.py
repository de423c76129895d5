"""What would settle an uncertain status or an inconclusive verdict: so many more requests at a rate, so many more
items.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log10

from kitedash.domain import wording
from kitedash.domain.cost import deployed_cost_usd, may_hold, surely_held
from kitedash.domain.experiment import Guardrails, Targets, Workload
from kitedash.domain.results import Estimate, LevelStatus, LevelSummary

MOST_TIMES = 100  # beyond a hundred times the sample, the honest answer is "too near to settle"


def needed_to_settle(estimate: Estimate, target: float) -> int | None:
    """About how many observations in all would move the interval off the target, if the estimate stayed where it is.

    The half-width on the target's side shrinks with the root of the sample, and it already carries the design effect
    of what it was computed from (blocks, clusters). None where that side is not established, nothing was measured, or
    more than `MOST_TIMES` the present sample would be needed.
    """
    if estimate.value is None or estimate.n <= 0:
        return None
    distance = target - estimate.value
    bound = estimate.high if distance > 0 else estimate.low
    if bound is None or distance == 0:
        return None
    times = ((bound - estimate.value) / distance) ** 2
    return max(estimate.n + 1, ceil(estimate.n * times - 1e-9)) if times <= MOST_TIMES else None


def settle_level(level: LevelSummary, targets: Targets, guardrails: Guardrails) -> str:
    """What would tell whether this level is held: a sentence, or "" when its intervals already do."""
    asked = (
        ("P90 TTFT", level.ttft_p90_ms, targets.ttft_p90_ms),
        ("P90 TPOT", level.tpot_p90_ms, guardrails.tpot_p90_ms),
    )
    open_ones = [(name, estimate, target) for name, estimate, target in asked if _is_open(estimate, target)]
    counted = {name: needed for name, one, target in open_ones if (needed := _needed(one, target)) is not None}
    parts = []
    if counted:  # the same requests give both numbers, so the larger count settles both
        n = max(estimate.n for name, estimate, _ in open_ones if name in counted)
        at = wording.rate(level.rate_per_s)
        names = wording.listed(list(counted))
        parts.append(f"{names}: about {_about(max(counted.values()))} requests at {at} (now {n:,})")
    parts += [_no_count(name, one, target, level) for name, one, target in open_ones if name not in counted]
    return "; ".join(parts)


def settle_cost(
    levels: Sequence[LevelSummary],
    targets: Targets,
    guardrails: Guardrails,
    price_usd_per_hour: float,
    devices: int,
    workload: Workload,
) -> str:
    """The lowest rate that would meet the cost target, were it held for certain, and what would make it certain."""
    for level in sorted(levels, key=lambda level: level.rate_per_s):
        if level.status == LevelStatus.INVALID or surely_held(level, targets, guardrails):
            continue
        if not may_hold(level, targets, guardrails):
            continue
        cost = deployed_cost_usd(price_usd_per_hour, devices, level.rate_per_s, workload)
        if cost <= targets.cost_per_1000_requests_usd:
            settled = settle_level(level, targets, guardrails)
            return f"cost: whether {wording.rate(level.rate_per_s)} is held ({settled})" if settled else ""
    return ""


def settle_pass_rate(estimate: Estimate, target: float) -> str:
    needed = needed_to_settle(estimate, target)
    if needed is None:
        return f"pass rate: too near its target for more items to settle (now {estimate.n:,})"
    return f"pass rate: about {_about(needed)} items (now {estimate.n:,})"


def settle_verdict(suite: str, kind: str, n_items: int, items_needed: int | None) -> str:
    """What a verdict that is not yet one waits for; "" for a settled one."""
    if kind in ("inconclusive", "uninformative") and items_needed is not None:
        return f"quality on {suite}: about {_about(items_needed)} items (now {n_items:,})"
    if kind == "inconclusive":
        return f"quality on {suite}: more items would hardly settle it (now {n_items:,})"
    if kind == "uninformative":
        return (
            f"quality on {suite}: items on which the baseline is clearly above chance, asked of both in the same words"
        )
    if kind == "pending":
        return f"quality on {suite}: answers of this candidate and of the baseline, on the same version of the suite"
    return ""


def _is_open(estimate: Estimate, target: float) -> bool:
    """Whether more requests could still tell on which side of the target it is."""
    if estimate.value is None or (estimate.high is not None and estimate.high <= target):
        return False
    return not (estimate.low is not None and estimate.low > target)


def _needed(estimate: Estimate, target: float) -> int | None:
    """In all, to move the interval off the target or, where they are too few for that, to have one at all."""
    needed = needed_to_settle(estimate, target)
    if needed is None and (estimate.high is None or estimate.low is None) and estimate.more is not None:
        return estimate.n + estimate.more
    return needed


def _no_count(name: str, estimate: Estimate, target: float, level: LevelSummary) -> str:
    at = wording.rate(level.rate_per_s)
    if estimate.high is None or estimate.low is None:
        return f"{name} at {at}: {estimate.note or 'more requests'}, now {estimate.n:,}"
    near = f"at {at} it is too near {wording.milliseconds(target)}"
    return f"{name}: {near} for more requests to settle (now {estimate.n:,})"


def _about(n: int) -> str:
    """Two significant digits, rounded up: the third would claim more than an extrapolation knows."""
    if n < 100:
        return str(n)
    step = 10 ** (int(log10(n)) - 1)
    return f"{ceil(n / step) * step:,}"
