"""Verify on the records page: what is stored, and what was exported."""

from __future__ import annotations

import json
import re
import sqlite3

import pytest

from kitedash.services import evidence_hashes, records
from kitedash.settings import settings
from kitedash.ui import record_actions
from tests.ui.conftest import opened, texts
from tests.ui.deciding import (
    change_stored,
    click,
    decided,
)
from tests.ui.seed import Seeded

pytestmark = pytest.mark.ui


# ---- Verify


def unescaped(text: str) -> str:
    return re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", text)


def test_verify_finds_all_in_order(own_database: Seeded) -> None:
    decided(own_database.many)
    at = opened("records", {})
    click(at, "Verify all records")
    said = texts(at)
    assert "The check found everything as it was accepted." in said
    assert "ok · **record 1**: " in said


def test_verify_names_the_record_in_which_one_byte_was_changed(own_database: Seeded) -> None:
    decided(own_database.many)
    decided(own_database.many, "int8")
    change_stored(1, "fastest", "fastast")
    at = opened("records", {"record": "2"})
    click(at, "Verify all records")
    said = texts(at)
    assert "checks failed." in said
    failed = [line for line in said.splitlines() if "**failed**" in line]
    assert failed
    assert all("**record 1**" in line for line in failed)
    assert any("Record 2: " in str(head.value) for head in at.subheader)  # the others stay readable


def test_a_record_that_cannot_be_read_is_shown_as_it_is_stored(own_database: Seeded) -> None:
    decided(own_database.many)
    change_stored(1, '"chosen":', '"chosem":')
    at = opened("records", {})
    assert any("Record 1" in str(error.value) for error in at.error)
    assert any('"chosem":' in str(code.value) for code in at.code)
    click(at, "Verify all records")
    assert "**failed**" in texts(at)


@pytest.mark.parametrize(("column", "value"), [("accepted_at", "'bogus'"), ("document", "x'7b7d'")])
def test_a_row_that_cannot_be_read_is_told_and_the_others_stay(own_database: Seeded, column: str, value: str) -> None:
    decided(own_database.many)
    decided(own_database.many, "int8")
    change_stored(1, "fastest", "fastest")  # takes the triggers away
    with sqlite3.connect(settings().data_dir / "kitedash.db") as connection:
        connection.execute(f"UPDATE decision_records SET {column} = {value} WHERE number = 1")
        connection.execute("UPDATE load_blocks SET status = 'bogus' WHERE run_id = '10000000-3'")
    connection.close()
    at = opened("records", {"record": "1"})
    assert any(f"{column} can't be read any more" in unescaped(str(error.value)) for error in at.error)
    evidence_hashes._hash_at.cache_clear()  # as in a process that has not read it before
    click(at, "Verify all records")
    failed = [unescaped(line) for line in texts(at).splitlines() if "**failed**" in line]
    assert len(failed) == 2
    assert f"record 1**: {column} can't be read any more in the table." in failed[0]
    assert "record 2**: run 10000000-3 of int8 has evidence that can't be read any more." in failed[1]
    assert any("Record 2: " in str(head.value) for head in opened("records", {"record": "2"}).subheader)


def test_an_exported_file_is_verified_from_the_upload(own_database: Seeded) -> None:
    decided(own_database.many)
    at = opened("records", {})
    at.file_uploader[0].upload("decision.json", records.export_json(1)).run()
    assert "The check found everything as it was accepted." in texts(at)


def test_one_changed_byte_of_an_export_is_named(own_database: Seeded) -> None:
    decided(own_database.many)
    data = records.export_json(1)
    broken = data.replace(b"fastest", b"fastast", 1)
    assert len(broken) == len(data)
    at = opened("records", {})
    at.file_uploader[0].upload("decision.json", broken).run()
    (line,) = [line for line in texts(at).splitlines() if "**failed**" in line]
    assert "why" in line  # the field that was changed


def test_a_file_that_is_no_export_gets_one_sentence(own_database: Seeded) -> None:
    decided(own_database.many)
    at = opened("records", {})
    for data in (b"", b"{}", b"[" * 50_000, b"\xff\xfe", json.dumps({"document": 1, "sha256": "x"}).encode()):
        at.file_uploader[0].upload("some.json", data).run()
        assert not at.exception
        assert len([line for line in texts(at).splitlines() if "**failed**" in line]) == 1
        at = opened("records", {})


def test_too_large_a_file_is_refused_by_the_server_too(own_database: Seeded, monkeypatch: pytest.MonkeyPatch) -> None:
    decided(own_database.many)
    at = opened("records", {})
    monkeypatch.setattr(record_actions, "MAX_EXPORT_BYTES", 100)
    monkeypatch.setattr(records, "verify_export", lambda *_: pytest.fail("must not be read"))
    at.file_uploader[0].upload("large.json", b"x" * 101).run()
    assert "no export of a record is" in texts(at)
