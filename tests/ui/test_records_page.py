"""The records page on the real services and a real database: each state, and what goes out of it."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from kitedash.services import decide, records_page
from kitedash.services.actor import LOCAL, Actor
from kitedash.services.tradeoff import tradeoff_view
from kitedash.settings import settings
from kitedash.ui import guard
from kitedash.ui.escape import markdown
from tests.ui.conftest import opened, texts
from tests.ui.deciding import (
    CHOSEN,
    HOSTILE,
    click,
    decided,
)
from tests.ui.seed import Seeded

pytestmark = pytest.mark.ui


def heads(at: AppTest) -> str:
    return "\n".join(str(head.value) for head in at.subheader)


# ---- the states


def test_empty_says_how_a_decision_is_made(own_database: Seeded) -> None:
    at = opened("records", {})
    said = texts(at)
    assert "Nothing has been decided yet." in said
    assert [link.proto.page for link in at.get("page_link")] == ["decide"]
    assert "1. On the **trade-off** page, pick the candidate to ship." in said
    assert not at.dataframe


def test_an_installation_without_any_experiment_leads_to_the_launch_page(no_rows: Path) -> None:
    at = opened("records", {})
    assert [info.value for info in at.info] == [
        "Nothing has been decided yet, and no experiment has been started that there could be a decision about."
    ]
    assert [(link.proto.page, link.proto.label) for link in at.get("page_link")] == [
        ("launch", "Describe one and launch it")
    ]


def test_an_unfinished_draft_is_named_before_there_is_any_record(own_database: Seeded) -> None:
    decide.save_draft(
        LOCAL,
        experiment_id=own_database.many,
        candidate_name=CHOSEN,
        content={"title": "Half a decision"},
        targets=tradeoff_view(own_database.many).targets,
    )
    at = opened("records", {})
    assert [block.label for block in at.expander] == ["Open drafts (1)"]


def test_one_record_is_drawn_from_its_document(own_database: Seeded) -> None:
    record = decided(own_database.many)
    at = opened("records", {})
    assert f"Record 1: {markdown('Ship ' + CHOSEN)}" in heads(at)
    said = texts(at)
    assert "decided by Ada\\, Grace · consulted: Linus · experiment quickstart" in said
    assert f"SHA-256 `{record.sha256}`" in said
    assert "none, this is the first" in said
    assert "It is the fastest one\\.  \nAnd that is what we need\\." in said  # with its line break
    assert "not float32 max\\-num\\-seqs\\=2" in said
    numbers = at.table[0].value
    # 265 * 2 ** 0.45 = 362 ms; 6 replicas * 0.116 USD * 24 h / 200 = 0.0835 USD
    assert numbers["Value with its interval"][0] == markdown("362 ms (95 %: 326 ms to 398 ms; n = 240)")
    assert numbers["Value with its interval"][1].startswith(markdown("0.0835 USD (95 %:"))
    assert [status.split(" ")[1] for status in numbers["Status"]] == ["meets", "meets", "uncertain"]
    assert numbers["Target used"][0] == markdown("≤ 800 ms")
    row = at.dataframe[0].value.iloc[0]
    assert (row["Number"], row["Candidate"], row["Experiment"], row["Status"]) == (
        1,
        CHOSEN,
        "quickstart",
        "✓ accepted",
    )
    assert any(record.sha256 in str(code.value) for code in at.code)  # the Markdown as it is exported


def test_many_records_newest_first_and_one_picked(own_database: Seeded) -> None:
    first = decided(own_database.many)
    second = decided(own_database.many, "int8", supersedes=1)
    at = opened("records", {})
    table = at.dataframe[0].value
    assert list(table["Number"]) == [2, 1]
    assert list(table["Status"]) == ["✓ accepted", "→ superseded by record 2"]
    assert f"of the record before it: `{first.sha256}`" in texts(at)
    assert at.query_params["record"] == "2"
    next(box for box in at.selectbox if box.label == "Record").set_value(1).run()
    assert "Record 1: " in heads(at)
    assert at.query_params["record"] == "1"
    supersede = next(button for button in at.button if button.label == "Supersede")
    assert supersede.disabled
    assert second.previous_sha256 == first.sha256


def test_a_decision_of_a_running_experiment_says_that_results_were_missing(own_database: Seeded) -> None:
    decided(own_database.running, "float32")
    said = texts(opened("records", {}))
    assert markdown("6 runs of the experiment had not ended when this was decided") in said


def test_a_failed_candidate_keeps_its_reason_in_the_record(own_database: Seeded) -> None:
    decided(own_database.running, "float32")
    at = opened("records", {})
    every = at.table[len(at.table) - 1].value
    why = dict(zip(every["Candidate"], every["Why not"], strict=True))
    assert markdown("not enough memory for 2 GiB of KV cache.") in why["**fp8**"]
    assert why["**float32**"] == "**chosen**"


def test_an_unknown_record(own_database: Seeded) -> None:
    decided(own_database.many)
    for number in ("7", "x", "01", "9" * 400):
        at = opened("records", {"record": number})
        assert "There is no record" in texts(at)
    click(at, "Show the newest record")
    assert "Record 1: " in heads(at)


# ---- what goes out of it


def test_the_downloads_hold_the_stored_document_and_its_hash(
    own_database: Seeded, monkeypatch: pytest.MonkeyPatch
) -> None:
    decided(own_database.many)
    carried: dict[str, tuple[Any, str, str]] = {}

    def button(label: str, data: Any, name: str, mime: str, **_: object) -> None:
        carried[label] = (data, name, mime)

    assert [str(button.proto.label) for button in opened("records", {}).get("download_button")] == ["JSON", "Markdown"]
    monkeypatch.setattr(st, "download_button", button)
    opened("records", {})
    with closing(sqlite3.connect(settings().data_dir / "kitedash.db")) as connection:
        ((document, sha256),) = connection.execute("SELECT document, sha256 FROM decision_records").fetchall()
    assert hashlib.sha256(document.encode()).hexdigest() == sha256
    assert json.loads(document)["title"] == f"Ship {CHOSEN}"
    data, name, mime = carried["JSON"]
    assert data.decode() == f'{{"document":{document},"sha256":"{sha256}"}}\n'
    assert (name, mime) == ("kitedash-decision-0001.json", "application/json")
    text, name, mime = carried["Markdown"]
    assert (name, mime) == ("kitedash-decision-0001.md", "text/markdown")
    assert f"\nsha256: {sha256}\n" in text
    before, own, after = re.split(r"^text-sha256: ([0-9a-f]{64})\n", text, flags=re.MULTILINE)
    assert hashlib.sha256((before + after).encode()).hexdigest() == own
    assert "It is the fastest one." in after


def test_supersede_opens_a_draft_that_starts_from_the_record(own_database: Seeded) -> None:
    decided(own_database.many)
    at = opened("records", {})
    click(at, "Supersede")
    (draft,) = decide.drafts()
    assert draft.supersedes == 1
    assert draft.content.why == "It is the fastest one.\nAnd that is what we need."
    assert draft.content.rejected["float32"] == "not float32"
    assert at.query_params["draft"] == draft.id
    assert next(box for box in at.text_input if box.label == "Title").value == f"Ship {CHOSEN}"
    assert next(box for box in at.selectbox if box.label == "Supersedes").value == 1
    assert records_page.supersede(LOCAL, 1).id == draft.id  # a second click makes no second draft


def test_a_viewer_cannot_supersede(own_database: Seeded, monkeypatch: pytest.MonkeyPatch) -> None:
    decided(own_database.many)
    monkeypatch.setattr(guard, "current_user", lambda: Actor("Vera", "viewer"))
    at = opened("records", {})
    assert next(button for button in at.button if button.label == "Supersede").disabled


def test_hostile_text_is_only_text(own_database: Seeded) -> None:
    decided(own_database.many, title=HOSTILE, why=HOSTILE + "\n# head", consequences=HOSTILE, deciders=(HOSTILE,))
    at = opened("records", {})
    shown = [str(text.value) for kind in (at.markdown, at.caption, at.subheader) for text in kind]
    assert f"Record 1: {markdown(HOSTILE[:-2])}" in heads(at)
    assert any(markdown("# head") in text for text in shown)
    for text in shown:
        assert ":red[x" not in text
        assert "\\<script" in text or "<script" not in text
