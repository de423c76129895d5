"""What the records page shows: every record, the open drafts, and one record read from its own document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from db import experiments
from db.engine import sessions
from kitedash.domain.decision_document import Document
from kitedash.domain.errors import NotFound
from kitedash.services import decide, records
from kitedash.services.actor import Actor
from kitedash.services.decide import DraftView
from kitedash.services.records import BrokenRecordError, RecordItem, RecordView
from kitedash.settings import settings

_DOCUMENT = TypeAdapter(Document)
_UNREAD = "This record holds what this version of KiteDash does not know. Its exports hold all of it."


@dataclass(frozen=True)
class RecordsPage:
    """`chosen` is None while there are no records. `view` and `document` are its content; where it cannot be read,
    `broken` says why: then what is stored is not what was accepted, or a later version of KiteDash wrote it. `json` is
    empty where no document can be read at all.
    `nothing_launched`: there is no experiment either that something could be decided about."""

    records: tuple[RecordItem, ...]
    drafts: tuple[DraftView, ...]
    chosen: RecordItem | None = None
    view: RecordView | None = None
    document: Document | None = None
    json: bytes = b""
    broken: str = ""
    nothing_launched: bool = False


def page(number: str | None) -> RecordsPage:
    """The newest record if none is named. Raises NotFound; what is no number is not stored either."""
    every, drafts = records.records(), decide.drafts()
    if number is None and not every:
        with sessions(settings().url)() as session:
            return RecordsPage(every, drafts, nothing_launched=not experiments.list_recent(session, 1))
    chosen = next((record for record in every if number in (None, str(record.number))), None)
    if chosen is None:
        raise NotFound(f"There is no record {(number or '')[:40]}.")
    found = RecordsPage(every, drafts, chosen)
    try:
        found = replace(found, json=records.export_json(chosen.number))
        view = records.record(chosen.number)
    except BrokenRecordError as error:
        return replace(found, broken=str(error))
    document = read(view.document)
    return replace(found, view=view, document=document, broken="" if document is not None else _UNREAD)


def read(document: Mapping[str, Any]) -> Document | None:
    """The document with its numbers as numbers: in JSON, those with a fraction are text."""
    try:
        return _DOCUMENT.validate_python(document)
    except ValidationError:
        return None


def supersede(actor: Actor, number: int) -> DraftView:
    """A draft that starts from the record and is to take its place; the one there is, if somebody began it already.

    Raises NotAllowed, and NotFound.
    """
    record = records.record(number)
    for draft in decide.drafts(record.experiment_id):
        if draft.supersedes == number:
            return draft
    document = read(record.document)
    if document is None:
        raise NotFound(f"Record {number} cannot be read, so no draft can start from it: verify it.")
    return decide.save_draft(
        actor,
        experiment_id=record.experiment_id,
        candidate_name=record.candidate_name,
        content={
            "title": document.title,
            "why": document.why,
            "consequences": document.consequences,
            "deciders": document.deciders,
            "consulted": document.consulted,
            "look_again": document.look_again,
            "rejected": {option.name: option.reason for option in document.options if option.reason},
        },
        targets=document.targets.used,
        supersedes=number,
    )
