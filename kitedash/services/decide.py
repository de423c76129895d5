"""Deciding: drafts that are written together, and the step that freezes one as a numbered record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from sqlalchemy.orm import Session

from db import decisions, experiments, runs
from db.engine import hold_write_lock, sessions
from db.models import DecisionDraft
from kitedash.domain import decision, madr, record_check
from kitedash.domain.canonical_json import canonical, plain, sha256_of
from kitedash.domain.decision import DecisionContent, DraftContent
from kitedash.domain.decision_document import Document
from kitedash.domain.errors import InvalidInput, Refused
from kitedash.domain.experiment import Targets
from kitedash.domain.sentences import not_among
from kitedash.services.actor import Actor, require
from kitedash.services.decision_document import Acceptance, Gathered, document, gather
from kitedash.services.evidence import ExperimentEvidence
from kitedash.services.records import RecordView, record
from kitedash.services.views import TradeoffView
from kitedash.settings import settings

DECIDE_LOCK = 0x44454349  # "DECI": one acceptance at a time, so that numbers have no gap and the chain no fork


@dataclass(frozen=True)
class DraftView:
    """A decision that is being written. `content` holds what was typed so far; `targets` those that the viewer had."""

    id: str
    experiment_id: str
    candidate_name: str
    content: DraftContent
    targets: Targets
    supersedes: int | None
    created_at: datetime
    created_by: str
    updated_at: datetime
    updated_by: str
    revision: int
    accepted_number: int | None


def save_draft(
    actor: Actor,
    *,
    experiment_id: str,
    candidate_name: str,
    content: Mapping[str, Any],
    targets: Targets,
    supersedes: int | None = None,
    draft_id: str | None = None,
    revision: int | None = None,
) -> DraftView:
    """Stores what was typed so far, in a new draft or (`draft_id`) in place of what `revision` of it held.

    Anything may be missing yet. Raises NotAllowed, NotFound, InvalidInput (a wrong type, too long a text, a candidate
    that the experiment does not have), and Refused where somebody else saved in between or the draft was accepted.
    """
    require(actor, "engineer", "draft decisions")
    typed = {
        "content": decision.draft_content_from(content).model_dump(mode="json"),
        "targets": targets.model_dump(mode="json"),
        "supersedes": supersedes,
    }
    now = datetime.now(UTC)
    with sessions(settings().url).begin() as session:
        _require_candidate(session, experiment_id, candidate_name)
        if draft_id is None:
            draft_id = str(uuid4())
            decisions.add_draft(
                session,
                draft_id,
                experiment_id=experiment_id,
                candidate_name=candidate_name,
                content=typed,
                by=actor.name,
                now=now,
            )
        else:
            stored = decisions.get_draft(session, draft_id)
            if stored.experiment_id != experiment_id:
                raise InvalidInput("experiment_id", "a draft stays with the experiment that it was begun for")
            seen = stored.revision if revision is None else revision
            if not decisions.change_draft(
                session, draft_id, seen, candidate_name=candidate_name, content=typed, by=actor.name, now=now
            ):
                raise _refusal(decisions.get_draft(session, draft_id))
        return _view(decisions.get_draft(session, draft_id))


def drafts(experiment_id: str | None = None, open_only: bool = True) -> tuple[DraftView, ...]:
    """The last changed first: of one experiment or of all; `open_only` leaves out what was accepted."""
    with sessions(settings().url)() as session:
        return tuple(_view(row) for row in decisions.list_drafts(session, experiment_id, open_only=open_only))


def draft(draft_id: str) -> DraftView:
    """Raises NotFound."""
    with sessions(settings().url)() as session:
        return _view(decisions.get_draft(session, draft_id))


def discard_draft(actor: Actor, draft_id: str) -> None:
    """Deletes an open draft. Raises NotAllowed, NotFound, and Refused where it was accepted."""
    require(actor, "engineer", "discard drafts")
    with sessions(settings().url).begin() as session:
        if not decisions.discard_draft(session, draft_id):
            raise _refusal(decisions.get_draft(session, draft_id))


@dataclass(frozen=True)
class Reading:
    """A draft as the record that it would be now, marked as a draft; what is missing is said to be. `sha256` is that of
    the document, so of every number, price and hash in it: `accept` takes it back from who has read it."""

    document: Document
    markdown: str
    sha256: str


def as_it_would_read(draft: DraftView, evidence: ExperimentEvidence | None = None) -> Reading:
    """`evidence`: of its experiment, where that was read already. Raises NotFound."""
    with sessions(settings().url)() as session:
        gathered = gather(session, draft.experiment_id, draft.targets, evidence)
    found = _drafted(draft, gathered)
    return Reading(found, madr.render(plain(found), ""), _hash_of(found))


def _drafted(draft: DraftView, gathered: Gathered) -> Document:
    """Without what only accepting adds."""
    return document(gathered, draft.candidate_name, draft.content, supersedes=draft.supersedes)


def _hash_of(drafted: Document) -> str:
    return sha256_of(canonical(drafted))


def reasons_needed(view: TradeoffView, candidate_name: str) -> tuple[str, ...]:
    """The candidates whose rejection a person has to explain: the other members of the front, and the baseline."""
    return tuple(
        found.name
        for found in view.candidates
        if decision.explained_by_a_person(
            decision.role_of(found.name, candidate_name, on_front=found.on_front, is_baseline=found.is_baseline)
        )
    )


def accept(actor: Actor, draft_id: str, *, revision: int, read_sha256: str) -> RecordView:
    """Freezes the draft as the next record, in one transaction; it can't be changed after that, only superseded.

    `revision` is that of the draft and `read_sha256` that of the `Reading` which the person looked at: where either has
    moved on (new results, another price), what they saw is not what would be frozen. Raises NotAllowed, NotFound,
    InvalidInput (naming the field that is missing or wrong) and Refused.
    """
    require(actor, "engineer", "accept decisions")
    url = settings().url
    with sessions(url)() as session:
        seen = decisions.get_draft(session, draft_id)
        if seen.accepted_number is not None or seen.revision != revision:
            raise _refusal(seen)
        drafted = _view(seen)
        stored_before = decisions.run_revisions(session, drafted.experiment_id)
        gathered = gather(session, drafted.experiment_id, drafted.targets)
    if _hash_of(_drafted(drafted, gathered)) != read_sha256:
        raise _moved_on()
    content = _complete(drafted, gathered)

    with sessions(url).begin() as session:
        hold_write_lock(session, DECIDE_LOCK)
        if decisions.run_revisions(session, drafted.experiment_id) != stored_before:
            raise _moved_on()
        _require_supersedable(session, drafted.supersedes)
        number = _add(session, drafted, gathered, content, actor)
        if not decisions.mark_accepted(session, draft_id, revision, number):
            raise _refusal(decisions.get_draft(session, draft_id))
    return record(number)


def _complete(drafted: DraftView, gathered: Gathered) -> DecisionContent:
    view = gathered.view
    content = decision.content_from(drafted.content.model_dump(mode="json"))
    names = [found.name for found in view.candidates]
    for name in content.rejected:
        if name not in names:
            raise InvalidInput(f"rejected.{name}", not_among(name, names))
    chosen = next((found for found in view.candidates if found.name == drafted.candidate_name), None)
    if chosen is None or not chosen.is_measured:
        raise InvalidInput(
            "candidate_name", f"{drafted.candidate_name} was not measured, so no numbers can speak for it"
        )
    decision.require_reasons(content, reasons_needed(view, chosen.name))
    return content


def _add(session: Session, drafted: DraftView, gathered: Gathered, content: DecisionContent, actor: Actor) -> int:
    last = decisions.last_record(session)
    if last is not None and "sha256" in last.damaged:
        raise Refused(f"Record {last.number} was changed in the database, so no other can be chained to it: verify it.")
    accepted = Acceptance(
        number=last.number + 1 if last is not None else 1,
        at=datetime.now(UTC),
        by=actor.name,
        previous_sha256=last.sha256 if last is not None else "",
    )
    text = canonical(
        document(gathered, drafted.candidate_name, content, supersedes=drafted.supersedes, accepted=accepted)
    )
    sha256 = sha256_of(text)
    _require_verifiable(text, sha256)
    decisions.add_record(
        session,
        accepted.number,
        experiment_id=drafted.experiment_id,
        candidate_name=drafted.candidate_name,
        title=content.title,
        supersedes=drafted.supersedes,
        accepted_at=accepted.at,
        accepted_by=accepted.by,
        document=text,
        sha256=sha256,
        previous_sha256=accepted.previous_sha256,
    )
    return accepted.number


def _require_verifiable(text: str, sha256: str) -> None:
    """No record whose exports `verify` would refuse for their size."""
    size = max(len(record_check.envelope(text, sha256)), len(madr.render(json.loads(text), sha256).encode()))
    if size > record_check.MAX_BYTES:
        raise Refused(
            f"The record would have {size / 1e6:.1f} MB, and verifying reads at most {record_check.MAX_BYTES / 1e6:g} "
            "MB: write less, or decide on an experiment with fewer candidates."
        )


def _require_candidate(session: Session, experiment_id: str, name: str) -> None:
    experiments.get(session, experiment_id)
    names = list(dict.fromkeys(run.candidate_name for run in runs.of_experiment(session, experiment_id)))
    if name not in names:
        raise InvalidInput("candidate_name", not_among(name, names))


def _require_supersedable(session: Session, number: int | None) -> None:
    if number is None:
        return
    if decisions.find_record(session, number) is None:
        raise InvalidInput("supersedes", f"there is no decision record {number}")
    if (by := decisions.superseding(session, number)) is not None:
        raise InvalidInput("supersedes", f"record {number} is superseded by record {by} already: supersede that one")


def _moved_on() -> Refused:
    return Refused(
        "What the record would say changed since you read it, such as a result or a price: read it anew, then accept."
    )


def _refusal(stored: DecisionDraft) -> Refused:
    """Why a draft can't be written to any more."""
    if stored.accepted_number is not None:
        return Refused(f"The draft was accepted as record {stored.accepted_number}, which can only be superseded.")
    when = f"{stored.updated_at:%Y-%m-%d %H:%M} UTC"
    return Refused(f"{stored.updated_by} saved this draft at {when}, after you opened it: open it anew to go on.")


def _view(row: DecisionDraft) -> DraftView:
    return DraftView(
        id=row.id,
        experiment_id=row.experiment_id,
        candidate_name=row.candidate_name,
        content=DraftContent.model_validate(row.content["content"]),
        targets=Targets.model_validate(row.content["targets"]),
        supersedes=row.content["supersedes"],
        created_at=row.created_at,
        created_by=row.created_by,
        updated_at=row.updated_at,
        updated_by=row.updated_by,
        revision=row.revision,
        accepted_number=row.accepted_number,
    )
