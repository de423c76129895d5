"""Verifying what was decided: the stored records with their chain and evidence, and exported files.

What this can and can't show is said in docs/records.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy.orm import Session

from db import decisions
from db.damage import DamagedError
from db.engine import sessions
from kitedash.domain import madr, record_check, wording
from kitedash.domain.canonical_json import sha256_of, written
from kitedash.domain.errors import InvalidInput, NotFound
from kitedash.domain.record_check import StoredRecord
from kitedash.domain.sentences import shown
from kitedash.services.evidence_hashes import experiment_spec, known_run_hash, run_hash
from kitedash.settings import settings


@dataclass(frozen=True)
class Finding:
    """What was checked, such as "record 3" or a file's name, and how it came out. Plain text of one line."""

    what: str
    ok: bool
    sentence: str


_HASH = re.compile(r"[0-9a-f]{64}")
_NO_EVIDENCE = "there is no evidence, since no run had ended when it was decided"
_AGREES = "It agrees with its own hash and with the record stored here."
_ALONE = "It agrees with its own hash; this database has no such record to compare it with."


def verify_stored(*, evidence: bool = True, anew: bool = True) -> tuple[Finding, ...]:
    """A finding for every record that holds, and one for every problem of those that don't; () without records.

    evidence: also hash again what the runs of each record stored. anew: all of it, whatever this process hashed
    before; else what KiteDash has not written to since is taken as it was.
    """
    problems: dict[int, list[str]] = {}
    holds: dict[int, str] = {}
    records: list[StoredRecord] = []
    with sessions(settings().url)() as session:
        hashes = _Hashes(session, run_hash if anew else known_run_hash)
        for number in decisions.record_numbers(session):
            record = decisions.find_record(session, number)
            if record is None:  # gone since the numbers were read, which the chain tells
                continue
            records.append(replace(record, document=""))  # the chain asks for no document: one at a time is enough
            found, without = record_check.problems_of(record), ""
            if evidence and not found:
                found, without = hashes.problems_of(record)
            problems[number], holds[number] = found, without
    for number, sentence in record_check.chain_problems(records):
        problems[number].append(sentence)
    return tuple(
        Finding(f"record {number}", not sentence, f"{sentence or _holding(holds[number], evidence=evidence)}.")
        for number, found in problems.items()
        for sentence in found or [""]
    )


def _holding(without: str, *, evidence: bool) -> str:
    """What agrees; `without` says what has no evidence that could."""
    if evidence and without != _NO_EVIDENCE:
        agree = "document, hash, table and chain and evidence agree"
    else:
        agree = "document, hash and table and chain agree"
    return f"{agree}; {without}" if without else agree


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


def _rendered(session: Session, stored: StoredRecord, status: Any) -> str | None:
    """As it would be exported now, or as it was before another record superseded it."""
    document = (_parsed(stored) or {}).get("document")
    if document is None:
        return None
    superseded_by = decisions.superseding(session, stored.number)
    try:
        return madr.render(document, stored.sha256, None if status == "accepted" else superseded_by)
    except madr.UNREADABLE:
        return None


def _find(session: Session, sha256: str | None, number: Any) -> StoredRecord | None:
    """By its hash, else by its number: one of the two may be what was changed."""
    found = decisions.number_of_hash(session, sha256) if sha256 and _HASH.fullmatch(sha256) else None
    if found is None and isinstance(number, int) and not isinstance(number, bool):
        found = number
    return decisions.find_record(session, found) if found is not None else None


def _named(name: str, stored: StoredRecord | None, said: Mapping[str, Any]) -> str:
    number = stored.number if stored is not None else said.get("number")
    return f"record {number} ({name})" if isinstance(number, int) else name


def _since(session: Session, stored: StoredRecord) -> str:
    by = decisions.superseding(session, stored.number)
    return "" if by is None else f" Record {by} supersedes it."


def _who_differs(stored: StoredRecord) -> str:
    if record_check.problems_of(stored):
        return "It agrees with itself, but the record stored here was changed"
    return "It agrees with itself, but is not the record stored here"


def _parsed(stored: StoredRecord) -> dict[str, Any] | None:
    """The stored record as its export would hold it; None where its document can't be read."""
    try:
        return {"document": record_check.document_of(stored.document), "sha256": stored.sha256}
    except InvalidInput:
        return None


class _Hashes:
    """Evidence hashed by `hash_of`, each run once however many records name it."""

    def __init__(self, session: Session, hash_of: Callable[[Session, str], str]) -> None:
        self._session = session
        self._hash_of = hash_of
        self._known: dict[str, str] = {}

    def problems_of(self, record: StoredRecord) -> tuple[list[str], str]:
        """What is wrong with the evidence of a record, and in words what has none; "" where all of it has."""
        document = record_check.document_of(record.document)
        try:
            spec_sha256 = document["experiment"]["spec_sha256"]
            options = [(option["name"], list(option["evidence"])) for option in document["options"]]
            named = [(name, run["run_id"], run["sha256"]) for name, runs in options for run in runs]
        except madr.UNREADABLE:
            named = [(None, None, None)]
        if not all(isinstance(value, str) for one in named for value in one):
            return ["its document does not have the form of a record"], ""
        found = [self._spec_problem(record.experiment_id, spec_sha256)]
        found += [self._run_problem(*one) for one in named]
        without = [_short(name) for name, runs in options if not runs]
        if not named:
            said = _NO_EVIDENCE
        else:
            said = f"there is no evidence of {wording.listed(without)}, of which no run had ended" if without else ""
        return [problem for problem in found if problem], said

    def _spec_problem(self, experiment_id: str, sha256: Any) -> str:
        try:
            now = experiment_spec(self._session, experiment_id)[1]
        except NotFound:
            return "the experiment is not stored any more"
        except DamagedError:
            return "the experiment's stored specification can't be read any more"
        return "" if now == sha256 else "the experiment's stored specification is not the one that was decided on"

    def _run_problem(self, name: str, run_id: str, sha256: str) -> str:
        run = f"run {_short(run_id)} of {_short(name)}"
        try:
            if run_id not in self._known:
                self._known[run_id] = self._hash_of(self._session, run_id)
        except NotFound:
            return f"{run} is not stored any more"
        except DamagedError:
            return f"{run} has evidence that can't be read any more"
        if self._known[run_id] == sha256:
            return ""
        return f"what {run} stored is not what was decided on: its evidence was changed"


def _short(name: Any) -> str:
    """An id or a name as it is, and quoted where it does not look like one."""
    return name if isinstance(name, str) and name.isprintable() and 0 < len(name) <= 80 else shown(name)
