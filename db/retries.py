"""Runs that another one replaces: a retry names the run it stands for, and of a chain only the newest counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import sqlalchemy as sa
from sqlalchemy.orm import Session, aliased

from db.models import Run


def retried() -> sa.ColumnElement[bool]:
    """True of a run that another replaces, in a query over runs."""
    retry = aliased(Run)
    return sa.exists().where(retry.retry_of == Run.id)


def replacement(session: Session, run_id: str) -> str | None:
    """The run that replaces this one; None where none does."""
    return session.scalar(sa.select(Run.id).where(Run.retry_of == run_id))


def replacements(session: Session, run_ids: Sequence[str]) -> dict[str, str]:
    """Run -> the run that replaces it, of those that were retried."""
    query = sa.select(Run.retry_of, Run.id).where(Run.retry_of.in_(run_ids))
    return {old: new for old, new in session.execute(query) if old is not None}


def newest(runs: Iterable[Run]) -> list[Run]:
    """Of an experiment's runs the newest of each chain, in its first one's place."""
    places: dict[str, int] = {}  # of the newest run of each chain so far
    by_id: dict[str, Run] = {}
    for place, run in enumerate(runs):
        by_id[run.id] = run
        places[run.id] = places.pop(run.retry_of or "", place)
    return [by_id[run_id] for run_id in sorted(places, key=lambda run_id: places[run_id])]
