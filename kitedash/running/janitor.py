"""Sees to runs that nobody looks after: those that ended while no worker lived, and those of workers that are gone."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from datetime import UTC, datetime

from dbos import DBOS
from sqlalchemy.orm import Session, sessionmaker

from db import runs, workers
from kitedash.domain.errors import NotFound
from kitedash.running.queue import WORKFLOW
from kitedash.running.slots import Slot

GONE_AFTER_S = 60.0  # without a heartbeat; long against a database that is away for a moment
LIMIT = 500


def settle_ended(slot: Slot, sessions: sessionmaker[Session], active: Collection[str]) -> None:
    """Gives runs whose workflow is over their final state: one cancelled while its worker was dead, say.

    Left alone are `active` ones, which this worker is about to settle itself, and those of other living workers.
    """
    with sessions() as session:
        others = {worker.slot for worker in workers.alive(session, datetime.now(UTC), GONE_AFTER_S)} - {slot.name}
        open_runs = [run.id for run in runs.unfinished(session) if run.worker not in others and run.id not in active]
    if not open_runs:
        return
    ended = DBOS.list_workflows(
        name=WORKFLOW, status=["CANCELLED", "ERROR"], workflow_ids=open_runs, limit=len(open_runs), load_input=False
    )
    for workflow in ended:
        with contextlib.suppress(NotFound), sessions.begin() as session:
            if workflow.status == "CANCELLED":
                runs.cancel(session, workflow.workflow_id, datetime.now(UTC))
            else:
                reason = f"the run's workflow ended with an error: {workflow.error}"
                runs.fail(session, workflow.workflow_id, reason, datetime.now(UTC))


def adopt_orphans(slot: Slot, device_name: str, sessions: sessionmaker[Session]) -> list[str]:
    """Queues again the runs of workers that have been silent for a minute or left; returns their ids.

    Only runs of this slot's own queue, and of those already begun only the ones that were measured on such a device:
    half a run on each of two kinds of hardware would be a result of neither. A worker that was only asleep is fenced
    off: DBOS takes the run from it at its next step.
    """
    pending = DBOS.list_workflows(name=WORKFLOW, status="PENDING", queue_name=slot.queue, limit=LIMIT, load_input=False)
    with sessions() as session:
        living = {worker.slot for worker in workers.alive(session, datetime.now(UTC), GONE_AFTER_S)}
        orphans = [
            workflow.workflow_id
            for workflow in pending
            if workflow.executor_id not in {slot.name, *living} and _fits(session, workflow.workflow_id, device_name)
        ]
    for run_id in orphans:
        DBOS.resume_workflow(run_id, queue_name=slot.queue)
    return orphans


def _fits(session: Session, run_id: str, device_name: str) -> bool:
    try:
        facts = runs.facts_of(runs.get(session, run_id))
    except NotFound:
        return False
    return facts is None or facts.device_name == device_name
