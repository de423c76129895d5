"""The one way in which a run's row is changed: conditional on its state, and its revision grows with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import Run
from kitedash.domain.errors import NotFound
from kitedash.domain.results import RunStatus


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


def bump(session: Session, run_id: str) -> None:
    """Something of the run was stored. Raises NotFound."""
    if not change(session, run_id, {}):
        raise NotFound(f"No run has the id {run_id!r}.")
