"""Runs as seen from outside: experiments, their runs with stages and places in the queue, workers, warnings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from sqlalchemy.orm import Session

from db import experiments, results, runs, workers
from db.engine import sessions
from db.models import Experiment, Run, Stage, Worker
from kitedash.domain.results import RunStatus
from kitedash.domain.retry_rule import invalid_levels, retry_refusal
from kitedash.domain.run_time import NOTHING, Minutes
from kitedash.domain.wording import listed
from kitedash.services.log_tail import tail
from kitedash.services.run_time import TimeLeft, open_runs
from kitedash.services.run_views import (
    ExperimentItem,
    RecentExperiments,
    RunItem,
    RunsView,
    RunView,
    StageView,
    WorkerView,
    title_of,
)
from kitedash.settings import settings

RECENT_EXPERIMENTS = 50
LOG_LINES = 200
FORGET_WORKER_AFTER = timedelta(days=1)  # a slot silent for longer is not listed any more


def runs_view(experiment_id: str | None = None) -> RunsView:
    """The recent experiments, and the runs of one of them: by default of the newest. Raises NotFound."""
    now = datetime.now(UTC)
    with sessions(settings().url)() as session:
        recent = _recent(session, experiment_id)
        of_it = runs.of_experiment(session, recent.chosen) if recent.chosen else ()
        slots = workers.every(session)
        return RunsView(
            experiments=recent.items,
            experiment_id=recent.chosen,
            runs=_run_views(session, of_it, experiments.get(session, recent.chosen)) if recent.chosen else (),
            workers=tuple(_worker(slot, now) for slot in slots if now - slot.heartbeat_at < FORGET_WORKER_AFTER),
            warnings=_warnings(of_it, slots, now),
        )


def recent_experiments(experiment_id: str | None = None) -> RecentExperiments:
    """The recent experiments, and the one that is named among them: by default the newest. Raises NotFound."""
    with sessions(settings().url)() as session:
        return _recent(session, experiment_id)


def _recent(session: Session, experiment_id: str | None) -> RecentExperiments:
    heads = experiments.recent_heads(session, RECENT_EXPERIMENTS)
    chosen = experiment_id or next((head[0] for head in heads), None)
    if chosen is not None and all(head[0] != chosen for head in heads):
        older = experiments.get(session, chosen)
        heads.append((older.id, older.name, older.created_at))
    counts = experiments.run_counts(session, [head[0] for head in heads])
    return RecentExperiments(tuple(_item(*head, counts[head[0]]) for head in heads), chosen)


def run_items(experiment_id: str) -> tuple[RunItem, ...]:
    """The runs of an experiment, in the order in which they were queued, for a list of them. Raises NotFound."""
    with sessions(settings().url)() as session:
        of_it = runs.of_experiment(session, experiments.get(session, experiment_id).id)
        retried_by = runs.replacements(session, [run.id for run in of_it])
        return tuple(
            RunItem(
                run.id,
                run.candidate_name,
                run.status,
                run.repeat,
                retried_by.get(run.id),
                title_of(run.candidate_name, is_baseline=run.is_baseline, purpose=run.purpose),
            )
            for run in of_it
        )


def with_log(run: RunView) -> RunView:
    """The run with the end of its log. Raises NotFound."""
    with sessions(settings().url)() as session:
        return replace(run, log_tail=_log_tail(runs.get(session, run.id)))


def run_view(run_id: str) -> RunView:
    """One run with the end of its log. Raises NotFound."""
    with sessions(settings().url)() as session:
        run = runs.get(session, run_id)
        (view,) = _run_views(session, [run], experiments.get(session, run.experiment_id), log=True)
    return view


def find_run(beginning: str) -> str:
    """The id of the one run whose id begins so. Raises NotFound."""
    with sessions(settings().url)() as session:
        return runs.find(session, beginning).id


def find_experiment(beginning: str) -> str:
    """The id of the one experiment whose id begins so. Raises NotFound."""
    with sessions(settings().url)() as session:
        return experiments.find(session, beginning).id


def newest_experiment() -> str | None:
    """The id of what was launched last; None while nothing is stored."""
    with sessions(settings().url)() as session:
        return next((head[0] for head in experiments.recent_heads(session, 1)), None)


def served_queues() -> frozenset[str]:
    """The queues that a live worker serves."""
    with sessions(settings().url)() as session:
        return frozenset(worker.queue for worker in workers.alive(session))


def _item(experiment_id: str, name: str, created_at: datetime, counts: Mapping[RunStatus, int]) -> ExperimentItem:
    return ExperimentItem(
        id=experiment_id,
        name=name,
        created_at=created_at,
        runs=sum(counts.values()),
        finished=counts.get(RunStatus.FINISHED, 0),
        failed=counts.get(RunStatus.FAILED, 0),
        active=counts.get(RunStatus.QUEUED, 0) + counts.get(RunStatus.RUNNING, 0),
    )


def _run_views(
    session: Session, of_it: Sequence[Run], experiment: Experiment, *, log: bool = False
) -> tuple[RunView, ...]:
    run_ids = [run.id for run in of_it]
    stages, invalid = runs.stages(session, run_ids), results.invalid_levels(session, run_ids)
    retried_by = runs.replacements(session, run_ids)
    refusals = {run.id: retry_refusal(run.status, invalid.get(run.id, ()), retried_by.get(run.id)) for run in of_it}
    places = runs.queue_positions(session) if any(run.status == RunStatus.QUEUED for run in of_it) else {}
    is_open = any(not RunStatus(run.status).is_final for run in of_it)
    left = open_runs(session, datetime.now(UTC)).left if is_open else {}
    return tuple(
        RunView(
            id=run.id,
            experiment_id=run.experiment_id,
            experiment_name=experiment.name,
            candidate_name=run.candidate_name,
            is_baseline=run.is_baseline,
            status=run.status,
            error=run.error,
            attempts=run.attempts,
            worker=run.worker,
            queue=run.queue,
            queue_position=places.get(run.id),
            created_at=run.created_at,
            started_at=run.started_at,
            finished_at=run.finished_at,
            stages=tuple(_stage(stage) for stage in stages[run.id]),
            facts=runs.facts_of(run),
            log_tail=_log_tail(run) if log else "",
            cancelling=run.status == RunStatus.RUNNING and run.cancel_requested_at is not None,
            remaining=_minutes(left.get(run.id)),
            remaining_at_least=_at_least(left.get(run.id)),
            retry_of=run.retry_of,
            retried_by=retried_by.get(run.id),
            can_retry=not refusals[run.id],
            retry_refusal=refusals[run.id],
            invalid_levels=invalid_levels(invalid.get(run.id, ())),
            repeat=run.repeat,
            purpose=run.purpose,
        )
        for run in of_it
    )


def _log_tail(run: Run) -> str:
    return tail(settings().data_dir, run.log_path, LOG_LINES)


def _minutes(left: TimeLeft | None) -> Minutes | None:
    return left.span.minutes if left and left.span else None


def _at_least(left: TimeLeft | None) -> float | None:
    """What is known where the whole is not."""
    return left.known.low / 60 if left and left.span is None and left.known != NOTHING else None


def _stage(stage: Stage) -> StageView:
    return StageView(
        name=stage.name,
        status=stage.status,
        done=stage.done,
        total=stage.total,
        note=stage.note,
        executions=stage.executions,
        started_at=stage.started_at,
        finished_at=stage.finished_at,
    )


def _is_alive(worker: Worker, now: datetime) -> bool:
    return now - worker.heartbeat_at <= timedelta(seconds=workers.MAX_HEARTBEAT_AGE_S)


def _worker(worker: Worker, now: datetime) -> WorkerView:
    return WorkerView(
        slot=worker.slot,
        host=worker.host,
        pid=worker.pid,
        queue=worker.queue,
        device_name=worker.device_name,
        alive=_is_alive(worker, now),
        heartbeat_at=worker.heartbeat_at,
    )


def _warnings(of_it: Sequence[Run], slots: Sequence[Worker], now: datetime) -> tuple[str, ...]:
    alive = {worker.slot: worker for worker in slots if _is_alive(worker, now)}
    served = sorted({worker.queue for worker in alive.values()})
    found = []
    for queue in dict.fromkeys(run.queue for run in of_it if run.status == RunStatus.QUEUED):
        if queue not in served:
            waiting = sum(run.status == RunStatus.QUEUED and run.queue == queue for run in of_it)
            found.append(
                f"{waiting} run{' waits' if waiting == 1 else 's wait'} in queue {queue}, which no live worker serves "
                f"({'those alive serve ' + listed(served) if served else 'none is alive'}): start one with: "
                f"kitedash worker{_slots_of(queue)}."
            )
    for run in of_it:
        if run.status == RunStatus.RUNNING and run.worker not in alive:
            found.append(
                f"{run.candidate_name} was running on {run.worker}, which has been silent for over "
                f"{workers.MAX_HEARTBEAT_AGE_S:.0f} s: start that worker again to go on, or cancel the run."
            )
    return tuple(found)


def _slots_of(queue: str) -> str:
    """What to add to the command so that a slot serves this queue, such as " --slots 0,1"."""
    gpus = queue.removeprefix("gpu-")
    return f" --slots {','.join(map(str, range(int(gpus))))}" if gpus.isdecimal() and int(gpus) > 1 else ""
