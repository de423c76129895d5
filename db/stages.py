"""Stages of a run as stored: what is under way, how far it is, and how often it was begun.

Functions that begin or end a stage raise RunEndedError where the run is over, and NotFound.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db import encoding
from db.models import Stage
from db.revision import bump, require_open
from db.upsert import upsert
from kitedash.domain.errors import NotFound
from kitedash.domain.results import StageStatus


def stage_begin(
    session: Session, run_id: str, name: str, position: int, total: int = 0, now: datetime | None = None
) -> None:
    """The stage is under way, for the first time or again after a crash; `executions` counts how often."""
    bump(session, run_id)
    row = {
        "run_id": run_id,
        "name": name,
        "position": position,
        "status": StageStatus.RUNNING,
        "done": 0,
        "total": total,
        "note": "",
        "executions": 1,
        "started_at": now or datetime.now(UTC),
        "finished_at": None,
    }
    upsert(session, Stage, [row], on_conflict={"executions": Stage.executions + 1})


def stage_advance(session: Session, run_id: str, name: str, done: int, total: int, note: str = "") -> None:
    """`done` of `total` units; `note` says what it does right now.

    The run's revision stays: results are kept by it, and progress is none.
    """
    require_open(session, run_id)
    _set(session, run_id, name, {"done": done, "total": total, "note": encoding.text(note)})


def stage_finish(session: Session, run_id: str, name: str, now: datetime | None = None, note: str = "") -> None:
    ended = {"status": StageStatus.FINISHED, "finished_at": now or datetime.now(UTC), "note": encoding.text(note)}
    _update(session, run_id, name, {**ended, "done": Stage.total})


def stage_fail(session: Session, run_id: str, name: str, sentence: str, now: datetime | None = None) -> None:
    ended = {"status": StageStatus.FAILED, "finished_at": now or datetime.now(UTC), "note": encoding.text(sentence)}
    _update(session, run_id, name, ended)


def finished_stages(session: Session, run_id: str) -> set[str]:
    """The names of what a resumed run need not do again."""
    query = sa.select(Stage.name).where(Stage.run_id == run_id, Stage.status == StageStatus.FINISHED)
    return set(session.scalars(query))


def stages(session: Session, run_ids: Sequence[str]) -> dict[str, list[Stage]]:
    """The stages of several runs in one query, each run's in order."""
    found: dict[str, list[Stage]] = {run_id: [] for run_id in run_ids}
    query = sa.select(Stage).where(Stage.run_id.in_(run_ids)).order_by(Stage.position, Stage.name)
    for stage in session.scalars(query, execution_options={"populate_existing": True}):
        found[stage.run_id].append(stage)
    return found


def _update(session: Session, run_id: str, name: str, values: dict[str, Any]) -> None:
    bump(session, run_id)
    _set(session, run_id, name, values)


def _set(session: Session, run_id: str, name: str, values: dict[str, Any]) -> None:
    one = sa.and_(Stage.run_id == run_id, Stage.name == name)
    if session.connection().execute(sa.update(Stage).where(one).values(values)).rowcount != 1:
        raise NotFound(f"Run {run_id} has no stage {name!r}.")
