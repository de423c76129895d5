"""Runs as stored: their life from queued to a final state. Every write but the progress of a stage makes `revision`
grow: caches key on it.

Functions take a session and commit nothing. `now` is timezone-aware UTC; left out, it is the clock's.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db import encoding
from db.models import Run, Stage, UtcDateTime
from db.retries import newest as newest
from db.retries import replacement as replacement
from db.retries import replacements as replacements
from db.revision import OPEN, change, change_open
from db.revision import RunEndedError as RunEndedError
from db.stages import finished_stages as finished_stages
from db.stages import stage_advance as stage_advance
from db.stages import stage_begin as stage_begin
from db.stages import stage_fail as stage_fail
from db.stages import stage_finish as stage_finish
from db.stages import stages as stages
from kitedash.domain.errors import NotFound
from kitedash.domain.experiment import Candidate
from kitedash.domain.results import RunStatus, ServerFacts, StageStatus
from kitedash.domain.run_plan import MEASURED

HANDED_OUT = (Run.created_at, Run.experiment_id, Run.position)  # the order of a queue


def add(
    session: Session,
    run_id: str,
    *,
    experiment_id: str,
    position: int,
    repeat: int,
    candidate: Candidate,
    is_baseline: bool,
    queue: str,
    now: datetime,
    retry_of: str | None = None,
    purpose: str = MEASURED,
) -> Run:
    run = Run(
        id=run_id,
        experiment_id=experiment_id,
        position=position,
        repeat=repeat,
        candidate_name=candidate.name,
        candidate=candidate.model_dump(mode="json"),
        is_baseline=is_baseline,
        queue=queue,
        status=RunStatus.QUEUED,
        created_at=now,
        retry_of=retry_of,
        purpose=purpose,
    )
    session.add(run)
    session.flush()
    return run


def get(session: Session, run_id: str) -> Run:
    """Raises NotFound."""
    run = session.get(Run, run_id, populate_existing=True) if encoding.may_be_id(run_id) else None
    if run is None:
        raise NotFound(f"No run has the id {run_id!r}.")
    return run


def find(session: Session, beginning: str) -> Run:
    """The one run whose id begins so. Raises NotFound for none and for several."""
    query = sa.select(Run).where(Run.id.startswith(beginning, autoescape=True)).limit(2)
    found = session.scalars(query).all() if encoding.may_be_id(beginning) else []
    if len(found) != 1:
        raise NotFound(f"{'Several runs have' if found else 'No run has'} the id {beginning!r}.")
    return found[0]


def candidate_of(run: Run) -> Candidate:
    return Candidate.model_validate(run.candidate)


def facts_of(run: Run) -> ServerFacts | None:
    """What the engine said of itself; None where it was never ready."""
    return encoding.server_facts(run.server_facts)


def of_experiment(session: Session, experiment_id: str) -> Sequence[Run]:
    """In the order in which they were queued, those that were retried too."""
    query = sa.select(Run).where(Run.experiment_id == experiment_id).order_by(Run.position)
    return session.scalars(query, execution_options={"populate_existing": True}).all()


def revision_of_experiment(session: Session, experiment_id: str) -> str:
    """Changes with every result of the experiment's runs, and with every run that is added."""
    query = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(Run.revision), 0))
    count, revisions = session.execute(query.where(Run.experiment_id == experiment_id)).one()
    return f"{count}.{revisions}"


def newest_of_experiment(session: Session, experiment_id: str) -> Sequence[Run]:
    """Those that count: of a run and its retries only the last, in the place of the first."""
    return newest(of_experiment(session, experiment_id))


def unfinished(session: Session) -> Sequence[Run]:
    """Runs that are queued or running."""
    query = sa.select(Run).where(Run.status.in_(OPEN))
    return session.scalars(query, execution_options={"populate_existing": True}).all()


def count(session: Session) -> int:
    """How many runs were ever launched."""
    return session.scalar(sa.select(sa.func.count()).select_from(Run)) or 0


def waiting(session: Session, queue: str) -> Sequence[Run]:
    """The queued runs of a queue, in the order in which they are handed out."""
    query = sa.select(Run).where(Run.queue == queue, Run.status == RunStatus.QUEUED)
    return session.scalars(query.order_by(*HANDED_OUT), execution_options={"populate_existing": True}).all()


def queue_positions(session: Session) -> dict[str, int]:
    """Queued run -> its place in its queue, 1 for the next one."""
    queues = session.scalars(sa.select(Run.queue).where(Run.status == RunStatus.QUEUED).distinct()).all()
    return {run_id: place for queue in queues for place, run_id in enumerate(_order_in(session, queue), start=1)}


def _order_in(session: Session, queue: str) -> list[str]:
    query = sa.select(Run.id).where(Run.queue == queue, Run.status == RunStatus.QUEUED)
    return list(session.scalars(query.order_by(*HANDED_OUT)))


def begin(session: Session, run_id: str, worker: str, now: datetime | None = None) -> Run:
    """A worker takes the run, for the first time or again after a crash; `attempts` counts how often.

    Raises RunEndedError where the run is over (cancelled while it was handed out), and NotFound.
    """
    values = {
        "status": RunStatus.RUNNING,
        "attempts": Run.attempts + 1,
        "worker": worker[:200],
        "started_at": sa.func.coalesce(Run.started_at, sa.literal(_at(now), UtcDateTime())),
        "error": "",
    }
    change_open(session, run_id, values)
    return get(session, run_id)


def finish(session: Session, run_id: str, now: datetime | None = None) -> bool:
    """False where the run was over already: a final state stays as it is. The same goes for `fail` and `cancel`."""
    return _change_open(session, run_id, {"status": RunStatus.FINISHED, "finished_at": _at(now)})


def fail(session: Session, run_id: str, sentence: str, now: datetime | None = None) -> bool:
    """Ends the run with the reason. What fails after it was asked to stop counts as cancelled."""
    if get(session, run_id).cancel_requested_at is not None:
        return cancel(session, run_id, now)
    values = {"status": RunStatus.FAILED, "finished_at": _at(now), "error": encoding.text(sentence)}
    if not _change_open(session, run_id, values):
        return False
    _end_stages(session, run_id, sentence, _at(now))
    return True


def cancel(session: Session, run_id: str, now: datetime | None = None) -> bool:
    """Ends the run as cancelled: a queued one, or a running one whose processes are gone."""
    if not _change_open(session, run_id, {"status": RunStatus.CANCELLED, "finished_at": _at(now)}):
        return False
    _end_stages(session, run_id, "cancelled", _at(now))
    return True


def cancel_queued(session: Session, run_id: str, now: datetime | None = None) -> bool:
    """Ends the run as cancelled if no worker has taken it; False otherwise."""
    values = {"status": RunStatus.CANCELLED, "finished_at": _at(now)}
    return change(session, run_id, values, (RunStatus.QUEUED,))


def request_cancel(session: Session, run_id: str, now: datetime | None = None) -> bool:
    """Marks a running run as being told to stop; False where it does not run."""
    return change(session, run_id, {"cancel_requested_at": _at(now)}, (RunStatus.RUNNING,))


def set_facts(session: Session, run_id: str, facts: ServerFacts) -> None:
    """Raises RunEndedError and NotFound."""
    change_open(session, run_id, {"server_facts": encoding.plain(facts)})


def set_log_path(session: Session, run_id: str, log_path: str) -> None:
    """`log_path` is relative to the data folder."""
    change(session, run_id, {"log_path": log_path})


def _change_open(session: Session, run_id: str, values: dict[str, Any]) -> bool:
    return change(session, run_id, values, OPEN)


def _end_stages(session: Session, run_id: str, note: str, now: datetime) -> None:
    """A stage that was under way when its run ended is not running any more."""
    open_stages = sa.and_(Stage.run_id == run_id, Stage.status == StageStatus.RUNNING)
    values = {"status": StageStatus.FAILED, "note": encoding.text(note), "finished_at": now}
    session.execute(sa.update(Stage).where(open_stages).values(values))


def _at(now: datetime | None) -> datetime:
    return now or datetime.now(UTC)
