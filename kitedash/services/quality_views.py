"""A candidate's suites with their verdicts against the baseline."""

from __future__ import annotations

from collections.abc import Iterable
from weakref import WeakKeyDictionary

from kitedash.domain.experiment import ExperimentSpec, SuiteChoice
from kitedash.domain.quality import pass_rate, verdict
from kitedash.domain.results import Estimate
from kitedash.services.evidence import CandidateEvidence, SuiteEvidence
from kitedash.services.views import SuiteView

REPOSITORY = "repository"
# A suite's last view with what it was compared with, as long as the evidence lives: no target moves a verdict.
_Asked = tuple[SuiteChoice, SuiteEvidence | None, bool]
_KEPT: WeakKeyDictionary[SuiteEvidence, tuple[_Asked, SuiteView]] = WeakKeyDictionary()


def suite_views(
    candidate: CandidateEvidence, baseline: CandidateEvidence | None, spec: ExperimentSpec
) -> tuple[SuiteView, ...]:
    """One view for every suite of the experiment, in its order; `pending` where there is nothing to compare yet."""
    theirs = baseline.suites if baseline is not None else {}
    return tuple(
        _suite_view(
            choice, candidate.suites.get(choice.name), theirs.get(choice.name), is_baseline=candidate.is_baseline
        )
        for choice in spec.suites
    )


def repository_suite(candidates: Iterable[CandidateEvidence], spec: ExperimentSpec) -> str | None:
    """The suite that the pass rate is on: the experiment's first one over the team's own repositories."""
    roles = {suite.name: suite.role for candidate in candidates for suite in candidate.suites.values()}
    return next((choice.name for choice in spec.suites if roles.get(choice.name) == REPOSITORY), None)


def _suite_view(
    choice: SuiteChoice, found: SuiteEvidence | None, theirs: SuiteEvidence | None, *, is_baseline: bool
) -> SuiteView:
    if found is None:
        return SuiteView(
            name=choice.name,
            role="",
            version="",
            pass_rate=Estimate(None, note="not answered yet"),
            n_items=0,
            n_passed=0,
            n_truncated=0,
            n_failed=0,
            verdict="pending",
            verdict_sentence="This candidate has not answered the suite yet.",
            change=None,
            margin=choice.margin,
            items_needed=None,
        )
    asked = (choice, theirs, is_baseline)
    kept = _KEPT.get(found)
    if kept is None or kept[0] != asked:
        kept = _KEPT[found] = (asked, _answered(choice, found, theirs, is_baseline=is_baseline))
    return kept[1]


def _answered(
    choice: SuiteChoice, found: SuiteEvidence, theirs: SuiteEvidence | None, *, is_baseline: bool
) -> SuiteView:
    kind, sentence, change, items_needed = _verdict(choice, found, theirs, is_baseline=is_baseline)
    return SuiteView(
        name=choice.name,
        role=found.role,
        version=found.version,
        pass_rate=pass_rate(found.answers),
        n_items=found.n_items,
        n_passed=found.n_passed,
        n_truncated=found.n_truncated,
        n_failed=found.n_failed,
        verdict=kind,
        verdict_sentence=sentence,
        change=change,
        margin=choice.margin,
        items_needed=items_needed,
    )


def _verdict(
    choice: SuiteChoice, found: SuiteEvidence, theirs: SuiteEvidence | None, *, is_baseline: bool
) -> tuple[str, str, Estimate | None, int | None]:
    if is_baseline:
        return "baseline", "The others are held to this candidate.", None, None
    if theirs is None:
        return "pending", "The baseline has not answered the suite yet.", None, None
    if theirs.version != found.version:
        sentence = (
            f"Not compared: answered on version {found.version[:8]} of the suite, the baseline on "
            f"{theirs.version[:8]}; only equal versions are."
        )
        return "pending", sentence, None, None
    decided = verdict(found.answers, theirs.answers, margin=choice.margin, chance=found.chance)
    return str(decided.kind), decided.sentence, decided.change, decided.items_needed
