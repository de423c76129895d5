"""What a run's page shows: one run of a candidate with what it measured and answered, and what that counts for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from db import results, runs
from db.engine import sessions
from kitedash.domain.errors import NotFound
from kitedash.domain.experiment import Candidate, ExperimentSpec
from kitedash.domain.latency import is_held
from kitedash.domain.rate_search import SearchResult, search_result, tried_of
from kitedash.domain.results import BlockResult, LevelSummary
from kitedash.domain.run_plan import as_run
from kitedash.services.answers import SuiteAnswers, suite_answers
from kitedash.services.change_token import progress_token
from kitedash.services.evidence import CandidateEvidence, ExperimentEvidence, SuiteEvidence
from kitedash.services.kept_evidence import kept_evidence, kept_results, kept_view
from kitedash.services.limits import AskedLimits
from kitedash.services.memory_view import MemoryView, memory_view
from kitedash.services.quality_views import suite_views
from kitedash.services.raw_data import Format, What, name_of
from kitedash.services.runs import newest_experiment, run_items, run_view
from kitedash.services.views import CandidateView, LevelPoint, RunItem, RunView, SuiteView, TradeoffView
from kitedash.settings import settings

_INTEREST = {"finished": 0, "running": 1}  # what one most likely came for, where no run is named


@dataclass(frozen=True)
class RunDetail:
    """`view` and `candidate` are the experiment's, over all repeats that count; `counts` says whether this run is one
    of them. `levels`, `blocks` and `suites` are this run's own. The blocks come without their requests, for which
    `blocks_version` is a cache key. `answers` is None unless a suite was asked for that the run has answered."""

    run: RunView
    runs: tuple[RunItem, ...]  # all of the experiment
    settings: Candidate  # as it is, or is to be, started
    view: TradeoffView
    candidate: CandidateView
    counts: bool
    levels: tuple[LevelPoint, ...]
    blocks: tuple[BlockResult, ...]
    blocks_version: str
    timelines: int  # blocks that have one
    suites: tuple[SuiteView, ...]
    answers: SuiteAnswers | None
    memory: MemoryView | None = None  # None without such a stage
    search: SearchResult | None = None  # under the view's targets; None where nothing is searched, or measured yet
    token: str = ""  # of `change_token`, from before all of this was read

    @property
    def spec(self) -> ExperimentSpec:
        return self.view.spec

    def file_name(self, what: What, file_format: Format) -> str:
        """Of the run's raw data as a file."""
        return name_of(self.run.experiment_name, self.run.candidate_name, self.run.id, what, file_format)


def page(
    run_id: str | None,
    experiment_id: str | None = None,
    *,
    limits: AskedLimits | None = None,
    suite: str | None = None,
    item_id: str | None = None,
    with_answers: bool = False,
) -> RunDetail | None:
    """The run that is named, else one of the experiment's (by default the newest's). None while there is none.

    `suite` falls back to the first that the run has answered.
    Raises NotFound for a run, or without one for an experiment, that is not stored.
    """
    chosen = run_id or _choose(experiment_id)
    if chosen is None:
        return None
    token = change_token(_experiment_of(chosen))
    run = run_view(chosen)
    evidence = kept_evidence(run.experiment_id)
    spec = evidence.spec
    asked = (limits if experiment_id in (None, run.experiment_id) else None) or AskedLimits()
    view = kept_view(evidence, targets=asked.targets(spec), guardrails=asked.guardrails(spec))
    candidate = _named(view.candidates, run.candidate_name)
    mine = next(found for found in evidence.candidates if found.candidate.name == candidate.name)
    baseline = next((found for found in evidence.candidates if found.is_baseline), None)
    with sessions(settings().url)() as session:
        stored = runs.get(session, chosen)
        found = kept_results(session, stored)
        own, answers = found.suites, None
        if with_answers and own:
            answers = suite_answers(
                session,
                chosen,
                suite if suite is not None and suite in own else _first_of(spec, own),
                baseline_run_ids=() if run.is_baseline or baseline is None else baseline.run_ids,
                item_id=item_id,
            )
        blocks = results.block_heads(session, chosen)
        return RunDetail(
            run=run,
            runs=run_items(run.experiment_id),
            settings=runs.candidate_of(stored),
            view=view,
            candidate=candidate,
            counts=chosen in candidate.run_ids,
            levels=tuple(_level(level, view) for level in found.levels),
            blocks=tuple(blocks),
            blocks_version=results.blocks_version(session, chosen),
            timelines=results.timelines(session, chosen),
            suites=() if run.is_again else _suites(mine, own, baseline, evidence),
            answers=answers,
            memory=None if run.is_again else memory_view(session, chosen, spec),
            search=(
                search_result(tried_of(found.levels, blocks), spec.load, view.targets, view.guardrails)
                if as_run(spec, run.purpose).load.search
                else None
            ),
            token=token,
        )


def change_token(experiment_id: str) -> str:
    """Changes when the page should be drawn anew; it shows how far a stage is."""
    return progress_token(experiment_id)


def _experiment_of(run_id: str) -> str:
    with sessions(settings().url)() as session:
        return runs.get(session, run_id).experiment_id


def _choose(experiment_id: str | None) -> str | None:
    experiment_id = experiment_id or newest_experiment()
    found = run_items(experiment_id) if experiment_id is not None else ()
    return min(found, key=lambda run: _INTEREST.get(run.status, 2)).id if found else None


def _named(candidates: Sequence[CandidateView], name: str) -> CandidateView:
    found = next((candidate for candidate in candidates if candidate.name == name), None)
    if found is None:
        raise NotFound(f"The experiment has no candidate {name!r} any more.")
    return found


def _level(summary: LevelSummary, view: TradeoffView) -> LevelPoint:
    held, reason = is_held(summary, view.targets, view.guardrails)
    return LevelPoint(summary, held, reason, cost_usd=None)


def _first_of(spec: ExperimentSpec, own: Mapping[str, SuiteEvidence]) -> str:
    return next((choice.name for choice in spec.suites if choice.name in own), next(iter(own)))


def _suites(
    mine: CandidateEvidence,
    own: Mapping[str, SuiteEvidence],
    baseline: CandidateEvidence | None,
    evidence: ExperimentEvidence,
) -> tuple[SuiteView, ...]:
    """As in the trade-off, but with this run's answers, where the trade-off has those of the candidate's first run."""
    return suite_views(replace(mine, suites=own), baseline, evidence.spec)
