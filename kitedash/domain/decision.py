"""Deciding: which part each candidate has in a decision, and what the document says of targets and recommendation."""

from __future__ import annotations

from collections.abc import Sequence

from kitedash.domain import pareto, wording
from kitedash.domain.decision_content import DecisionContent as DecisionContent
from kitedash.domain.decision_content import DraftContent as DraftContent
from kitedash.domain.decision_content import content_from as content_from
from kitedash.domain.decision_content import draft_content_from as draft_content_from
from kitedash.domain.decision_content import require_reasons as require_reasons
from kitedash.domain.decision_document import RecommendationPart, Role, StatusesPart, TargetsPart, WorkloadPart
from kitedash.domain.experiment import Targets, Workload


def role_of(name: str, chosen: str, *, on_front: bool, is_baseline: bool) -> Role:
    """A rejected baseline that is on the front counts as a member of the front."""
    if name == chosen:
        return "chosen"
    if on_front:
        return "rejected member of the front"
    return "baseline" if is_baseline else "other"


def explained_by_a_person(role: Role) -> bool:
    """Whether only a person can say why this candidate was not chosen: it lost to nothing, or it is the yardstick."""
    return role in ("rejected member of the front", "baseline")


def targets_part(written: Targets, used: Targets) -> TargetsPart:
    """Says plainly which targets the decision moved."""
    moved = [
        f"{name} {write(getattr(used, field))} instead of {write(getattr(written, field))}"
        for field, name, write in (
            ("ttft_p90_ms", "P90 TTFT", wording.milliseconds),
            ("cost_per_1000_requests_usd", "cost per 1,000 requests", wording.usd),
            ("pass_rate", "pass rate", wording.percent),
        )
        if getattr(used, field) != getattr(written, field)
    ]
    sentence = (
        f"The decision did not use the targets as written down: {wording.listed(moved)}."
        if moved
        else "The decision used the targets as they were written down in the experiment."
    )
    return TargetsPart(written, used, bool(moved), sentence)


def workload_part(workload: Workload) -> WorkloadPart:
    rates = (workload.requests_per_day, workload.mean_rate_per_s, workload.peak_rate_per_s)
    return WorkloadPart(workload, *map(float, rates))


def recommendation_part(
    kind: str, candidate: str | None, sentence: str, settles: Sequence[str], chosen: str
) -> RecommendationPart:
    differs = candidate != chosen
    said = ""
    if differs:
        named = f"{candidate} was ahead" if candidate is not None else "no candidate was recommended"
        said = f"The choice differs from the recommendation: {chosen} was chosen, and {named}."
    elif kind != "established":
        said = f"{chosen} is what was ahead, but that was not established."
    return RecommendationPart(kind, candidate, sentence, tuple(settles), differs, said)


def product_reason(
    name: str,
    *,
    run_status: str,
    error: str,
    measured: bool,
    held: bool,
    statuses: StatusesPart,
    failed_suites: Sequence[str],
    dominated_by: Sequence[str],
    incomplete: str,
    noise_apart: Sequence[str] = (),
) -> str:
    """Why a candidate that is on no front is not chosen, from what is stored.

    `dominated_by`: members of the front that are at least as good in all three numbers, none where it does not compare
    with them: `incomplete` then says why. `noise_apart`: those of them that differ from it by noise only.
    """
    if not measured:
        if error:
            return f"Not measured: it {'failed' if run_status == 'failed' else 'ended'} with: {error}"
        return f"Not measured: its run was {run_status} when this was decided."
    lost = [
        words
        for words, status in (
            ("P90 TTFT", statuses.ttft_p90),
            ("cost per 1,000 requests", statuses.cost),
            ("pass rate", statuses.pass_rate),
        )
        if status == "misses"
    ]
    sentences = []
    if lost:
        sentences.append(f"It misses {wording.listed(lost)}.")
    if failed_suites:
        sentences.append(f"Its quality fails against the baseline on {wording.listed(list(failed_suites))}.")
    if not held:
        sentences.append("No measured rate of it is held, so it has no operating point.")
    if dominated_by:
        others = wording.listed(list(dominated_by))
        verb = "is" if len(dominated_by) == 1 else "are"
        sentences.append(f"{others} {verb} at least as good in all three numbers, and better in one.")
    if noise_apart:
        sentences.append(f"What parts it from {wording.listed(list(noise_apart))} is no more than noise.")
    if error:
        sentences.append(f"It ended with: {error}")
    if not sentences:
        sentences.append(incomplete or f"{name} is not on the front.")
    return " ".join(sentences)


def dominating(mine: tuple[float, float, float], front: Sequence[tuple[str, tuple[float, float, float]]]) -> list[str]:
    """Which of the named points are at least as good in all of (P90 TTFT, cost, pass rate) and better in one."""
    return [name for name, point in front if pareto.dominates(pareto.losses(*point), pareto.losses(*mine))]
