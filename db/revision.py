"""The one way in which a run's row is changed: conditional on its state, and its revision grows with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import Run
from kitedash.domain.errors import KiteDashError, NotFound
from kitedash.domain.results import RunStatus

OPEN = (RunStatus.QUEUED, RunStatus.RUNNING)


class RunEndedError(KiteDashError):
    """The run has a final state, which nothing changes, and stores no further results."""


def change(
    session: Session, run_id: str, values: Mapping[str, Any], only_from: Sequence[RunStatus] = tuple(RunStatus)
) -> bool:
    """One UPDATE that names the states it starts from, so that two processes can't both change a state.

    False where the run is in another state, or unknown.
    """
    session.flush()
    statement = sa.update(Run).where(Run.id == run_id, Run.status.in_(only_from))
    changed = session.connection().execute(statement.values(**values, revision=Run.revision + 1)).rowcount
    if (loaded := session.identity_map.get(session.identity_key(Run, run_id))) is not None:
        session.expire(loaded)
    return bool(changed == 1)


def change_open(session: Session, run_id: str, values: Mapping[str, Any]) -> None:
    """Changes the row of a run that is queued or running. Raises RunEndedError and NotFound.

    The row stays locked to the end of the transaction, so the run can't end before what is stored with it is there.
    """
    if not change(session, run_id, values, OPEN):
        require_open(session, run_id)


def require_open(session: Session, run_id: str) -> None:
    """Raises RunEndedError where the run is over, and NotFound; changes and locks nothing."""
    status = session.scalar(sa.select(Run.status).where(Run.id == run_id))
    if status is None:
        raise NotFound(f"No run has the id {run_id!r}.")
    if status not in OPEN:
        raise RunEndedError(f"Run {run_id} is already {status}.")


def bump(session: Session, run_id: str) -> None:
    """Something of the run is stored: only while it goes on, since decisions rest on what ended runs stored.

    Raises RunEndedError and NotFound.
    """
    change_open(session, run_id, {})
