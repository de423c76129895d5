"""Decisions as stored: drafts, which change, and records, which never do. Functions take a session and commit nothing.

There is no function that changes a record, and the database's own triggers refuse it. Since they can be taken away, a
record is read column by column: what somebody wrote into one of them must not hide the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from types import NoneType
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db import encoding
from db.damage import DamagedError, damage_told
from db.models import DecisionDraft, DecisionRecord, Experiment, Run
from kitedash.domain.errors import NotFound
from kitedash.domain.record_check import StoredRecord

LARGEST_NUMBER: Final = 2**31 - 1  # that the column holds on every database
# The types of a record's columns, and what stands in for a value of another type.
_TYPES: Final[dict[str, tuple[tuple[type, ...], Any]]] = {
    "number": ((int,), 0),
    "experiment_id": ((str,), ""),
    "candidate_name": ((str,), ""),
    "title": ((str,), ""),
    "supersedes": ((int, NoneType), None),
    "accepted_at": ((datetime,), datetime.min.replace(tzinfo=UTC)),
    "accepted_by": ((str,), ""),
    "document": ((str,), ""),
    "sha256": ((str,), ""),
    "previous_sha256": ((str,), ""),
}


def add_draft(
    session: Session,
    draft_id: str,
    *,
    experiment_id: str,
    candidate_name: str,
    content: dict[str, Any],
    by: str,
    now: datetime,
) -> DecisionDraft:
    draft = DecisionDraft(
        id=draft_id,
        experiment_id=experiment_id,
        candidate_name=candidate_name,
        content=encoding.plain(content),
        created_at=now,
        created_by=by,
        updated_at=now,
        updated_by=by,
        revision=1,
    )
    session.add(draft)
    session.flush()
    return draft


def get_draft(session: Session, draft_id: str) -> DecisionDraft:
    """Raises NotFound."""
    known = encoding.may_be_id(draft_id)
    draft = session.get(DecisionDraft, draft_id, populate_existing=True) if known else None
    if draft is None:
        raise NotFound(f"No draft has the id {draft_id!r}.")
    return draft


def change_draft(
    session: Session,
    draft_id: str,
    revision: int,
    *,
    candidate_name: str,
    content: dict[str, Any],
    by: str,
    now: datetime,
) -> bool:
    """Stores what was typed if the draft still is at `revision` and open; False where it is not."""
    values = {
        "candidate_name": candidate_name,
        "content": encoding.plain(content),
        "updated_at": now,
        "updated_by": by,
        "revision": revision + 1,
    }
    return _update_open(session, draft_id, revision, values)


def mark_accepted(session: Session, draft_id: str, revision: int, number: int) -> bool:
    """Ties the draft to its record if it still is at `revision` and open; False where it is not."""
    return _update_open(session, draft_id, revision, {"accepted_number": number})


def discard_draft(session: Session, draft_id: str) -> bool:
    """Deletes an open draft; False where it was accepted or is gone."""
    open_draft = sa.and_(DecisionDraft.id == draft_id, DecisionDraft.accepted_number.is_(None))
    return session.connection().execute(sa.delete(DecisionDraft).where(open_draft)).rowcount == 1


def list_drafts(session: Session, experiment_id: str | None, *, open_only: bool) -> Sequence[DecisionDraft]:
    """The last changed first."""
    query = sa.select(DecisionDraft).order_by(DecisionDraft.updated_at.desc(), DecisionDraft.id)
    if experiment_id is not None:
        query = query.where(DecisionDraft.experiment_id == experiment_id)
    if open_only:
        query = query.where(DecisionDraft.accepted_number.is_(None))
    return session.scalars(query, execution_options={"populate_existing": True}).all()


def add_record(
    session: Session,
    number: int,
    *,
    experiment_id: str,
    candidate_name: str,
    title: str,
    supersedes: int | None,
    accepted_at: datetime,
    accepted_by: str,
    document: str,
    sha256: str,
    previous_sha256: str,
) -> None:
    session.add(
        DecisionRecord(
            number=number,
            experiment_id=experiment_id,
            candidate_name=candidate_name,
            title=title,
            supersedes=supersedes,
            accepted_at=accepted_at,
            accepted_by=accepted_by,
            document=document,
            sha256=sha256,
            previous_sha256=previous_sha256,
        )
    )
    session.flush()


def last_record(session: Session) -> StoredRecord | None:
    """The record with the highest number, without its document."""
    number = session.scalar(sa.select(sa.func.max(DecisionRecord.number)))
    return None if number is None else find_record(session, number, document=False)


def find_record(session: Session, number: int, *, document: bool = True) -> StoredRecord | None:
    """None where there is none, whatever the number; `document` left out is ""."""
    if not 0 < number <= LARGEST_NUMBER:
        return None
    columns = [column for column in DecisionRecord.__table__.columns if document or column.name != "document"]
    query = sa.select(*columns).where(DecisionRecord.number == number)
    try:
        with damage_told(session, f"record {number}"):
            row = session.execute(query).mappings().first()
        return None if row is None else _stored(dict(row), [column.name for column in columns])
    except DamagedError:
        readable: dict[str, Any] = {}
        for column in columns:
            with suppress(DamagedError), damage_told(session, f"record {number}"):
                readable[column.name] = session.scalar(query.with_only_columns(column))
        return _stored(readable, [column.name for column in columns])


def _stored(values: Mapping[Any, Any], read: Sequence[str]) -> StoredRecord:
    good = {name: value for name, value in values.items() if isinstance(value, _TYPES[name][0])}
    found: dict[str, Any] = {name: good.get(name, empty) for name, (_, empty) in _TYPES.items()}
    return StoredRecord(**found, damaged=tuple(name for name in read if name not in good))


def number_of_hash(session: Session, sha256: str) -> int | None:
    """`sha256` in hexadecimal: what else a file may name is no text that every database takes."""
    return session.scalar(sa.select(DecisionRecord.number).where(DecisionRecord.sha256 == sha256))


def superseding(session: Session, number: int) -> int | None:
    """The record that supersedes this one."""
    return session.scalar(sa.select(DecisionRecord.number).where(DecisionRecord.supersedes == number))


def record_numbers(session: Session) -> Sequence[int]:
    """In their order."""
    return session.scalars(sa.select(DecisionRecord.number).order_by(DecisionRecord.number)).all()


def list_records(session: Session) -> list[StoredRecord]:
    """Every record by its number, without the documents."""
    columns = [column for column in DecisionRecord.__table__.columns if column.name != "document"]
    try:
        with damage_told(session, "the records"):
            rows = session.execute(sa.select(*columns).order_by(DecisionRecord.number)).mappings().all()
        return [_stored(dict(row), [column.name for column in columns]) for row in rows]
    except DamagedError:
        found = (find_record(session, number, document=False) for number in record_numbers(session))
        return [record for record in found if record is not None]


def experiment_names(session: Session) -> dict[str, str]:
    """Experiment -> its name, of those that a record is about."""
    about = sa.select(DecisionRecord.experiment_id).distinct()
    query = sa.select(Experiment.id, Experiment.name).where(Experiment.id.in_(about))
    return {key: name for key, name in session.execute(query) if isinstance(name, str)}


def run_revisions(session: Session, experiment_id: str) -> list[tuple[str, int]]:
    """(run, revision) of an experiment: equal lists mean that nothing was stored in between."""
    query = sa.select(Run.id, Run.revision).where(Run.experiment_id == experiment_id).order_by(Run.id)
    return [(run_id, revision) for run_id, revision in session.execute(query)]


def _update_open(session: Session, draft_id: str, revision: int, values: dict[str, Any]) -> bool:
    still = sa.and_(
        DecisionDraft.id == draft_id, DecisionDraft.revision == revision, DecisionDraft.accepted_number.is_(None)
    )
    session.flush()
    return session.connection().execute(sa.update(DecisionDraft).where(still).values(values)).rowcount == 1
