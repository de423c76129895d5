"""Retrying: a run that came to nothing is queued again as a new one, which takes its place everywhere."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

from db import results, runs
from db.engine import hold_write_lock, sessions
from kitedash.domain.errors import Refused
from kitedash.domain.retry_rule import retry_refusal
from kitedash.running.queue import enqueue_in, queue_name
from kitedash.services.actor import Actor, require
from kitedash.services.launch import LAUNCH_LOCK
from kitedash.services.launch_check import DeviceKind, refusals, served_queues
from kitedash.settings import settings


def retry_run(run_id: str, actor: Actor) -> str:
    """Queues the run's candidate and repeat again, at the end of its queue, and returns the new run's id.

    The old run stays as it is, and counts no more. Raises NotAllowed, NotFound, and Refused for a run that has a
    result or isn't over, that was retried before, or that the device can't do.
    """
    require(actor, "engineer", "retry runs")
    url, now = settings().url, datetime.now(UTC)
    with sessions(url).begin() as session:
        hold_write_lock(session, LAUNCH_LOCK)
        old = runs.get(session, run_id)
        invalid = results.invalid_levels(session, [run_id]).get(run_id, ())
        reason = retry_refusal(old.status, invalid, runs.replacement(session, run_id))
        if reason:
            raise Refused(reason)
        candidate = runs.candidate_of(old)
        kind: DeviceKind = "cpu" if old.queue == queue_name("cpu", 1) else "gpu"
        if refused := refusals([candidate], kind, served_queues(session)):
            raise Refused(refused[candidate.name])
        new_id = str(uuid4())
        launched_before = runs.count(session)
        runs.add(
            session,
            new_id,
            experiment_id=old.experiment_id,
            position=runs.of_experiment(session, old.experiment_id)[-1].position + 1,
            repeat=old.repeat,
            candidate=candidate,
            is_baseline=old.is_baseline,
            queue=old.queue,
            now=now,
            retry_of=old.id,
            purpose=old.purpose,
        )
        enqueue_in(session.connection(), new_id, old.queue, url, priority=launched_before + 1)
    return new_id
