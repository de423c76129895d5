"""Decisions as stored: drafts, which change, and records, which never do. Functions take a session and commit nothing.

There is no function that changes a record, and the database's own triggers refuse it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db import encoding
from db.models import DecisionDraft, DecisionRecord, Experiment, Run
from kitedash.domain.errors import NotFound


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
    draft = session.get(DecisionDraft, draft_id, populate_existing=True)
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


def last_record(session: Session) -> DecisionRecord | None:
    return session.scalars(sa.select(DecisionRecord).order_by(DecisionRecord.number.desc()).limit(1)).first()


def find_record(session: Session, number: int) -> DecisionRecord | None:
    return session.get(DecisionRecord, number, populate_existing=True)


def record_of_hash(session: Session, sha256: str) -> DecisionRecord | None:
    return session.scalars(sa.select(DecisionRecord).where(DecisionRecord.sha256 == sha256)).first()


def superseding(session: Session, number: int) -> int | None:
    """The record that supersedes this one."""
    return session.scalar(sa.select(DecisionRecord.number).where(DecisionRecord.supersedes == number))


def list_records(session: Session) -> Sequence[DecisionRecord]:
    """Every record by its number."""
    query = sa.select(DecisionRecord).order_by(DecisionRecord.number)
    return session.scalars(query, execution_options={"populate_existing": True}).all()


def experiment_names(session: Session) -> dict[str, str]:
    """Experiment -> its name, of those that a record is about."""
    about = sa.select(DecisionRecord.experiment_id).distinct()
    query = sa.select(Experiment.id, Experiment.name).where(Experiment.id.in_(about))
    return dict(session.execute(query).all())


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
