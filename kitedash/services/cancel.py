"""Cancelling: what waits ends at once, what runs is told to stop, what is over stays as it is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy.orm import Session

from db import experiments, runs, workers
from db.engine import sessions
from kitedash.domain.results import RunStatus
from kitedash.running import queue
from kitedash.services.actor import Actor, require
from kitedash.settings import settings


@dataclass(frozen=True)
class Cancelled:
    """Run ids by what became of them: over now, told to stop (over within seconds), or over before."""

    ended: tuple[str, ...] = ()
    stopping: tuple[str, ...] = ()
    already_over: tuple[str, ...] = ()


def cancel_run(run_id: str, actor: Actor) -> Cancelled:
    """Cancels one run. Raises NotAllowed and NotFound."""
    require(actor, "engineer", "cancel runs")
    with sessions(settings().url)() as session:
        found = runs.get(session, run_id).id
    return _cancel([found])


def cancel_experiment(experiment_id: str, actor: Actor) -> Cancelled:
    """Cancels all runs of an experiment, the waiting ones first. Raises NotAllowed and NotFound."""
    require(actor, "engineer", "cancel runs")
    with sessions(settings().url)() as session:
        experiments.get(session, experiment_id)
        of_it = runs.newest_of_experiment(session, experiment_id)
    # Last in the queue first: else stopping the running one would let the next begin.
    return _cancel([run.id for run in reversed(of_it)])


def _cancel(run_ids: list[str]) -> Cancelled:
    """Each run's row is settled in its own transaction before the queue hears of it.

    A worker that takes a run in between finds it cancelled when it begins; one killed in between leaves a row that
    says so, and cancelling again goes on from there.
    """
    url = settings().url
    outcome: dict[str, list[str]] = {"ended": [], "stopping": [], "already_over": []}
    for run_id in run_ids:
        with sessions(url).begin() as session:
            became = _settle(session, run_id, datetime.now(UTC))
        outcome[became].append(run_id)
        if became != "already_over":
            queue.cancel(url, run_id)
    return Cancelled(**{name: tuple(ids) for name, ids in outcome.items()})


def _settle(session: Session, run_id: str, now: datetime) -> str:
    if runs.cancel_queued(session, run_id, now):
        return "ended"
    run = runs.get(session, run_id)
    if RunStatus(run.status).is_final:
        return "already_over"
    if run.worker not in {worker.slot for worker in workers.alive(session, now)}:
        # Nobody is left to stop it, and the queue never hands out a cancelled run again.
        return "ended" if runs.cancel(session, run_id, now) else "already_over"
    return "stopping" if runs.request_cancel(session, run_id, now) else "already_over"
