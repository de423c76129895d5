"""One candidate against another: the three numbers, the settings that differ, the items fixed and broken."""

from __future__ import annotations

from dataclasses import dataclass

from kitedash.domain import comparison
from kitedash.domain.argument_text import in_words
from kitedash.domain.comparison import Difference, Side
from kitedash.domain.errors import NotFound
from kitedash.domain.experiment import ArgValue, Candidate, SuiteChoice
from kitedash.domain.quality import paired_change
from kitedash.domain.results import Estimate
from kitedash.services.evidence import CandidateEvidence, ExperimentEvidence, SuiteEvidence
from kitedash.services.noise_view import cost_could_swap
from kitedash.services.quality_views import repository_suite
from kitedash.services.views import CandidateView, TradeoffView

NOT_SET = "not set"


@dataclass(frozen=True)
class SuiteComparison:
    """A suite of the experiment. `fixed`: items that `name` passes and the other does not; `broken`: the reverse.

    `change` is paired, as a share of items with its 90 % interval; None unless `comparable`, and `sentence` then says
    why. An item that one of the two has no answer to is not passed by it.
    """

    suite: str
    role: str
    n: int
    fixed: tuple[str, ...]
    broken: tuple[str, ...]
    both_fail: tuple[str, ...]
    both_pass: int
    change: Estimate | None
    comparable: bool
    sentence: str


@dataclass(frozen=True)
class ComparisonView:
    """`name` against `other`. `settings` has what differs: (setting, of name, of other)."""

    name: str
    other: str
    differences: tuple[Difference, ...]  # P90 TTFT, deployed cost, pass rate: always the three
    settings: tuple[tuple[str, str, str], ...]
    suites: tuple[SuiteComparison, ...]


@dataclass(frozen=True)
class _Candidate:
    evidence: CandidateEvidence
    view: CandidateView


def compare(evidence: ExperimentEvidence, view: TradeoffView, name: str, other: str) -> ComparisonView:
    """`view` must be assembled from `evidence`. Raises NotFound for a candidate that the experiment does not have."""
    mine, theirs = _find(evidence, view, name), _find(evidence, view, other)
    suites = tuple(_suite(choice, mine.evidence, theirs.evidence) for choice in evidence.spec.suites)
    repository = repository_suite(evidence.candidates, evidence.spec)
    on_repository = next((suite for suite in suites if suite.suite == repository), None)
    return ComparisonView(
        name=name,
        other=other,
        differences=(
            comparison.ttft_difference(_ttft(mine), _ttft(theirs), view.noise.ttft_p90),
            comparison.cost_difference(
                _cost(mine),
                _cost(theirs),
                view.noise.cost,
                could_swap=cost_could_swap(mine.view, theirs.view, view),
            ),
            comparison.pass_rate_difference(
                Side(mine.view.pass_rate),
                Side(theirs.view.pass_rate),
                on_repository.change if on_repository is not None else None,
                on_repository.sentence
                if on_repository is not None
                else "No suite over the team's own repository has been answered.",
            ),
        ),
        settings=_settings(mine.evidence.candidate, theirs.evidence.candidate),
        suites=suites,
    )


def against_front(evidence: ExperimentEvidence, view: TradeoffView, name: str) -> tuple[ComparisonView, ...]:
    """`name` against each other member of the front, and against the baseline, in the experiment's order.

    Raises NotFound.
    """
    others = [found.name for found in view.candidates if (found.on_front or found.is_baseline) and found.name != name]
    return tuple(compare(evidence, view, name, other) for other in others)


def _find(evidence: ExperimentEvidence, view: TradeoffView, name: str) -> _Candidate:
    stored = next((found for found in evidence.candidates if found.candidate.name == name), None)
    shown = next((found for found in view.candidates if found.name == name), None)
    if stored is None or shown is None:
        raise NotFound(f"The experiment {evidence.name} has no candidate {name!r}.")
    return _Candidate(stored, shown)


def _ttft(found: _Candidate) -> Side:
    point = found.view.point
    if found.evidence.other_requests:
        return Side(None, missing=_other_requests(found))
    if point is None:
        return Side(None, missing=_no_point(found))
    missing = "" if point.summary.ttft_p90_ms.value is not None else f"{found.view.name}'s P90 TTFT can't be stated."
    return Side(point.summary.ttft_p90_ms, point.summary.rate_per_s, missing)


def _cost(found: _Candidate) -> Side:
    if found.evidence.other_requests:
        return Side(None, missing=_other_requests(found))
    if found.view.point is None:
        return Side(None, missing=_no_point(found))
    if found.view.cost is None:
        return Side(None, missing=f"{found.view.name}'s device has no price.")
    return Side(found.view.cost.deployed_usd)


def _other_requests(found: _Candidate) -> str:
    return f"{found.view.name} was measured with other requests than the baseline."


def _no_point(found: _Candidate) -> str:
    view = found.view
    if view.levels:
        return f"No measured rate of {view.name} is held, so it has no operating point."
    if view.error:
        return f"{view.name} was not measured: {view.error}"
    return f"{view.name} has not been measured yet."


def _settings(mine: Candidate, theirs: Candidate) -> tuple[tuple[str, str, str], ...]:
    rows = [("model", mine.model, theirs.model), ("number format", mine.quantization, theirs.quantization)]
    names = dict.fromkeys([*mine.engine_args, *theirs.engine_args])
    rows += [(name, _written(mine.engine_args.get(name)), _written(theirs.engine_args.get(name))) for name in names]
    variables = dict.fromkeys([*mine.environment, *theirs.environment])
    rows += [
        (f"environment {name}", mine.environment.get(name, NOT_SET), theirs.environment.get(name, NOT_SET))
        for name in variables
    ]
    rows.append(("devices", str(mine.devices), str(theirs.devices)))
    return tuple(row for row in rows if row[1] != row[2])


def _written(value: ArgValue | None) -> str:
    return NOT_SET if value is None else in_words(value)


def _suite(choice: SuiteChoice, mine: CandidateEvidence, theirs: CandidateEvidence) -> SuiteComparison:
    ours, others = mine.suites.get(choice.name), theirs.suites.get(choice.name)
    if ours is None or others is None:
        silent = [one.candidate.name for one, found in ((mine, ours), (theirs, others)) if found is None]
        known = ours or others
        role = known.role if known is not None else ""
        verb = "have" if len(silent) > 1 else "has"
        return _nothing(choice.name, role, f"{' and '.join(silent)} {verb} not answered it.")
    if ours.version != others.version:
        versions = f"{ours.version[:8]} and {others.version[:8]}"
        return _nothing(choice.name, ours.role, f"Answered on two versions of it, {versions}: only equal ones compare.")
    return _on_equal_items(choice.name, ours, others)


def _on_equal_items(suite: str, ours: SuiteEvidence, others: SuiteEvidence) -> SuiteComparison:
    found = paired_change(ours.answers, others.answers)
    if found.n == 0 or found.differently:
        words = f"{found.differently} of {found.n} items were not asked in the same words of both."
        return _nothing(suite, ours.role, words if found.n else "It has no answers.")
    passed_by_us = {answer.item_id for answer in ours.answers if answer.passed}
    passed_by_them = {answer.item_id for answer in others.answers if answer.passed}
    ids = sorted({answer.item_id for answer in (*ours.answers, *others.answers)})
    fixed = tuple(i for i in ids if i in passed_by_us and i not in passed_by_them)
    broken = tuple(i for i in ids if i in passed_by_them and i not in passed_by_us)
    both_fail = tuple(i for i in ids if i not in passed_by_us and i not in passed_by_them)
    both_pass = found.n - len(fixed) - len(broken) - len(both_fail)
    sentence = f"{len(fixed)} fixed, {len(broken)} broken, {len(both_fail)} fail in both, {both_pass} pass in both"
    if unanswered := len(fixed) - found.gained:
        sentence += f"; {unanswered} of the fixed count for nothing, since the other has no answer to them"
    return SuiteComparison(
        suite=suite,
        role=ours.role,
        n=found.n,
        fixed=fixed,
        broken=broken,
        both_fail=both_fail,
        both_pass=both_pass,
        change=found.change,
        comparable=True,
        sentence=f"{sentence}.",
    )


def _nothing(suite: str, role: str, sentence: str) -> SuiteComparison:
    return SuiteComparison(
        suite=suite,
        role=role,
        n=0,
        fixed=(),
        broken=(),
        both_fail=(),
        both_pass=0,
        change=None,
        comparable=False,
        sentence=f"{suite}: {sentence[0].lower()}{sentence[1:]}" if sentence.startswith("Answered") else sentence,
    )
