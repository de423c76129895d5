"""Checking records: what is no record is one sentence; a break of hash, table or chain is named, and its place."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kitedash.domain import record_check
from kitedash.domain.canonical_json import canonical, sha256_of, written
from kitedash.domain.errors import InvalidInput
from kitedash.domain.record_check import StoredRecord, chain_problems, first_difference, parse, path_at, problems_of
from kitedash.services.decision_document import Acceptance
from tests.unit.services.decisions import ACCEPTED, a_document


def stored(number: int = 1, previous_sha256: str = "") -> StoredRecord:
    accepted = Acceptance(number, ACCEPTED.at, ACCEPTED.by, previous_sha256)
    document = replace(a_document(accepted=accepted), supersedes=None)
    text = canonical(document)
    return StoredRecord(
        number, "e1", "fp8", document.title, None, ACCEPTED.at, ACCEPTED.by, text, sha256_of(text), previous_sha256
    )


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "it is not JSON"),
        (b"{", "it is not JSON"),
        (b'{"a":1}x', "it is not JSON (Extra data at character 8)"),
        (b'{"a":"\xff"}', "byte 7 is not UTF-8"),
        (b'{"a":1,"b":{"c":1,"c":2}}', "the key 'c' is there twice"),
        (b'{"a":1.5}', "it holds the bare number 1.5"),
        (b'{"a":NaN}', "it holds the bare number NaN"),
        (b'{"a":-Infinity}', "it holds the bare number -Infinity"),
        (b"9" * 5_000, "it holds a number with too many digits"),
        (b"[" * 200_000, "it is nested deeper than 40 levels"),
        (b"[" * 41 + b"]" * 41, "it is nested deeper than 40 levels"),
        (b'{"a":' * 500_000 + b"1" + b"}" * 500_000, "it is nested deeper than 40 levels"),
        (b" " * 8_000_001, "it has 8,000,001 bytes; at most 8,000,000"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_is_no_export_is_one_sentence(data: bytes, says: str) -> None:
    with pytest.raises(InvalidInput, match=r".+") as refused:
        parse(data)
    assert str(refused.value).startswith(says)
    assert "\n" not in str(refused.value)


def test_an_untouched_record_has_no_problem() -> None:
    assert problems_of(stored()) == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"sha256": "0" * 64}, "it does not have the hash that is stored beside it"),
        ({"title": "Another"}, "title is 'Another' in the table and 'Serve fp8' in the document"),
        ({"candidate_name": "slow"}, "candidate_name is 'slow' in the table and 'fp8' in the document"),
        ({"number": 2}, "number is 2 in the table and 1 in the document"),
        ({"experiment_id": "e2"}, "experiment_id is 'e2' in the table and 'e1' in the document"),
        ({"supersedes": 1}, "supersedes is 1 in the table and an empty value in the document"),
        ({"accepted_by": "Eve"}, "accepted_by is 'Eve' in the table and 'Ann' in the document"),
        ({"accepted_at": ACCEPTED.at + timedelta(microseconds=1)}, "accepted_at is '2026-11-30T12:00:00.000001Z'"),
        ({"previous_sha256": "f" * 64}, "previous_sha256 is "),
    ],
)
def test_a_changed_column_is_named(changes: dict[str, Any], says: str) -> None:
    found = problems_of(replace(stored(), **changes))
    assert len(found) == 1
    assert says in found[0]


def test_a_column_of_another_type_is_named_and_nothing_else_is_said_of_it() -> None:
    damaged = replace(stored(), document="", damaged=("accepted_at", "document"))
    assert problems_of(damaged) == [
        "accepted_at can't be read any more in the table",
        "document can't be read any more in the table",
    ]


def changed(text: str, change: Callable[[dict[str, Any]], None]) -> str:
    value = json.loads(text)
    change(value)
    return written(value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda value: value.pop("why"), "its document lacks key 'why'"),
        (lambda value: value.update(more=1), "its document has the unknown key 'more'"),
        (lambda value: value.update(format=2), "its format is 2; this version knows 1"),
        (lambda value: value.update(title="T"), "title is 'Serve fp8' in the table and 'T' in the document"),
        (lambda value: value["experiment"].update(spec_json="{}"), "experiment.spec_json does not have the hash"),
        (lambda value: value.update(experiment=[]), "experiment_id is 'e1' in the table and an empty value"),
    ],
)
def test_a_document_of_another_form_is_found_even_with_a_fitting_hash(
    change: Callable[[dict[str, Any]], None], says: str
) -> None:
    record = stored()
    text = changed(record.document, change)
    found = problems_of(replace(record, document=text, sha256=sha256_of(text)))
    assert len(found) == 1
    assert says in found[0]


def test_a_document_that_is_not_canonical_is_found_even_with_a_fitting_hash() -> None:
    record = stored()
    text = json.dumps(json.loads(record.document))
    assert problems_of(replace(record, document=text, sha256=sha256_of(text))) == ["its document is not canonical JSON"]
    for garbage in ("", "[]", "null", "{", '{"format":1}', "\ud800"):
        assert problems_of(replace(record, document=garbage))


def chain(count: int) -> list[StoredRecord]:
    found: list[StoredRecord] = []
    for number in range(1, count + 1):
        found.append(stored(number, found[-1].sha256 if found else ""))
    return found


def test_a_whole_chain_has_no_problem_in_any_order() -> None:
    records = chain(4)
    assert chain_problems(records) == []
    assert chain_problems(records[::-1]) == []
    assert chain_problems([]) == []


def test_a_record_that_was_taken_out_or_replaced_is_named() -> None:
    first, second, third, fourth = chain(4)
    assert chain_problems([first, third, fourth]) == [(3, "record 2 is missing before it")]
    assert chain_problems([first, fourth]) == [(4, "records from 2 on are missing before it")]
    assert chain_problems([second, third])[0] == (2, "record 1 is missing before it")
    forged = replace(second, sha256="0" * 64)
    (problem,) = chain_problems([first, forged, third, fourth])
    assert problem == (2, "it is not the record that record 3 was chained to: one of the two was changed")
    assert chain_problems([replace(first, previous_sha256="1" * 64)])[0][0] == 1
    assert chain_problems([first, replace(second, supersedes=2)])[0][0] == 2


@pytest.mark.parametrize(
    ("here", "there", "found"),
    [
        ({"a": [1, {"b": "x"}]}, {"a": [1, {"b": "y"}]}, ("a[1].b", "'x'", "'y'")),
        ({"a": 1}, {"a": True}, ("a", "1", "true")),
        ({"a": 1}, {"a": "1"}, ("a", "1", "'1'")),
        ({"a": 1}, {"b": 1}, ("a", "there", "missing")),
        ({"b": 1}, {"a": 1, "b": 1}, ("a", "missing", "there")),
        ({"a": [1]}, {"a": [1, 2]}, ("a", "1 entries", "2 entries")),
        ({"a": None}, {"a": []}, ("a", "an empty value", "a list")),
        ({"z": 1, "a": 1}, {"z": 2, "a": 2}, ("a", "1", "2")),
    ],
)
def test_the_first_difference_by_the_order_of_keys(here: Any, there: Any, found: tuple[str, str, str]) -> None:
    assert first_difference(here, there) == found
    assert first_difference(here, here) is None


def test_a_difference_far_into_a_long_text_is_what_is_quoted() -> None:
    path, here, there = (
        first_difference({"why": "x" * 500 + "not cheap"}, {"why": "x" * 500 + "now cheap"}) or ("",) * 3
    )
    assert path == "why"
    assert "not cheap" in here
    assert "now cheap" in there


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text("aä≤\n", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abü", min_size=1, max_size=2), inner, max_size=3)
    ),
    max_leaves=12,
)


def spans(value: Any, path: str = "", start: int = 0) -> list[tuple[int, int, str]]:
    """(first byte, end, path) of every value with its key, worked out from the texts of the parts."""
    found = []
    at = start + 1
    items = sorted(value.items()) if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        name = f"{path}[{key}]" if isinstance(key, int) else f"{path}.{key}".lstrip(".")
        head = len(written(key).encode()) + 1 if isinstance(key, str) else 0
        end = at + head + len(written(child).encode())
        found.append((at, end, name))
        found += spans(child, name, at + head)
        at = end + 1
    return found


@given(st.dictionaries(st.text("abü", min_size=1, max_size=2), PLAIN, min_size=1, max_size=3))
@settings(max_examples=200, deadline=None)
def test_a_byte_is_found_in_the_innermost_value_that_holds_it(value: dict[str, Any]) -> None:
    placed = spans(value)
    for offset in range(len(written(value).encode())):
        inside = [name for start, end, name in placed if start <= offset < end]
        if inside:
            assert path_at(value, offset).startswith(inside[0])
            assert path_at(value, offset) in {*inside, *(name for *_, name in placed if name.startswith(inside[-1]))}


def test_the_number_and_hash_of_a_broken_export_can_still_be_read() -> None:
    record = stored()
    data = record_check.envelope(record.document, record.sha256)
    assert record_check.named_in(data) == (record.sha256, 1)
    assert record_check.named_in(data.replace(b"{", b"", 1)) == (record.sha256, 1)
    assert record_check.named_in(data[:-5]) == (None, 1)
    assert record_check.named_in(b"") == (None, None)
