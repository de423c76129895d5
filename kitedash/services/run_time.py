"""How long runs still take: the stored facts that `domain.run_time` estimates from, and the queues' slots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from db import experiments, history, runs, workers
from db.models import Run, Stage
from kitedash.domain.experiment import Candidate, ExperimentSpec
from kitedash.domain.results import RunStatus, StageStatus
from kitedash.domain.run_time import (
    NOTHING,
    History,
    Progress,
    RunKind,
    Span,
    StageNow,
    ends,
    known_remaining,
    number_format_of,
    remaining,
)


@dataclass(frozen=True)
class TimeLeft:
    """Of a run that is not over: until it ends. `span` is None where too little is known; `known` then holds what is
    known of it (of a running run; nothing of a waiting one)."""

    span: Span | None
    known: Span = NOTHING


def history_of(session: Session) -> History:
    return History(history.recent(session))


def kind_of(candidate: Candidate, device_name: str) -> RunKind:
    return RunKind(candidate.model, number_format_of(candidate), device_name)


@dataclass(frozen=True)
class QueueNow:
    """A queue that has live slots: when each has done what it is doing (empty where that is not known of one of them),
    and how long each waiting run takes, in order."""

    free_after: tuple[Span, ...]
    waiting: tuple[Span | None, ...]

    @property
    def wait(self) -> Span | None:
        """Until a run that is queued now would begin."""
        return ends(self.free_after, [*self.waiting, NOTHING])[-1]


@dataclass(frozen=True)
class OpenRuns:
    """`left` is by run id, of the runs on live workers and of those that wait; `queues` is by name, of live ones."""

    left: Mapping[str, TimeLeft]
    queues: Mapping[str, QueueNow]


def open_runs(session: Session, now: datetime, past: History | None = None) -> OpenRuns:
    """How long every run that is not over still takes, and what it waits for. `past`: `history_of`, where at hand."""
    unfinished, alive = runs.unfinished(session), workers.alive(session, now)
    specs = experiments.specs(session, {run.experiment_id for run in unfinished})
    stages = runs.stages(session, [run.id for run in unfinished if run.status == RunStatus.RUNNING])
    past = past or history_of(session)
    on_slot = {run.worker: run for run in unfinished if run.status == RunStatus.RUNNING}
    left: dict[str, TimeLeft] = {}
    for slot in alive:
        if run := on_slot.get(slot.slot):
            left[run.id] = _of_running(run, specs[run.experiment_id], stages[run.id], slot.device_name, past, now)
    queues: dict[str, QueueNow] = {}
    for queue in {slot.queue for slot in alive}:
        slots = [slot for slot in alive if slot.queue == queue]
        # Experiments of runs that were queued since the first query are unknown here: the next look has them.
        waiting = [run for run in runs.waiting(session, queue) if run.experiment_id in specs]
        spans = tuple(
            past.run(specs[run.experiment_id], kind_of(runs.candidate_of(run), slots[0].device_name), run.purpose)
            for run in waiting
        )
        busy = [left[run.id].span for slot in slots if (run := on_slot.get(slot.slot))]
        free = [NOTHING] * (len(slots) - len(busy))
        known = [span for span in busy if span is not None]
        queues[queue] = QueueNow((*free, *known) if len(known) == len(busy) else (), spans)
        for run, span in zip(waiting, ends(queues[queue].free_after, spans), strict=True):
            left[run.id] = TimeLeft(span)
    return OpenRuns(left, queues)


def _of_running(
    run: Run, spec: ExperimentSpec, stages: Sequence[Stage], device_name: str, past: History, now: datetime
) -> TimeLeft:
    if run.cancel_requested_at is not None:
        return TimeLeft(NOTHING)
    facts = runs.facts_of(run)
    kind = kind_of(runs.candidate_of(run), facts.device_name if facts else device_name)
    under_way = next((stage for stage in stages if stage.status == StageStatus.RUNNING), None)
    progress = Progress(
        finished=frozenset(stage.name for stage in stages if stage.status == StageStatus.FINISHED),
        now=None if under_way is None else _stage_now(under_way, now, facts.start_up_s if facts else None),
        purpose=run.purpose,
    )
    return TimeLeft(remaining(spec, kind, past, progress), known_remaining(spec, kind, past, progress))


def _stage_now(stage: Stage, now: datetime, start_up_s: float | None) -> StageNow:
    elapsed_s = max(0.0, (now - stage.started_at).total_seconds())
    return StageNow(stage.name, elapsed_s, stage.done, stage.total, start_up_s)
