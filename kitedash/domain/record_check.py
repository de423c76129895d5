"""Whether records and their exports are what was accepted: form, hashes, columns, chain, and where two of them differ.

Pure: what is stored comes in as `StoredRecord`. Problems are sentences that complete "record 3: ...".
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn

from kitedash.domain.canonical_json import plain, sha256_of, written
from kitedash.domain.decision_document import FORMAT, Document
from kitedash.domain.errors import InvalidInput
from kitedash.domain.schema_errors import path as path_of
from kitedash.domain.sentences import shown

MAX_BYTES = 8_000_000  # of an export: reading one takes 40 times that in memory
MAX_DEPTH = 40
KEYS = frozenset(field.name for field in dataclasses.fields(Document))
_ENVELOPE_HASH = re.compile(rb'"sha256":"([0-9a-f]{64})"\}\s*\Z')
_NUMBER = re.compile(rb'"number":(\d{1,9}),')

Loc = tuple[str | int, ...]


@dataclass(frozen=True)
class StoredRecord:
    """A row as it is stored; `damaged` names the columns that hold no value of their type, which is left empty here."""

    number: int
    experiment_id: str
    candidate_name: str
    title: str
    supersedes: int | None
    accepted_at: datetime
    accepted_by: str
    document: str
    sha256: str
    previous_sha256: str
    damaged: tuple[str, ...] = ()


def envelope(document: str, sha256: str) -> bytes:
    """The JSON export of a stored document: canonical, one line, with the hash beside what it is the hash of."""
    return f'{{"document":{document},"sha256":"{sha256}"}}\n'.encode()


def parse(data: bytes) -> Any:
    """What canonical JSON holds. Raises InvalidInput with one sentence on anything else that a file may hold."""
    if len(data) > MAX_BYTES:
        raise InvalidInput("", f"it has {len(data):,} bytes; at most {MAX_BYTES:,}")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput("", f"byte {error.start + 1:,} is not UTF-8") from None
    try:
        value = json.loads(
            text, object_pairs_hook=_without_twins, parse_float=_no_fraction, parse_constant=_no_fraction
        )
    except json.JSONDecodeError as error:
        raise InvalidInput("", f"it is not JSON ({error.msg} at character {error.pos + 1:,})") from None
    except RecursionError:
        raise InvalidInput("", f"it is nested deeper than {MAX_DEPTH} levels") from None
    except ValueError:
        raise InvalidInput("", "it holds a number with too many digits") from None
    _check_depth(value)
    return value


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twin = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise InvalidInput("", f"the key {shown(twin)} is there twice")
    return found


def _no_fraction(text: str) -> NoReturn:
    raise InvalidInput("", f"it holds the bare number {text[:30]}, which canonical JSON writes as text")


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [one for group in level for one in _children(group)]
        if not level:
            return
    raise InvalidInput("", f"it is nested deeper than {MAX_DEPTH} levels")


def _children(value: Any) -> Sequence[Any]:
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else ()


def document_of(text: str) -> dict[str, Any]:
    """The document in a stored or exported text that is canonical. Raises InvalidInput, saying what is wrong."""
    value = parse(text.encode("utf-8", "replace"))
    if not isinstance(value, dict):
        raise InvalidInput("", "its document is no group of keys")
    if _canonical(value) != text:
        raise InvalidInput("", "its document is not canonical JSON")
    check_form(value)
    return value


def check_form(document: Mapping[str, Any]) -> None:
    """Raises InvalidInput for another format, and for keys that are missing or too many."""
    if document.get("format") != FORMAT:
        raise InvalidInput("", f"its format is {shown(document.get('format'))}; this version knows {FORMAT}")
    for word, keys in (("lacks", KEYS - document.keys()), ("has the unknown", document.keys() - KEYS)):
        if keys:
            raise InvalidInput("", f"its document {word} key {shown(min(keys))}")


def problems_of(record: StoredRecord) -> list[str]:
    """What is wrong with one row by itself: its form, its hash, its columns."""
    if record.damaged:
        return [f"{name} can't be read any more in the table" for name in record.damaged]
    found = []
    if sha256_of(record.document.encode("utf-8", "replace").decode()) != record.sha256:
        found.append("its document was changed: it does not have the hash that is stored beside it")
    try:
        document = document_of(record.document)
    except InvalidInput as error:
        return [*found, str(error)]
    return found + _column_problems(record, document)


def _column_problems(record: StoredRecord, document: Mapping[str, Any]) -> list[str]:
    experiment = document["experiment"]
    pairs = {
        "number": (record.number, document["number"]),
        "experiment_id": (record.experiment_id, experiment.get("id") if isinstance(experiment, dict) else None),
        "candidate_name": (record.candidate_name, document["chosen"]),
        "title": (record.title, document["title"]),
        "supersedes": (record.supersedes, document["supersedes"]),
        "accepted_at": (plain(record.accepted_at), document["accepted_at"]),
        "accepted_by": (record.accepted_by, document["accepted_by"]),
        "previous_sha256": (record.previous_sha256, document["previous_sha256"]),
        "status": ("accepted", document["status"]),
    }
    found = [
        f"{name} is {shown(stored)} in the table and {shown(said)} in the document"
        for name, (stored, said) in pairs.items()
        if stored != said
    ]
    spec_json = experiment.get("spec_json") if isinstance(experiment, dict) else None
    if isinstance(spec_json, str) and sha256_of(spec_json) != experiment.get("spec_sha256"):
        found.append("experiment.spec_json does not have the hash experiment.spec_sha256")
    return found


def chain_problems(records: Sequence[StoredRecord]) -> list[tuple[int, str]]:
    """(record, sentence) for each break of 1, 2, 3, ... and of the hashes that tie each record to the one before."""
    found: list[tuple[int, str]] = []
    before: StoredRecord | None = None
    for record in sorted(records, key=lambda one: one.number):
        expected = before.number + 1 if before is not None else 1
        if record.number != expected:
            missing = f"record {expected} is" if record.number == expected + 1 else f"records from {expected} on are"
            found.append((record.number, f"{missing} missing before it"))
        elif before is None and record.previous_sha256:
            found.append((record.number, "it is the first and names a record before it"))
        elif before is not None and record.previous_sha256 != before.sha256:
            sentence = f"it is not the record that record {record.number} was chained to: one of the two was changed"
            found.append((before.number, sentence))
        if record.supersedes is not None and record.supersedes >= record.number:
            found.append((record.number, f"it supersedes record {record.supersedes}, which is not an earlier one"))
        before = record
    return found


def named_in(data: bytes) -> tuple[str | None, int | None]:
    """Hash and number of the record that an export says it is, also of one that is no JSON any more."""
    sha256, number = _ENVELOPE_HASH.search(data[-200:]), _NUMBER.search(data)
    return sha256[1].decode() if sha256 else None, int(number[1]) if number else None


def first_difference(here: Any, there: Any, loc: Loc = ()) -> tuple[str, str, str] | None:
    """(path, value here, value there) of the first place where two parsed documents differ, by the order of keys."""
    if isinstance(here, dict) and isinstance(there, dict):
        for key in sorted(here.keys() | there.keys()):
            if key not in here or key not in there:
                lacking = ("missing", "there") if key not in here else ("there", "missing")
                return path_of((*loc, key)), *lacking
            if found := first_difference(here[key], there[key], (*loc, key)):
                return found
        return None
    if isinstance(here, list) and isinstance(there, list):
        for index, (mine, theirs) in enumerate(zip(here, there, strict=False)):
            if found := first_difference(mine, theirs, (*loc, index)):
                return found
        if len(here) != len(there):
            return path_of(loc), f"{len(here)} entries", f"{len(there)} entries"
        return None
    if type(here) is type(there) and here == there:
        return None
    mine, theirs = shown(here), shown(there)
    if mine == theirs and isinstance(here, str) and isinstance(there, str):  # they differ beyond what is quoted
        at = next((i for i, (a, b) in enumerate(zip(here, there, strict=False)) if a != b), min(len(here), len(there)))
        mine, theirs = (shown(text[max(0, at - 10) : at + 30]) for text in (here, there))
    return path_of(loc), mine, theirs


def path_at(value: Any, offset: int) -> str:
    """The path of what stands at a byte of `value`'s canonical text."""
    loc: list[str | int] = []
    while isinstance(value, dict | list) and value:
        at = 1
        items = sorted(value.items()) if isinstance(value, dict) else list(enumerate(value))
        for key, child in items:
            length = len(written(child).encode()) + (len(written(key).encode()) + 1 if isinstance(key, str) else 0)
            if offset < at + length or (key, child) == items[-1]:
                break
            at += length + 1
        loc.append(key)
        offset -= at + (length - len(written(child).encode()))
        if offset < 0:
            break
        value = child
    return path_of(loc)


def _canonical(value: Any) -> str:
    try:
        return written(value)
    except (TypeError, ValueError):  # such as a lone surrogate
        return ""
