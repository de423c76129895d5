"""Verifying what was decided: the stored records with their chain and evidence, and exported files.

What this can and can't show is said in docs/records.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy.orm import Session

from db import decisions
from db.engine import sessions
from db.models import DecisionRecord
from kitedash.domain import madr, record_check
from kitedash.domain.canonical_json import sha256_of, written
from kitedash.domain.errors import InvalidInput, NotFound
from kitedash.domain.record_check import StoredRecord
from kitedash.domain.sentences import shown
from kitedash.services.evidence_hashes import experiment_spec, run_hash
from kitedash.settings import settings


@dataclass(frozen=True)
class Finding:
    """What was checked, such as "record 3" or a file's name, and how it came out. Plain text of one line."""

    what: str
    ok: bool
    sentence: str


_AGREES = "It agrees with its own hash and with the record stored here."
_ALONE = "It agrees with its own hash; this database has no such record to compare it with."


def verify_stored(*, evidence: bool = True) -> tuple[Finding, ...]:
    """A finding for every record that holds, and one for every problem of those that don't; () without records.

    evidence: also hash again what the runs of each record stored.
    """
    with sessions(settings().url)() as session:
        records = [_stored(row) for row in decisions.list_records(session)]
        problems = {record.number: record_check.problems_of(record) for record in records}
        for number, sentence in record_check.chain_problems(records):
            problems[number].append(sentence)
        hashes = _Hashes(session)
        checked = ["document", "hash", "table and chain"]
        if evidence:
            checked.append("evidence")
            for record in records:
                if not problems[record.number]:
                    problems[record.number] += hashes.problems_of(record)
    holds = f"{', '.join(checked[:-1])} and {checked[-1]} agree"
    return tuple(
        Finding(f"record {number}", not sentence, f"{sentence or holds}.")
        for number, found in problems.items()
        for sentence in found or [""]
    )


def verify_export(name: str, data: bytes) -> Finding:
    """A file that was exported as JSON or Markdown, against itself and against this database's record.

    `name` is what the finding calls it where it does not say which record it is.
    """
    if len(data) > record_check.MAX_BYTES:
        return Finding(name, False, f"It has more than {record_check.MAX_BYTES:,} bytes, so it is no export.")
    with sessions(settings().url)() as session:
        if data.startswith(b"---") or (data.lstrip()[:1] not in (b"{", b"[") and name.lower().endswith(".md")):
            return _verify_markdown(session, name, data)
        return _verify_json(session, name, data)


def _verify_json(session: Session, name: str, data: bytes) -> Finding:
    try:
        value = record_check.parse(data)
        document, sha256 = _opened(value)
    except InvalidInput as error:
        return _broken(session, name, data, str(error))
    stored = _find(session, sha256, document.get("number"))
    what = _named(name, stored, document)
    hash_holds = sha256_of(written(document)) == sha256
    if hash_holds and written(value).encode() + b"\n" != data:
        return Finding(what, False, "Its bytes are not those of an export, though the content is the same.")
    if hash_holds and stored is None:
        return Finding(what, True, _ALONE)
    if stored is None:
        return Finding(what, False, "It was changed: its document does not have the hash that it names.")
    there = _parsed(stored)
    if there is None:
        return Finding(what, False, "The record stored here can't be read, so it was changed since it was accepted.")
    difference = record_check.first_difference({"document": document, "sha256": sha256}, there)
    if difference is None:
        if hash_holds:
            return Finding(what, True, _AGREES + _since(session, stored))
        return Finding(what, False, "Both this file and the record stored here were changed: neither has its hash.")
    path, here, original = difference
    whose = "It was changed" if not hash_holds else _who_differs(stored)
    return Finding(what, False, f"{whose}: the first difference is {path}, {here} here and {original} stored.")


def _opened(value: Any) -> tuple[dict[str, Any], str]:
    """Document and hash of an export. Raises InvalidInput."""
    if not isinstance(value, dict) or value.keys() != {"document", "sha256"}:
        raise InvalidInput("", "it is not an export, which has the two keys document and sha256")
    document, sha256 = value["document"], value["sha256"]
    if not isinstance(document, dict) or not isinstance(sha256, str):
        raise InvalidInput("", "it is not an export: document must be a group of keys, and sha256 text")
    try:
        written(value)
    except ValueError:
        raise InvalidInput("", "it holds text that no UTF-8 can write") from None
    return document, sha256


def _broken(session: Session, name: str, data: bytes, reason: str) -> Finding:
    """A file that can't be read as an export; its hash may still tell which record it was, and where it differs."""
    stored = _find(session, *record_check.named_in(data))
    there = _parsed(stored) if stored is not None else None
    if stored is None or there is None:
        return Finding(name, False, f"{reason[0].upper()}{reason[1:]}.")
    original = record_check.envelope(stored.document, stored.sha256)
    at = next(
        (i for i, (a, b) in enumerate(zip(data, original, strict=False)) if a != b), min(len(data), len(original))
    )
    path = record_check.path_at(there, at)
    sentence = f"It was changed: {reason}; the first difference from the stored record is byte {at + 1:,}, in {path}."
    return Finding(f"record {stored.number} ({name})", False, sentence)


def _verify_markdown(session: Session, name: str, data: bytes) -> Finding:
    try:
        text = data.decode()
        front = madr.front_matter_of(text)
    except UnicodeDecodeError as error:
        text, front = data.decode("utf-8", "replace"), {}
        reason = f"byte {error.start + 1:,} is not UTF-8"
    except InvalidInput as error:
        front, reason = {}, f"its front matter can't be read ({error})"
    else:
        reason = "its front matter is not that of a record"
    sha256, number = front.get("sha256"), front.get("number")
    hashes = madr.text_hashes(text)
    stored = _find(session, sha256 if isinstance(sha256, str) else madr.record_hash(text), number)
    what = _named(name, stored, front)
    intact = hashes is not None and hashes[0] == hashes[1] and isinstance(sha256, str)
    if stored is None:
        if intact:
            return Finding(what, True, _ALONE)
        said = "its text does not have the hash that it names" if hashes is not None and front else reason
        return Finding(what, False, f"It was changed: {said}.")
    rendered = _rendered(session, stored, front.get("status"))
    if rendered is None:
        return Finding(what, False, "The record stored here can't be read, so it was changed since it was accepted.")
    if rendered == text:
        return Finding(what, True, _AGREES + _since(session, stored))
    whose = "It was changed" if not intact else _who_differs(stored)
    return Finding(what, False, f"{whose}: the first difference is {madr.first_difference(text, rendered)}.")


def _rendered(session: Session, stored: DecisionRecord, status: Any) -> str | None:
    """As it would be exported now, or as it was before another record superseded it."""
    document = (_parsed(stored) or {}).get("document")
    if document is None:
        return None
    superseded_by = decisions.superseding(session, stored.number)
    try:
        return madr.render(document, stored.sha256, None if status == "accepted" else superseded_by)
    except madr.UNREADABLE:
        return None


def _find(session: Session, sha256: str | None, number: Any) -> DecisionRecord | None:
    """By its hash, else by its number: one of the two may be what was changed."""
    found = decisions.record_of_hash(session, sha256) if sha256 else None
    if found is None and isinstance(number, int) and not isinstance(number, bool) and 0 < number < 2**31:
        found = decisions.find_record(session, number)
    return found


def _named(name: str, stored: DecisionRecord | None, said: Mapping[str, Any]) -> str:
    number = stored.number if stored is not None else said.get("number")
    return f"record {number} ({name})" if isinstance(number, int) else name


def _since(session: Session, stored: DecisionRecord) -> str:
    by = decisions.superseding(session, stored.number)
    return "" if by is None else f" Record {by} supersedes it."


def _who_differs(stored: DecisionRecord) -> str:
    if record_check.problems_of(_stored(stored)):
        return "It agrees with itself, but the record stored here was changed"
    return "It agrees with itself, but is not the record stored here"


def _parsed(stored: DecisionRecord) -> dict[str, Any] | None:
    """The stored record as its export would hold it; None where its document can't be read."""
    try:
        return {"document": record_check.document_of(stored.document), "sha256": stored.sha256}
    except InvalidInput:
        return None


def _stored(row: DecisionRecord) -> StoredRecord:
    return StoredRecord(**{field.name: getattr(row, field.name) for field in fields(StoredRecord)})


class _Hashes:
    """Evidence hashed anew, each run once however many records name it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[str, str | None] = {}

    def problems_of(self, record: StoredRecord) -> Sequence[str]:
        document = record_check.document_of(record.document)
        try:
            experiment = document["experiment"]
            runs = [(option["name"], run) for option in document["options"] for run in option["evidence"]]
            named = [(name, run["run_id"], run["sha256"]) for name, run in runs]
            spec_sha256 = experiment["spec_sha256"]
        except madr.UNREADABLE:
            return ["its document does not have the form of a record"]
        found = []
        if experiment_spec(self._session, record.experiment_id)[1] != spec_sha256:
            found.append("the experiment's stored specification is not the one that was decided on")
        for name, run_id, sha256 in named:
            now = self._hash(run_id)
            if now is None:
                found.append(f"run {shown(run_id)} of {shown(name)} is not stored any more")
            elif now != sha256:
                found.append(f"what run {run_id} of {name} stored is not what was decided on: its evidence was changed")
        return found

    def _hash(self, run_id: str) -> str | None:
        if run_id not in self._known:
            try:
                self._known[run_id] = run_hash(self._session, run_id)
            except NotFound:
                self._known[run_id] = None
        return self._known[run_id]
