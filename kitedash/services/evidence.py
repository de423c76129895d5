"""What is stored of an experiment, one candidate at a time with its repeats combined: the input of the trade-off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache

from sqlalchemy.orm import Session

from db import evidence as stored
from db import experiments, results, runs
from db.engine import sessions
from db.models import Experiment, Run
from kitedash.domain.experiment import Candidate, ExperimentSpec
from kitedash.domain.rate_search import is_over
from kitedash.domain.results import Answer, BlockResult, LevelStatus, LevelSummary, RunStatus, ServerFacts
from kitedash.domain.run_order import as_written
from kitedash.domain.run_plan import AGAIN, MEASURED
from kitedash.measuring.levels import summarize_level
from kitedash.settings import settings


@dataclass(frozen=True, eq=False)  # too much to compare: two are the same only where they are one object
class SuiteEvidence:
    """One suite over one candidate; the answers are by item and without their texts."""

    name: str
    role: str
    version: str
    chance: float
    n_items: int
    n_passed: int
    n_truncated: int
    n_failed: int
    answers: tuple[Answer, ...]


@dataclass(frozen=True)
class RunResults:
    """What one run stored, as far as the trade-off asks for it. `schedules`: (rate, block) -> the hash of the requests
    that it was measured with."""

    levels: tuple[LevelSummary, ...]  # by rate
    suites: Mapping[str, SuiteEvidence]  # by name
    schedules: Mapping[tuple[float, int], str]

    @property
    def rows(self) -> int:
        answers = sum(len(suite.answers) for suite in self.suites.values())
        return 1 + len(self.levels) + answers + len(self.schedules)


@dataclass(frozen=True)
class CandidateEvidence:
    """`complete`: no further rate is going to be measured. `same_arrivals`: its repeats were measured under one
    schedule, so that their blocks are not independent. `other_requests`: some block was measured with other prompts or
    arrivals than the same block of the baseline."""

    run_ids: tuple[str, ...]
    candidate: Candidate
    is_baseline: bool
    status: RunStatus
    error: str
    facts: ServerFacts | None
    levels: tuple[LevelSummary, ...]  # by rate
    complete: bool
    suites: Mapping[str, SuiteEvidence]
    same_arrivals: bool = False
    other_requests: bool = False


@dataclass(frozen=True)
class MeasuredTwice:
    """The baseline's load at the start of the experiment and once more at its end, under the same requests: the A/A
    pair. `status` is that of the second run; `differs` says why the two do not compare, "" where they do."""

    first_run_id: str
    again_run_id: str
    status: RunStatus
    first: tuple[LevelSummary, ...]  # by rate
    again: tuple[LevelSummary, ...]
    differs: str = ""


@dataclass(frozen=True, eq=False)
class ExperimentEvidence:
    """`twice` is None where the baseline is not measured twice."""

    id: str
    name: str
    created_at: datetime
    spec: ExperimentSpec
    candidates: tuple[CandidateEvidence, ...]
    runs_active: int
    revision: str
    twice: MeasuredTwice | None = None


def experiment_evidence(experiment_id: str) -> ExperimentEvidence:
    """Reads all of it in one session and seven queries (more only where candidates were measured repeatedly).

    Raises NotFound.
    """
    with sessions(settings().url)() as session:
        experiment = experiments.get(session, experiment_id)
        stored_runs = runs.of_experiment(session, experiment_id)
        by_run = run_results(session, [run.id for run in runs.newest(stored_runs)])
        return combined(experiment, stored_runs, by_run)


def run_results(session: Session, run_ids: Sequence[str]) -> dict[str, RunResults]:
    """Of each run what it stored, in four queries."""
    if not run_ids:
        return {}
    levels, schedules = stored.levels(session, run_ids), stored.schedules(session, run_ids)
    answers = stored.outcomes(session, run_ids)
    suites: dict[str, dict[str, SuiteEvidence]] = {run_id: {} for run_id in run_ids}
    for row in stored.suites(session, run_ids):
        suites[row.run_id][row.name] = SuiteEvidence(
            name=row.name,
            role=row.role,
            version=row.version,
            chance=row.chance,
            n_items=row.n_items,
            n_passed=row.n_passed,
            n_truncated=row.n_truncated,
            n_failed=row.n_failed,
            answers=tuple(answers.get((row.run_id, row.name), ())),
        )
    return {
        run_id: RunResults(tuple(levels.get(run_id, ())), suites[run_id], schedules.get(run_id, {}))
        for run_id in run_ids
    }


def combined(
    experiment: Experiment, stored_runs: Sequence[Run], by_run: Mapping[str, RunResults]
) -> ExperimentEvidence:
    """The evidence from the experiment's runs and from the results of those that count."""
    spec = experiments.spec_of(experiment)
    counted = runs.newest(stored_runs)
    all_runs = [run for run in counted if run.purpose == MEASURED]
    repeats: dict[str, list[Run]] = {}
    for run in all_runs:
        repeats.setdefault(run.candidate_name, []).append(run)
    candidates = tuple(_candidate(repeats[name], spec, by_run) for name in as_written(spec, repeats))
    other = _of_other_requests(all_runs, {run_id: found.schedules for run_id, found in by_run.items()})
    candidates = tuple(replace(one, other_requests=not other.isdisjoint(one.run_ids)) for one in candidates)
    return ExperimentEvidence(
        id=experiment.id,
        name=experiment.name,
        created_at=experiment.created_at,
        spec=spec,
        candidates=candidates,
        runs_active=sum(not RunStatus(run.status).is_final for run in counted),
        revision=f"{len(stored_runs)}.{sum(run.revision for run in stored_runs)}",
        twice=_twice(spec, all_runs, next((run for run in counted if run.purpose == AGAIN), None), by_run),
    )


def _candidate(repeats: Sequence[Run], spec: ExperimentSpec, by_run: Mapping[str, RunResults]) -> CandidateEvidence:
    first = repeats[0]
    status = _status([RunStatus(run.status) for run in repeats])
    levels, same_arrivals = _levels(repeats, spec, {run.id: by_run[run.id].levels for run in repeats})
    # Greedy answers repeat but for batching: of several repeats the first one counts, so that an item has one answer.
    by_suite: dict[str, SuiteEvidence] = {}
    for run in repeats:
        for choice in spec.suites:
            if choice.name not in by_suite and choice.name in by_run[run.id].suites:
                by_suite[choice.name] = by_run[run.id].suites[choice.name]
    return CandidateEvidence(
        run_ids=tuple(run.id for run in repeats),
        candidate=runs.candidate_of(first),
        is_baseline=first.is_baseline,
        status=status,
        error=next((run.error for run in repeats if run.error), ""),
        facts=next((facts for run in repeats if (facts := runs.facts_of(run)) is not None), None),
        levels=levels,
        complete=_complete(status, levels, spec),
        suites=by_suite,
        same_arrivals=same_arrivals,
    )


def _twice(
    spec: ExperimentSpec, measured: Sequence[Run], again: Run | None, by_run: Mapping[str, RunResults]
) -> MeasuredTwice | None:
    first = next((run for run in measured if run.is_baseline and run.repeat == 0), None)
    if first is None or again is None:
        return None
    one, other = by_run[first.id], by_run[again.id]
    shared = one.schedules.keys() & other.schedules.keys()
    same = all(one.schedules[block] == other.schedules[block] for block in shared)
    return MeasuredTwice(
        first_run_id=first.id,
        again_run_id=again.id,
        status=RunStatus(again.status),
        # What a search measured the first time only would pass for a higher rate held.
        first=tuple(level for level in one.levels if level.rate_per_s in spec.load.rates_per_s),
        again=other.levels,
        differs="" if same else "the baseline was measured again with other requests than at first",
    )


def _of_other_requests(all_runs: Sequence[Run], schedules: Mapping[str, Mapping[tuple[float, int], str]]) -> set[str]:
    """Runs of which a block differs in its requests from the baseline's in the same repeat."""
    baselines = {run.repeat: schedules.get(run.id, {}) for run in all_runs if run.is_baseline}
    return {
        run.id
        for run in all_runs
        for block, sha256 in schedules.get(run.id, {}).items()
        if baselines.get(run.repeat, {}).get(block, sha256) != sha256
    }


def _status(statuses: Sequence[RunStatus]) -> RunStatus:
    """Of a candidate's repeats: the liveliest one."""
    order = (RunStatus.RUNNING, RunStatus.QUEUED, RunStatus.FINISHED, RunStatus.FAILED, RunStatus.CANCELLED)
    return min(statuses, key=order.index)


def _complete(status: RunStatus, levels: Sequence[LevelSummary], spec: ExperimentSpec) -> bool:
    if status == RunStatus.FINISHED:
        return True
    if spec.repeats > 1:  # a further repeat may still move what the first one showed
        return False
    if spec.load.search:  # goes on between the rates and beyond them
        return is_over(levels, spec.load, spec.targets, spec.guardrails)
    if {level.rate_per_s for level in levels} >= set(spec.load.rates_per_s):
        return True
    return bool(levels) and levels[-1].status == LevelStatus.OVERLOADED  # nothing above it can be held


def _levels(
    repeats: Sequence[Run], spec: ExperimentSpec, levels: Mapping[str, Sequence[LevelSummary]]
) -> tuple[tuple[LevelSummary, ...], bool]:
    """The levels of one run as stored, or of several runs summarised over the blocks of all of them; and whether
    these share their arrivals."""
    measured = [run for run in repeats if levels.get(run.id)]
    if len(measured) < 2:
        return (tuple(levels[measured[0].id]) if measured else ()), False
    key = tuple((run.id, run.revision) for run in measured)
    spread = spec.workload.dispersion
    pooled, same_arrivals = _pooled(settings().url, key, spec.load.warm_up_s, spread)
    return pooled, same_arrivals or spec.workload.trace is not None  # a trace is the same in every repeat


@lru_cache(maxsize=128)
def _pooled(
    url: str, revisions: tuple[tuple[str, int], ...], warm_up_s: float, spread: float
) -> tuple[tuple[LevelSummary, ...], bool]:
    """Opens the blobs of all blocks, so it is kept by the runs' revisions: moving a target must not open them again."""
    by_rate: dict[float, list[BlockResult]] = {}
    with sessions(url)() as session:
        for run_id, _ in revisions:
            for block in results.blocks(session, run_id):
                by_rate.setdefault(block.rate_per_s, []).append(block)
    schedules = [(rate, block.schedule_sha256) for rate, blocks in by_rate.items() for block in blocks]
    summaries = tuple(summarize_level(by_rate[rate], warm_up_s, spread) for rate in sorted(by_rate))
    return summaries, len(set(schedules)) < len(schedules)
