"""Verifying the records of a database: what was changed behind its back is found and named."""

from __future__ import annotations

import json

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session, sessionmaker

from kitedash.domain import record_check
from kitedash.domain.canonical_json import sha256_of
from kitedash.domain.errors import NotFound, Refused
from kitedash.services import records
from kitedash.services.records import BrokenRecordError
from tests.db.decided import a_draft, accepted, decided, store_experiment
from tests.db.decisions.forging import forge, forge_freely, problems

pytestmark = pytest.mark.database


def test_nothing_recorded_is_nothing_found(store: sessionmaker[Session]) -> None:
    assert records.verify_stored() == ()
    assert records.records() == ()
    with pytest.raises(NotFound, match="no decision record 1"):
        records.record(1)


@pytest.mark.usefixtures("filled")
def test_a_changed_byte_of_a_stored_document_is_found_and_the_record_named(url: str) -> None:
    export = [decided(title=f"Decision {i}") for i in (1, 2, 3)] and records.export_json(2)
    text = json.loads(export)["document"]["why"]
    forge(
        url, "UPDATE decision_records SET document = replace(document, :old, :new) WHERE number = 2", old=text, new="X"
    )
    ((what, sentence),) = problems()
    assert what == "record 2"
    assert "does not have the hash" in sentence
    # With the export that was kept, the field is named too.
    found = records.verify_export("kept.json", export)
    assert not found.ok
    assert found.what == "record 2 (kept.json)"
    assert "the record stored here was changed" in found.sentence
    assert f"document.why, '{text}' here and 'X' stored" in found.sentence


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("document", ["", "{", "[]", "{}", '{"format":1}', "null", "[" * 100_000])
def test_a_stored_document_that_is_none_is_one_sentence(url: str, document: str) -> None:
    export = decided() and records.export_json(1)
    forge(
        url,
        "UPDATE decision_records SET document = :document, sha256 = :sha256",
        document=document,
        sha256=sha256_of(document),
    )
    assert [what for what, _ in problems()] == ["record 1"]
    with pytest.raises(BrokenRecordError, match="Record 1 was changed in the database and can't be shown"):
        records.record(1)
    assert not records.verify_export("kept.json", export).ok
    assert records.records()[0].number == 1


@pytest.mark.usefixtures("filled")
def test_a_document_rewritten_with_its_own_hash_breaks_the_chain(url: str) -> None:
    for i in (1, 2, 3):
        decided(title=f"Decision {i}")
    markdown = records.export_markdown(2)
    document = json.loads(records.export_json(2))["document"]
    document["why"] = "Another reason."
    text = record_check.written(document)
    values = {"document": text, "sha256": sha256_of(text)}
    forge(url, "UPDATE decision_records SET document = :document, sha256 = :sha256 WHERE number = 2", **values)
    assert problems() == [
        ("record 2", "it is not the record that record 3 was chained to: one of the two was changed.")
    ]
    found = records.verify_export("kept.md", markdown.encode())
    assert not found.ok
    assert found.what == "record 2 (kept.md)"
    assert "but is not the record stored here: the first difference is line" in found.sentence


@pytest.mark.usefixtures("filled")
def test_a_record_that_was_taken_out_is_missed(url: str) -> None:
    for i in (1, 2, 3):
        decided(title=f"Decision {i}")
    forge(url, "UPDATE decision_drafts SET accepted_number = NULL WHERE accepted_number = 2")
    forge(url, "DELETE FROM decision_records WHERE number = 2")
    assert problems() == [("record 3", "record 2 is missing before it.")]


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    ("column", "value"), [("title", "Another"), ("candidate_name", "slow"), ("accepted_by", "Eve")]
)
def test_a_column_that_says_another_thing_than_the_document_is_found(url: str, column: str, value: str) -> None:
    decided()
    forge(url, f"UPDATE decision_records SET {column} = :value", value=value)
    ((what, sentence),) = problems()
    assert (what, sentence.split()[0]) == ("record 1", column)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("accepted_at", "'bogus'"),
        ("document", "x'7b7d'"),
        ("document", "CAST(x'ff' AS TEXT)"),
        ("title", "x'00'"),
        ("supersedes", "'x'"),
    ],
)
def test_a_row_that_can_not_be_read_is_one_finding_and_the_list_goes_on(
    store: sessionmaker[Session], url: str, column: str, value: str
) -> None:
    if url.startswith("postgresql"):
        pytest.skip("Postgres keeps a column to its type")
    store_experiment(store)
    for title in ("One", "Two", "Three"):
        decided(title=title)
    forge_freely(url, f"UPDATE decision_records SET {column} = {value} WHERE number = 2")
    assert problems() == [("record 2", f"{column} can't be read any more in the table.")]
    assert [found.number for found in records.records()] == [3, 2, 1]
    assert records.records()[0].title == "Three"
    if column == "accepted_at":
        assert records.records()[1].accepted_at is None
    assert records.record(1).title == "One"
    with pytest.raises(BrokenRecordError, match=f"Record 2 was changed .*: {column} can't be read any more"):
        records.record(2)
    if column == "document":
        with pytest.raises(BrokenRecordError, match="document can't be read any more"):
            records.export_json(2)
    assert decided(title="Four").number == 4


def test_an_experiment_that_is_gone_is_a_finding(store: sessionmaker[Session], url: str) -> None:
    if url.startswith("postgresql"):
        pytest.skip("Postgres keeps a row that others refer to")
    store_experiment(store)
    decided()
    forge_freely(url, "DELETE FROM experiments")
    assert problems() == [("record 1", "the experiment is not stored any more.")]
    assert records.records()[0].experiment_name == "not stored any more"
    assert records.record(1).title == "Serve fp8"
    forge_freely(url, "DELETE FROM runs WHERE id = 'e1-slow'")
    assert problems()[1] == ("record 1", "run e1-slow of slow is not stored any more.")


def test_the_list_of_records_reads_no_document(filled: sessionmaker[Session]) -> None:
    decided()
    read: list[str] = []
    engine = filled.kw["bind"]
    sa.event.listen(engine, "before_cursor_execute", lambda *arguments: read.append(arguments[2]))
    assert records.records()[0].title == "Serve fp8"
    assert any("decision_records" in statement for statement in read)
    assert not any("document" in statement for statement in read)


def test_a_record_that_is_too_large_to_be_verified_is_refused(
    filled: sessionmaker[Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    size = len(decided() and records.export_json(1))
    assert len(records.export_markdown(1)) < size
    draft = a_draft()
    monkeypatch.setattr(record_check, "MAX_BYTES", size - 1_000)
    with pytest.raises(
        Refused, match=r"^The record would have 0\.\d MB, and verifying reads at most .* MB: write less"
    ):
        accepted(draft)
    assert len(records.records()) == 1
    monkeypatch.setattr(record_check, "MAX_BYTES", size + 1_000)
    assert accepted(draft).number == 2
