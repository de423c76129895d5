"""Accepted decisions: listed, shown and exported. `record_verification` checks them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from db import decisions
from db.engine import sessions
from kitedash.domain import madr, record_check
from kitedash.domain.errors import InvalidInput, KiteDashError, NotFound
from kitedash.domain.record_check import StoredRecord
from kitedash.services.record_verification import Finding as Finding
from kitedash.services.record_verification import verify_export as verify_export
from kitedash.services.record_verification import verify_stored as verify_stored
from kitedash.settings import settings


@dataclass(frozen=True)
class RecordItem:
    """A row of the list of records. The hash covers the document, which names the hash of the record before it.

    What somebody wrote past KiteDash and can't be read any more says so; such a time is None.
    """

    number: int
    title: str
    candidate_name: str
    experiment_id: str
    experiment_name: str
    accepted_at: datetime | None
    accepted_by: str
    sha256: str
    supersedes: int | None
    superseded_by: int | None

    @property
    def status(self) -> str:
        return "accepted" if self.superseded_by is None else f"superseded by record {self.superseded_by}"


@dataclass(frozen=True)
class RecordView(RecordItem):
    """`document` is the canonical JSON as parsed: numbers with a fraction are decimal text (decision_document.py)."""

    previous_sha256: str
    document: Mapping[str, Any]
    markdown: str


_UNREADABLE = "can't be read any more"


class BrokenRecordError(KiteDashError):
    """What is stored of a record can't be read as one any more."""


def records() -> tuple[RecordItem, ...]:
    """Every record, the newest first."""
    with sessions(settings().url)() as session:
        rows = decisions.list_records(session)
        names = decisions.experiment_names(session)
    successors = {row.supersedes: row.number for row in rows if row.supersedes is not None}
    return tuple(_item(row, names, successors.get(row.number)) for row in reversed(rows))


def record(number: int) -> RecordView:
    """Raises NotFound, and BrokenRecordError where the stored document was changed beyond reading."""
    with sessions(settings().url)() as session:
        row = _row(decisions.find_record(session, number), number)
        names = decisions.experiment_names(session)
        superseded_by = decisions.superseding(session, number)
    item = _item(row, names, superseded_by)
    document, markdown = _read(row, superseded_by)
    return RecordView(
        **{field.name: getattr(item, field.name) for field in fields(item)},
        previous_sha256=row.previous_sha256,
        document=document,
        markdown=markdown,
    )


def export_json(number: int) -> bytes:
    """`{"document": ..., "sha256": ...}`, canonical, one line: the document byte for byte as it was hashed.

    Raises NotFound, and BrokenRecordError where no document is there to be exported.
    """
    with sessions(settings().url)() as session:
        row = _row(decisions.find_record(session, number), number)
    for name in ("document", "sha256"):
        if name in row.damaged:
            raise _broken(row, f"{name} can't be read any more")
    return record_check.envelope(row.document, row.sha256)


def export_markdown(number: int) -> str:
    """The record in MADR 4.0 form. Raises as `record` does."""
    return record(number).markdown


def _row(found: StoredRecord | None, number: int) -> StoredRecord:
    if found is None:
        raise NotFound(f"There is no decision record {number}.")
    return found


def _broken(row: StoredRecord, reason: str) -> BrokenRecordError:
    return BrokenRecordError(
        f"Record {row.number} was changed in the database and can't be shown: {reason}; "
        "`kitedash records verify` checks all of them."
    )


def _read(row: StoredRecord, superseded_by: int | None) -> tuple[Mapping[str, Any], str]:
    if row.damaged:
        raise _broken(row, f"{row.damaged[0]} can't be read any more")
    try:
        record_check.document_of(row.document)
        document: dict[str, Any] = json.loads(row.document)
        return document, madr.render(document, row.sha256, superseded_by)
    except (InvalidInput, *madr.UNREADABLE) as error:
        said = str(error) if isinstance(error, InvalidInput) else "its document does not have the form of a record"
        raise _broken(row, said) from None


def _item(row: StoredRecord, names: Mapping[str, str], superseded_by: int | None) -> RecordItem:
    def text(name: str) -> str:
        return _UNREADABLE if name in row.damaged else str(getattr(row, name))

    return RecordItem(
        number=row.number,
        title=text("title"),
        candidate_name=text("candidate_name"),
        experiment_id=text("experiment_id"),
        experiment_name=names.get(row.experiment_id, "not stored any more"),
        accepted_at=None if "accepted_at" in row.damaged else row.accepted_at,
        accepted_by=text("accepted_by"),
        sha256=text("sha256"),
        supersedes=row.supersedes,
        superseded_by=superseded_by,
    )
