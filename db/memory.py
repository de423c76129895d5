"""The steps of the memory stage, as stored: an upsert by run, prompt length and concurrency.

Functions take a session and commit nothing. Storing raises RunEndedError where the run is over, and NotFound.
"""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db import encoding
from db.models import MemoryStep as StepRow
from db.revision import bump
from db.upsert import upsert
from kitedash.domain.memory import Room
from kitedash.domain.memory_ladder import MemoryOutcome, MemoryStep

COLUMNS = ("prompt_tokens", "concurrency", "outcome", "reason")


def store_step(session: Session, run_id: str, step: MemoryStep, now: datetime | None = None) -> None:
    bump(session, run_id)
    found = encoding.plain(step)
    row = {name: found.pop(name) for name in COLUMNS}
    upsert(session, StepRow, [{**row, "run_id": run_id, "facts": found, "stored_at": now or datetime.now(UTC)}])


def steps(session: Session, run_id: str) -> list[MemoryStep]:
    """The steps of a run, by prompt length and concurrency."""
    query = sa.select(StepRow).where(StepRow.run_id == run_id).order_by(StepRow.prompt_tokens, StepRow.concurrency)
    return [_step_of(row) for row in session.scalars(query, execution_options={"populate_existing": True})]


def _step_of(row: StepRow) -> MemoryStep:
    """What a later version stored beside is left out."""
    columns: dict[str, Any] = {name: getattr(row, name) for name in COLUMNS}
    columns["outcome"] = MemoryOutcome(row.outcome)
    own = {field.name for field in fields(MemoryStep)} - {*COLUMNS, "room"}
    rooms = {field.name for field in fields(Room)}
    room = Room(**{name: value for name, value in row.facts["room"].items() if name in rooms})
    return MemoryStep(**columns, room=room, **{name: value for name, value in row.facts.items() if name in own})
