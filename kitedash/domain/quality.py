"""Pass rates, and the verdict on a candidate's quality: a paired non-inferiority test against the baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from kitedash.domain import paired
from kitedash.domain.proportions import critical_value, design_effect, wilson
from kitedash.domain.results import Answer, Estimate

VerdictKind = Literal["pass", "fail", "inconclusive", "uninformative"]


@dataclass(frozen=True)
class Verdict:
    """A candidate against the baseline on one suite.

    `change` is candidate - baseline as a share of items with its 90 % interval: each end is a one-sided 95 % bound.
    `items_needed`: about how many items would settle it; None where it is settled, or no number would.
    `smallest_loss`: the loss that so many items could have told from none (power 80 %).
    """

    kind: VerdictKind
    sentence: str
    change: Estimate
    items_needed: int | None
    n: int
    gained: int
    lost: int
    mcnemar_p: float
    design_effect: float
    smallest_loss: float | None


@dataclass(frozen=True)
class PairedChange:
    """Two candidates item by item: what one gained and lost against the other.

    `change` is (gained - lost) / n as a share of items with its 90 % interval: each end is a one-sided 95 % bound.
    `doubtful`: items that the other did not answer and that were not passed either; they count in the lower end.
    `differently`: items that were not asked in the same words of both; any at all leaves nothing to compare.
    `design_effect` is None where the clusters are too few to tell.
    """

    change: Estimate
    n: int
    gained: int
    lost: int
    doubtful: int
    differently: int
    design_effect: float | None


def pass_rate(answers: Sequence[Answer]) -> Estimate:
    """Share of items passed with Wilson's 95 % interval.

    Where items share clusters (files) and there are at least 10 of them, n is divided by the design effect and the
    quantile is Student's t. A missing, truncated or failed answer is an Answer that did not pass: it counts in n.
    """
    n = len(answers)
    if n == 0:
        return Estimate(None, note="no items")
    passed = sum(answer.passed for answer in answers)
    clusters = [answer.cluster for answer in answers]
    k = len(set(clusters))
    effect = design_effect([float(answer.passed) for answer in answers], clusters)
    note = f"only {k} clusters: the interval takes items as independent" if effect is None else ""
    clustered = effect is not None and k < n
    size = n / (effect or 1.0)
    low, high = wilson(passed * size / n, size, critical=critical_value(0.975, k if clustered else None))
    return Estimate(passed / n, low, high, n, note)


def verdict(candidate: Sequence[Answer], baseline: Sequence[Answer], *, margin: float, chance: float) -> Verdict:
    """Non-inferiority of the candidate, item by item. Both must be answers to the same version of one suite.

    pass: the one-sided 95 % lower bound of the change is above -margin. fail: the upper bound is below -margin.
    uninformative (never a pass): the baseline is not clearly above `chance`, there are too few items to pass even
    without any change, or the two were not asked the same. inconclusive: anything else, which is no pass either.

    An item that the candidate has no answer to is not passed. One that the baseline has no answer to, or only an
    error, is never gained; unless the candidate passed it, it counts as lost in the lower bound and as unchanged in
    the upper one: a broken baseline helps nobody pass and makes nobody fail. Raises ValueError for a margin outside
    (0, 1).
    """
    if not 0 < margin < 1:
        raise ValueError("margin must be between 0 and 1")
    found = paired_change(candidate, baseline)
    if found.n == 0:
        return _nothing("Uninformative: there are no answers to compare.")
    if found.differently:
        return _nothing(
            f"Uninformative: {found.differently} of {found.n} items were not asked in the same words of both "
            "candidates."
        )
    theirs = {answer.item_id for answer in baseline}
    complete = [*baseline, *(replace(answer, passed=False) for answer in candidate if answer.item_id not in theirs)]
    return _decide(found, pass_rate(complete), margin, chance)


def paired_change(mine: Sequence[Answer], other: Sequence[Answer]) -> PairedChange:
    """`mine` against `other`, item by item; both must be answers to the same version of one suite.

    An item that mine has no answer to is not passed. One that the other has no answer to, or only an error, is never
    gained; unless mine passed it, it counts as lost in the lower end and as unchanged in the upper one. So the two
    directions mirror each other only where both answered everything.
    """
    theirs = {answer.item_id: answer for answer in other}
    ours = {answer.item_id: answer for answer in mine}
    ids = list(theirs) + [item_id for item_id in ours if item_id not in theirs]
    differently = sum(_asked_differently(ours.get(item_id), theirs.get(item_id)) for item_id in ids)
    if not ids or differently:
        return PairedChange(Estimate(None), len(ids), 0, 0, 0, differently, None)
    changes = [_change(ours.get(item_id), theirs.get(item_id)) for item_id in ids]
    doubtful = sum(_in_doubt(ours.get(item_id), theirs.get(item_id)) for item_id in ids)
    clusters = [(theirs.get(item_id) or ours[item_id]).cluster for item_id in ids]
    n, gained, lost = len(changes), changes.count(1), changes.count(-1)
    known = design_effect([float(change) for change in changes], clusters)
    effect, k = known or 1.0, len(set(clusters))
    # z, or t where the variance comes from the clusters themselves; counts shrink to what independent items would be.
    clustered = known is not None and k < n and gained + lost > 0
    critical = critical_value(paired.ONE_SIDED_LEVEL, k if clustered else None)
    level = paired.ONE_SIDED_LEVEL
    low, high = paired.difference_interval(gained / effect, lost / effect, n / effect, level=level, critical=critical)
    if doubtful:
        worst = (lost + doubtful) / effect
        low, _ = paired.difference_interval(gained / effect, worst, n / effect, level=level, critical=critical)
    few = f"; {k} clusters are too few to allow for items that resemble each other" if known is None else ""
    change = Estimate((gained - lost) / n, low, high, n, "90 % interval: each end is a one-sided 95 % bound" + few)
    return PairedChange(change, n, gained, lost, doubtful, 0, known)


def _decide(found: PairedChange, baseline: Estimate, margin: float, chance: float) -> Verdict:
    change, n, gained, lost, doubtful = found.change, found.n, found.gained, found.lost, found.doubtful
    effect = found.design_effect or 1.0
    assert change.low is not None
    assert change.high is not None
    low, high = change.low, change.high
    share = (gained + lost + doubtful) / n
    fewest = paired.fewest_items(margin)
    needed: int | None = None
    seen = f"{lost} lost and {gained} gained of {n} items"
    if doubtful:
        seen += f", {doubtful} that the baseline did not answer"
    kind: VerdictKind
    if high < -margin:
        kind = "fail"
        sentence = f"Fail: at least {_points(-high)} are lost, more than the margin of {_points(margin)}; {seen}."
    elif baseline.low is None or baseline.low <= chance:
        kind = "uninformative"
        sentence = (
            f"Uninformative: the baseline passes {baseline.value or 0:.0%}, not clearly above the {chance:.0%} of "
            "guessing, so a loss could not show."
        )
    elif n < fewest:
        kind, needed = "uninformative", fewest
        sentence = (
            f"Uninformative: {n} items can't rule out a loss of {_points(margin)} even if none changes; "
            f"it takes {fewest}."
        )
    elif low > -margin:
        kind = "pass"
        at_most = f"at most {_points(-low)} are lost" if low < 0 else "nothing is lost"
        sentence = f"Pass: {at_most}, within the margin of {_points(margin)}; {seen}."
    else:
        kind = "inconclusive"
        needed, assumed = _items_needed(margin, share, (gained - lost) / n, n, effect)
        settle = (
            f"about {needed:,} items would settle it if {assumed}" if needed else "more items would hardly settle it"
        )
        sentence = (
            f"Inconclusive: up to {_points(-low)} may be lost, the margin is {_points(margin)}; {seen}; {settle}."
        )
    return Verdict(
        kind, sentence, change, needed, n, gained, lost, paired.mcnemar_p(gained, lost), effect,
        paired.smallest_visible_loss(n / effect, share),
    )  # fmt: skip


def _items_needed(margin: float, share: float, change: float, n: int, effect: float) -> tuple[int | None, str]:
    """First as if nothing were lost; if the items at hand were that many, as if the change seen were the true one."""
    needed = paired.items_for(margin, share, design_effect=effect)
    if needed is not None and needed > n:
        return needed, "nothing is really lost"
    needed = paired.items_for(margin, share, change=change, design_effect=effect)
    return (max(needed, n + 1) if needed is not None else None), "the change seen is the true one"


def _change(candidate: Answer | None, baseline: Answer | None) -> int:
    if baseline is None or baseline.error:
        return 0
    return int(candidate is not None and candidate.passed) - int(baseline.passed)


def _in_doubt(candidate: Answer | None, baseline: Answer | None) -> bool:
    return (baseline is None or bool(baseline.error)) and not (candidate is not None and candidate.passed)


def _asked_differently(candidate: Answer | None, baseline: Answer | None) -> bool:
    if candidate is None or baseline is None or not candidate.prompt_sha256 or not baseline.prompt_sha256:
        return False
    return candidate.prompt_sha256 != baseline.prompt_sha256


def _points(share: float) -> str:
    return f"{share * 100:.1f}".removesuffix(".0") + (" point" if round(share * 100, 1) == 1 else " points")


def _nothing(sentence: str) -> Verdict:
    return Verdict("uninformative", sentence, Estimate(None), None, 0, 0, 0, 1.0, 1.0, None)
