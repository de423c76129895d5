"""Drafts, accepting and verifying on both databases: numbers without a gap, rows that stay, changes that are found."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import make_url
from sqlalchemy.orm import Session, sessionmaker

from db import results, runs
from db.engine import make_engine
from db.models import DecisionRecord
from kitedash.domain import record_check
from kitedash.domain.canonical_json import sha256_of
from kitedash.domain.errors import InvalidInput, NotAllowed, NotFound, Refused
from kitedash.domain.experiment import Candidate, Targets
from kitedash.domain.results import Answer, SuiteResult
from kitedash.services import decide, evidence_hashes, records
from kitedash.services.actor import Actor
from kitedash.services.evidence_hashes import run_hash
from kitedash.services.records import BrokenRecordError
from kitedash.settings import settings
from tests.db.at_once import at_once
from tests.db.decided import ENGINEER, PRICES, a_draft, accepted, decided, store_experiment
from tests.db.rows import NOON, going_on
from tests.unit.services.decisions import WRITTEN
from tests.unit.services.evidence import LEVELS, SPEC

pytestmark = pytest.mark.database


@pytest.fixture(autouse=True)
def configured(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    book = tmp_path / "prices.yaml"
    book.write_text(PRICES, encoding="utf-8")
    monkeypatch.setenv("KITEDASH_DATABASE_URL", url)
    monkeypatch.setenv("KITEDASH_PRICE_BOOK", str(book))
    settings.cache_clear()
    yield
    settings.cache_clear()


@pytest.fixture
def filled(store: sessionmaker[Session]) -> sessionmaker[Session]:
    store_experiment(store)
    return store


def problems(*, evidence: bool = True) -> list[tuple[str, str]]:
    return [(found.what, found.sentence) for found in records.verify_stored(evidence=evidence) if not found.ok]


def add_late(store: sessionmaker[Session]) -> None:
    """A fifth candidate, whose run goes on."""
    with store.begin() as session:
        runs.add(
            session,
            "e1-late",
            experiment_id="e1",
            position=9,
            repeat=0,
            candidate=Candidate(name="late", model="m"),
            is_baseline=False,
            queue="cpu",
            now=NOON,
        )
        runs.begin(session, "e1-late", "a worker", NOON)


def forge(url: str, statement: str, **values: Any) -> None:
    """What only the database's owner can do: take the triggers away, change a row, put them back."""
    engine = make_engine(url)
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(sa.text("ALTER TABLE decision_records DISABLE TRIGGER ALL"))
            connection.execute(sa.text(statement), values)
            connection.execute(sa.text("ALTER TABLE decision_records ENABLE TRIGGER ALL"))
        else:
            query = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'decision_records'"
            triggers = connection.execute(sa.text(query)).all()
            assert len(triggers) == 3
            for name, _ in triggers:
                connection.execute(sa.text(f"DROP TRIGGER {name}"))
            connection.execute(sa.text(statement), values)
            for _, sql in triggers:
                connection.execute(sa.text(sql))
    engine.dispose()


def forge_freely(url: str, statement: str) -> None:
    """As `forge`, on SQLite without foreign keys: a row may go that others refer to."""
    with sqlite3.connect(make_url(url).database or "") as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        assert connection.execute(statement).rowcount > 0
    connection.close()


# --- drafts


@pytest.mark.usefixtures("filled")
def test_a_draft_keeps_what_was_typed_so_far() -> None:
    targets = Targets(ttft_p90_ms=950, cost_per_1000_requests_usd=1, pass_rate=0.6)
    first = decide.save_draft(
        ENGINEER, experiment_id="e1", candidate_name="fp8", content={"title": "Serve"}, targets=targets
    )
    assert (first.content.title, first.content.why, first.targets, first.revision) == ("Serve", "", targets, 1)
    again = decide.save_draft(
        Actor("Bo", "engineer"),
        experiment_id="e1",
        candidate_name="slow",
        content={"title": "Serve", "rejected": {"fp8": "new"}},
        targets=SPEC.targets,
        draft_id=first.id,
        revision=1,
    )
    assert (again.candidate_name, again.revision, again.created_by, again.updated_by) == ("slow", 2, "Ann", "Bo")
    assert decide.draft(first.id) == again
    assert decide.drafts("e1") == (again,)
    assert decide.drafts("another") == ()
    decide.discard_draft(ENGINEER, first.id)
    assert decide.drafts() == ()
    with pytest.raises(NotFound, match="No draft has the id"):
        decide.draft(first.id)


@pytest.mark.usefixtures("filled")
def test_a_save_over_what_somebody_else_saved_is_refused_and_says_who() -> None:
    draft = a_draft()
    arguments: dict[str, Any] = {"experiment_id": "e1", "candidate_name": "fp8", "targets": SPEC.targets}
    decide.save_draft(Actor("Bo", "engineer"), content={"why": "Bo's"}, draft_id=draft.id, revision=1, **arguments)
    with pytest.raises(Refused, match=r"^Bo saved this draft at .* after you opened it"):
        decide.save_draft(ENGINEER, content={"why": "Ann's"}, draft_id=draft.id, revision=1, **arguments)
    assert decide.draft(draft.id).content.why == "Bo's"


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"candidate_name": "fp9"}, InvalidInput, r"candidate_name: .*did you mean fp8"),
        ({"experiment_id": "nowhere"}, NotFound, "No experiment"),
        ({"content": {"title": 3}}, InvalidInput, "^title: must be text"),
        ({"draft_id": "nowhere"}, NotFound, "No draft"),
    ],
)
def test_what_no_draft_can_hold_is_refused(changes: dict[str, Any], error: type[Exception], says: str) -> None:
    arguments: dict[str, Any] = {"experiment_id": "e1", "candidate_name": "fp8", "content": {}}
    with pytest.raises(error, match=says):
        decide.save_draft(ENGINEER, targets=SPEC.targets, **(arguments | changes))
    assert decide.drafts() == ()


@pytest.mark.usefixtures("filled")
def test_a_viewer_may_neither_draft_nor_accept_nor_discard() -> None:
    draft, viewer = a_draft(), Actor("Vi", "viewer")
    with pytest.raises(NotAllowed, match="Vi is viewer and may not draft decisions"):
        a_draft(actor=viewer)
    with pytest.raises(NotAllowed, match="may not accept decisions"):
        accepted(draft, actor=viewer)
    with pytest.raises(NotAllowed, match="may not discard drafts"):
        decide.discard_draft(viewer, draft.id)
    assert decide.drafts() == (draft,)
    assert records.records() == ()


@pytest.mark.usefixtures("filled")
def test_a_draft_can_be_read_as_the_record_that_it_would_be() -> None:
    text = decide.as_it_would_read(a_draft(content={"title": "Serve fp8"})).markdown
    assert "# Draft: Serve fp8" in text
    assert "Nobody has accepted it" in text
    assert "600 ms (95 % 540 ms to 660 ms, n = 400)" in text


# --- accepting


@pytest.mark.usefixtures("filled")
def test_accepting_freezes_the_next_record_and_closes_the_draft() -> None:
    draft = a_draft()
    record = accepted(draft)
    assert (record.number, record.status, record.candidate_name, record.experiment_name) == (
        1,
        "accepted",
        "fp8",
        "formats",
    )
    assert record.document["title"] == "Serve fp8"
    assert record.document["accepted_by"] == "Ann"
    assert record.document["options"][0]["reason"] == WRITTEN["rejected"]["float32"]
    assert record.document["options"][1]["settings"]["engine_args"] == {"gpu-memory-utilization": "0.9"}
    assert record.previous_sha256 == ""
    assert decide.draft(draft.id).accepted_number == 1
    assert decide.drafts() == ()
    assert [found.id for found in decide.drafts(open_only=False)] == [draft.id]
    second = decided(title="Again")
    assert (second.number, second.previous_sha256) == (2, record.sha256)
    assert [found.number for found in records.records()] == [2, 1]
    assert problems() == []
    for again in (lambda: accepted(draft), lambda: decide.discard_draft(ENGINEER, draft.id)):
        with pytest.raises(Refused, match="accepted as record 1, which can only be superseded"):
            again()


@pytest.mark.usefixtures("filled")
def test_the_experiments_specification_in_it_is_the_one_that_was_launched() -> None:
    document = decided().document
    assert sha256_of(document["experiment"]["spec_json"]) == document["experiment"]["spec_sha256"]
    assert json.loads(document["experiment"]["spec_json"]) == json.loads(SPEC.model_dump_json())


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    ("content", "candidate", "field"),
    [
        ({**WRITTEN, "why": " "}, "fp8", "why"),
        ({**WRITTEN, "deciders": []}, "fp8", "deciders"),
        ({**WRITTEN, "rejected": {}}, "fp8", "rejected.float32"),
        (WRITTEN, "slow", "rejected.fp8"),
        ({**WRITTEN, "rejected": {"float32": "x", "fp9": "x"}}, "fp8", "rejected.fp9"),
        ({**WRITTEN, "rejected": {"float32": "x", "fp8": "x"}}, "broken", "candidate_name"),
    ],
)
def test_an_incomplete_decision_is_refused_at_its_field_and_stays_a_draft(
    content: dict[str, Any], candidate: str, field: str
) -> None:
    draft = a_draft(candidate_name=candidate, content=content)
    with pytest.raises(InvalidInput) as refused:
        accepted(draft)
    assert refused.value.field == field
    assert records.records() == ()
    assert decide.draft(draft.id) == draft


def test_what_changed_since_it_was_looked_at_is_not_frozen(filled: sessionmaker[Session]) -> None:
    add_late(filled)
    draft = a_draft()
    seen = decide.as_it_would_read(draft)
    with filled.begin() as session:
        results.store_level(session, "e1-late", LEVELS[0])
    with pytest.raises(Refused, match="What the record would say changed since you read it"):
        decide.accept(ENGINEER, draft.id, revision=draft.revision, read_sha256=seen.sha256)
    with pytest.raises(Refused, match="saved this draft at"):
        decide.accept(ENGINEER, draft.id, revision=9, read_sha256=decide.as_it_would_read(draft).sha256)
    assert records.records() == ()
    assert accepted(draft).number == 1


@pytest.mark.usefixtures("filled")
def test_a_price_that_changed_since_it_was_read_is_not_frozen(tmp_path: Path) -> None:
    """No result moves on: only the price book does, and with it the costs."""
    draft = a_draft()
    seen = decide.as_it_would_read(draft)
    assert decide.as_it_would_read(draft).sha256 == seen.sha256
    (tmp_path / "prices.yaml").write_text(PRICES.replace("2.5", "9"), encoding="utf-8")
    with pytest.raises(Refused, match="such as a result or a price: read it anew, then accept"):
        decide.accept(ENGINEER, draft.id, revision=draft.revision, read_sha256=seen.sha256)
    assert records.records() == ()
    record = accepted(draft)
    assert record.document["options"][1]["price"]["usd_per_hour"] == "9.0"
    (tmp_path / "prices.yaml").write_text(PRICES, encoding="utf-8")
    assert problems() == []  # a later price is no change of the record


def test_what_changes_while_it_is_being_gathered_is_not_frozen(
    filled: sessionmaker[Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    add_late(filled)
    draft, gather = a_draft(), decide.gather

    def gather_slowly(*arguments: Any) -> Any:
        found = gather(*arguments)
        with filled.begin() as session:
            results.store_level(session, "e1-late", LEVELS[0])
        return found

    read = decide.as_it_would_read(draft)
    monkeypatch.setattr(decide, "gather", gather_slowly)
    with pytest.raises(Refused, match="What the record would say changed since you read it"):
        decide.accept(ENGINEER, draft.id, revision=draft.revision, read_sha256=read.sha256)
    assert records.records() == ()


@pytest.mark.usefixtures("filled")
def test_a_record_is_superseded_once_and_says_by_which() -> None:
    decided()
    second = decided(supersedes=1, title="Better")
    assert second.supersedes == 1
    assert [(found.number, found.status) for found in records.records()] == [
        (2, "accepted"),
        (1, "superseded by record 2"),
    ]
    assert records.record(1).superseded_by == 2
    assert "status: superseded by record 2\n" in records.export_markdown(1)
    for number, says in ((1, "record 1 is superseded by record 2 already"), (5, "there is no decision record 5")):
        with pytest.raises(InvalidInput, match=f"^supersedes: {says}"):
            decided(supersedes=number)
    assert problems() == []


def test_a_run_that_goes_on_after_the_decision_is_no_changed_evidence(filled: sessionmaker[Session]) -> None:
    add_late(filled)
    document = decided().document
    assert document["options"][-1]["evidence"] == []
    assert document["notes"][-1].startswith("1 run of the experiment had not ended when this was decided")
    with filled.begin() as session:
        results.store_level(session, "e1-late", LEVELS[0])
        runs.finish(session, "e1-late", NOON)
    (found,) = records.verify_stored()
    assert found.ok
    assert found.sentence == (
        "document, hash, table and chain and evidence agree; there is no evidence of late, of which no run had ended."
    )
    (found,) = records.verify_stored(evidence=False)
    assert found.sentence == "document, hash and table and chain agree."


def test_a_record_of_which_no_run_had_ended_is_not_said_to_have_evidence(store: sessionmaker[Session]) -> None:
    store_experiment(store, only=1)
    with store.begin() as session:
        session.execute(sa.text("UPDATE runs SET status = 'running'"))
    accepted(a_draft(candidate_name="float32", content={**WRITTEN, "rejected": {}}))
    (found,) = records.verify_stored()
    assert found.ok
    assert found.sentence == (
        "document, hash and table and chain agree; there is no evidence, since no run had ended when it was decided."
    )


ACCEPTS = """
import sys
from kitedash.services import decide
from kitedash.services.actor import Actor
from kitedash.services.evidence_hashes import run_hash
draft = decide.draft(sys.argv[1])
read = decide.as_it_would_read(draft)
print("ready", flush=True)
sys.stdin.readline()
print(decide.accept(Actor("P", "engineer"), draft.id, revision=draft.revision, read_sha256=read.sha256).number)
"""


@pytest.mark.usefixtures("filled")
def test_accepting_in_several_processes_at_once_leaves_no_gap_and_one_chain() -> None:
    drafts = [a_draft(content={**WRITTEN, "title": f"Decision {i}"}).id for i in range(4)]
    numbers = [int(answer) for answer in at_once(ACCEPTS, [(draft_id,) for draft_id in drafts])]
    assert sorted(numbers) == [1, 2, 3, 4]
    by_number = {found.number: records.record(found.number) for found in records.records()}
    assert by_number[1].previous_sha256 == ""
    assert [by_number[n].previous_sha256 for n in (2, 3, 4)] == [by_number[n].sha256 for n in (1, 2, 3)]
    assert len({found.title for found in by_number.values()}) == 4
    assert problems() == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE decision_records SET title = 'Another' WHERE number = 1",
        "UPDATE decision_records SET document = '{}'",
        "DELETE FROM decision_records WHERE number = 1",
    ],
)
def test_the_database_refuses_to_change_a_record(filled: sessionmaker[Session], statement: str) -> None:
    before = decided()
    with pytest.raises(sa.exc.DBAPIError, match="never changed"), filled.begin() as session:
        session.execute(sa.text(statement))
    assert records.record(1) == before


def copies(**changes: str) -> str:
    """SQL that inserts record 1 again, with some columns changed."""
    names = [column.name for column in DecisionRecord.__table__.columns]
    values = ", ".join(changes.get(name, name) for name in names)
    return f"INTO decision_records ({', '.join(names)}) SELECT {values} FROM decision_records WHERE number = 2"


@pytest.mark.parametrize(
    "changes",
    [
        {"title": "'Another'"},
        {"number": "9", "supersedes": "NULL"},  # another number, the hash of record 2
        {"number": "9", "sha256": "'x'"},  # another number and hash, superseding what record 2 does
    ],
)
def test_a_record_is_not_replaced_by_an_insert(filled: sessionmaker[Session], changes: dict[str, str]) -> None:
    decided()
    decided(supersedes=1)
    before = records.record(1), records.record(2)
    sqlite = filled.kw["bind"].dialect.name == "sqlite"
    for verb in ("INSERT OR REPLACE", "INSERT OR IGNORE", "INSERT") if sqlite else ("INSERT",):
        with pytest.raises(sa.exc.IntegrityError), filled.begin() as session:
            session.execute(sa.text(f"{verb} {copies(**changes)}"))
    assert (records.record(1), records.record(2)) == before
    assert [found.number for found in records.records()] == [2, 1]
    if not sqlite:
        for table in ("decision_records", "experiments"):
            with pytest.raises(sa.exc.DBAPIError, match="never changed"), filled.begin() as session:
                session.execute(sa.text(f"TRUNCATE {table} CASCADE"))
        assert (records.record(1), records.record(2)) == before


# --- verifying what is stored


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
    ("statement", "run"),
    [
        ("UPDATE answers SET passed = NOT passed WHERE run_id = 'e1-fp8' AND item_id = 'item-007'", "e1-fp8"),
        ("UPDATE answers SET text = 'another' WHERE run_id = 'e1-slow' AND item_id = 'item-001'", "e1-slow"),
        ("DELETE FROM answers WHERE run_id = 'e1-slow' AND item_id = 'item-001'", "e1-slow"),
        ("UPDATE load_levels SET ttft_p90_ms = ttft_p90_ms + 0.001 WHERE run_id = 'e1-float32'", "e1-float32"),
        ("UPDATE load_blocks SET schedule_sha256 = 'x' WHERE run_id = 'e1-float32'", "e1-float32"),
        ("UPDATE suites SET version = 'v2' WHERE run_id = 'e1-fp8'", "e1-fp8"),
        ("UPDATE runs SET candidate = '{}' WHERE id = 'e1-broken'", "e1-broken"),
        ("UPDATE runs SET is_baseline = NOT is_baseline WHERE id = 'e1-fp8'", "e1-fp8"),
        ("UPDATE runs SET error = 'another' WHERE id = 'e1-broken'", "e1-broken"),
        ("UPDATE suites SET chance = 0.3 WHERE run_id = 'e1-fp8' AND name = 'kitedash_repo'", "e1-fp8"),
        ("UPDATE suites SET n_passed = n_passed + 1 WHERE run_id = 'e1-fp8' AND name = 'kitedash_repo'", "e1-fp8"),
        ("UPDATE load_blocks SET n_failed = 1 WHERE run_id = 'e1-fp8' AND rate_per_s = 2", "e1-fp8"),
        ("UPDATE load_blocks SET duration_s = 31 WHERE run_id = 'e1-fp8' AND rate_per_s = 2", "e1-fp8"),
        ("UPDATE load_blocks SET seed = 2 WHERE run_id = 'e1-fp8' AND rate_per_s = 2", "e1-fp8"),
        ("UPDATE load_blocks SET reason = 'x' WHERE run_id = 'e1-fp8' AND rate_per_s = 2", "e1-fp8"),
        ("UPDATE load_levels SET reason = 'x' WHERE run_id = 'e1-fp8'", "e1-fp8"),
        ("UPDATE load_levels SET delivered_rate_per_s = 9 WHERE run_id = 'e1-fp8'", "e1-fp8"),
        ("UPDATE load_levels SET prefix_hit_rate = 0.1 WHERE run_id = 'e1-fp8'", "e1-fp8"),
        ("UPDATE load_levels SET parts_ms = '{\"queue\": 1.5}' WHERE run_id = 'e1-fp8'", "e1-fp8"),
    ],
)
def test_changed_evidence_is_found_and_its_run_named(filled: sessionmaker[Session], statement: str, run: str) -> None:
    decided()
    with filled.begin() as session:
        session.execute(sa.text(statement))
    ((what, sentence),) = problems()
    assert what == "record 1"
    assert sentence.startswith(f"what run {run} of {run.removeprefix('e1-')} stored is not what was decided on")
    assert problems(evidence=False) == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE load_blocks SET status = 'bogus' WHERE run_id = 'e1-fp8'",
        "UPDATE load_blocks SET checks = '[{\"x\": 1}]' WHERE run_id = 'e1-fp8'",
        "UPDATE load_levels SET status = 'bogus' WHERE run_id = 'e1-fp8'",
        "UPDATE load_levels SET parts_ms = '[]' WHERE run_id = 'e1-fp8'",
        "UPDATE load_levels SET estimate_details = '{}' WHERE run_id = 'e1-fp8'",
        "UPDATE load_levels SET parts_ms = '{bad' WHERE run_id = 'e1-fp8'",
        "UPDATE runs SET server_facts = '{bad' WHERE id = 'e1-fp8'",
        "UPDATE answers SET text = CAST(x'ff' AS TEXT) WHERE run_id = 'e1-fp8'",
        "UPDATE load_blocks SET duration_s = x'ff' WHERE run_id = 'e1-fp8'",
    ],
)
def test_evidence_that_can_not_be_read_hides_no_other_finding(filled: sessionmaker[Session], statement: str) -> None:
    """Postgres takes no value of another type, so there only those are tried that are of the column's."""
    decided()
    decided(title="Again")
    if filled.kw["bind"].dialect.name == "postgresql" and ("{bad" in statement or "x'ff'" in statement):
        return
    with filled.begin() as session:
        session.execute(sa.text(statement))
        session.execute(sa.text("UPDATE answers SET passed = NOT passed WHERE run_id = 'e1-slow'"))
        session.execute(sa.text("UPDATE experiments SET spec = '{}'"))
    assert problems() == [
        (f"record {number}", sentence)
        for number in (1, 2)
        for sentence in (
            "the experiment's stored specification is not the one that was decided on.",
            "run e1-fp8 of fp8 has evidence that can't be read any more.",
            "what run e1-slow of slow stored is not what was decided on: its evidence was changed.",
        )
    ]
    assert problems(evidence=False) == []


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


def test_what_was_hashed_before_is_taken_as_it_was_only_where_that_is_asked_for(
    filled: sessionmaker[Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    decided()
    with monkeypatch.context() as patch:
        patch.setattr(evidence_hashes, "run_hash", lambda *_: pytest.fail("hashed again"))
        draft = a_draft()
        assert decide.as_it_would_read(draft).document.options[1].evidence[0].run_id == "e1-fp8"
        assert [found.ok for found in records.verify_stored(anew=False)] == [True]
    with filled.begin() as session:
        session.execute(sa.text("UPDATE answers SET passed = NOT passed WHERE run_id = 'e1-slow'"))
    assert [found.ok for found in records.verify_stored(anew=False)] == [True]
    assert [found.ok for found in records.verify_stored()] == [False]
    with filled.begin() as session, going_on(session, "e1-slow"):
        results.store_level(session, "e1-slow", LEVELS[0])  # as KiteDash stores: the revision grows
    assert [found.ok for found in records.verify_stored(anew=False)] == [False]


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


def test_changed_requests_and_a_changed_specification_are_found(filled: sessionmaker[Session]) -> None:
    decided()
    with filled.begin() as session:
        session.execute(
            sa.text("UPDATE load_blocks SET requests_blob = :blob WHERE run_id = 'e1-fp8' AND rate_per_s = 2"),
            {"blob": b"other requests"},
        )
        session.execute(sa.text("UPDATE experiments SET spec = '{}'"))
    sentences = [sentence for _, sentence in problems()]
    assert sentences[0] == "the experiment's stored specification is not the one that was decided on."
    assert "e1-fp8" in sentences[1]
    assert len(sentences) == 2


def test_evidence_has_the_same_hash_whatever_order_it_was_stored_in(store: sessionmaker[Session]) -> None:
    store_experiment(store, only=1)
    ids = ["b", "A", "a", "_", "Z", "ä", "B-1", "b 1"]  # ordered differently by the databases' collations
    hashes = set()
    for order in (ids, ids[::-1], sorted(ids)):
        answers = tuple(Answer(one, "file", "qa", "text", "stop", 0.1 + 0.2, False) for one in order)
        with store.begin() as session:
            with going_on(session, "e1-float32"):
                results.store_suite(session, "e1-float32", SuiteResult("kitedash_repo", "repository", "v1", answers))
            hashes.add(run_hash(session, "e1-float32"))
    # The same on SQLite and on Postgres: a change of this value is a new format (docs/records.md).
    assert hashes == {"9d2b3dce62f743704c9f306588a71c0726ae34d3503f7c224d74a06812b80033"}


def test_the_hash_of_evidence_is_the_one_that_the_documentation_defines(store: sessionmaker[Session]) -> None:
    """Worked out from the tables with Python's own json alone, as somebody else would."""
    store_experiment(store, only=1)

    def rows(table: str, order: str) -> list[dict[str, Any]]:
        with store() as session:
            return [dict(row) for row in session.execute(sa.text(f"SELECT * FROM {table} ORDER BY {order}")).mappings()]

    def picked(row: dict[str, Any], names: str) -> dict[str, Any]:
        return {name: fraction(row[name]) for name in names.split()}

    def fraction(value: Any) -> Any:
        return repr(value) if isinstance(value, float) else value  # none here is so small or large as to need more

    def of_json(value: Any) -> Any:
        value = json.loads(value, parse_float=str) if isinstance(value, str) else value
        return {key: of_json(one) if isinstance(one, dict) else fraction(one) for key, one in value.items()}

    def level(row: dict[str, Any]) -> dict[str, Any]:
        details = json.loads(row["estimate_details"]) if isinstance(row["estimate_details"], str) else None
        plain = (
            "rate_per_s status reason blocks n_requests n_failed error_rate delivered_rate_per_s output_tokens_per_s"
        )
        found = picked(row, f"{plain} prefix_hit_rate running_max") | {"parts_ms": of_json(row["parts_ms"])}
        for name in ("ttft_p50", "ttft_p90", "ttft_p99", "tpot_p50", "tpot_p90", "tpot_p99", "e2e_p90"):
            found[f"{name}_ms"] = {
                "value": fraction(row[f"{name}_ms"]),
                "low": fraction(row[f"{name}_low_ms"]),
                "high": fraction(row[f"{name}_high_ms"]),
                **(details or row["estimate_details"])[f"{name}_ms"],  # n, note and more
            }
        return found

    (run,) = rows("runs", "id")
    answers = "item_id cluster kind text reference finish_reason score error prompt_sha256 tokens_out"
    evidence = {
        "run_id": "e1-float32",
        **picked(run, "experiment_id candidate_name repeat retry_of status error"),
        "is_baseline": bool(run["is_baseline"]),
        "candidate": of_json(run["candidate"]),
        "server_facts": of_json(run["server_facts"]),
        "blocks": [
            picked(row, "rate_per_s block seed status reason n_requests n_failed duration_s schedule_sha256")
            | {"requests_sha256": hashlib.sha256(bytes(row["requests_blob"])).hexdigest()}
            for row in rows("load_blocks", "rate_per_s, block")
        ],
        "levels": [level(row) for row in rows("load_levels", "rate_per_s")],
        "suites": [
            picked(suite, "name role version chance n_items n_passed n_truncated n_failed")
            | {
                "answers": [
                    picked(row, answers) | {"passed": bool(row["passed"])}
                    for row in rows("answers", "item_id")
                    if row["suite"] == suite["name"]
                ]
            }
            for suite in rows("suites", "name")
        ],
    }
    text = json.dumps(evidence, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    with store() as session:
        assert run_hash(session, "e1-float32") == hashlib.sha256(text.encode()).hexdigest()


def test_an_unknown_run_has_no_hash(store: sessionmaker[Session]) -> None:
    with store() as session, pytest.raises(NotFound):
        run_hash(session, "nowhere")


# --- verifying exports


@pytest.mark.usefixtures("filled")
def test_an_untouched_export_agrees_here_and_with_itself_elsewhere(url: str) -> None:
    decided()
    for name, data in (("r.json", records.export_json(1)), ("r.md", records.export_markdown(1).encode())):
        found = records.verify_export(name, data)
        assert (found.what, found.ok) == (f"record 1 ({name})", True)
        assert found.sentence == "It agrees with its own hash and with the record stored here."
    kept = records.export_json(1), records.export_markdown(1).encode()
    decided(supersedes=1)
    for name, data in zip(("r.json", "r.md"), kept, strict=True):
        found = records.verify_export(name, data)
        assert found.ok
        assert found.sentence.endswith("Record 2 supersedes it.")
    assert records.verify_export("r.md", records.export_markdown(1).encode()).ok
    forge(url, "UPDATE decision_drafts SET accepted_number = NULL")
    forge(url, "DELETE FROM decision_records WHERE number = 2")
    forge(url, "DELETE FROM decision_records")
    for name, data in zip(("r.json", "r.md"), kept, strict=True):
        found = records.verify_export(name, data)
        assert (found.what, found.ok) == (f"record 1 ({name})", True)
        assert "no such record to compare it with" in found.sentence
        changed = data.replace(b"the fastest", b"the slowest")
        assert changed != data
        found = records.verify_export(name, changed)
        assert (found.what, found.ok) == (f"record 1 ({name})", False)
        assert found.sentence.startswith("It was changed")


@pytest.mark.usefixtures("filled")
def test_a_changed_field_of_an_export_is_named() -> None:
    decided()
    data = records.export_json(1)
    found = records.verify_export("r.json", data.replace(b'"value":"600.0"', b'"value":"500.0"', 1))
    assert (found.what, found.ok) == ("record 1 (r.json)", False)
    assert found.sentence.startswith("It was changed: the first difference is document.options[0].gives_up[0].chosen.")
    assert "'500.0' here and '600.0' stored" in found.sentence
    markdown = records.export_markdown(1)
    found = records.verify_export("r.md", markdown.replace("600 ms", "500 ms", 1).encode())
    line = next(i for i, text in enumerate(markdown.splitlines(), start=1) if "600 ms" in text)
    assert found.sentence.startswith(f"It was changed: the first difference is line {line} (Considered Options), ")


@pytest.mark.usefixtures("filled")
def test_an_export_of_another_database_is_not_the_record_here() -> None:
    decided()
    document = json.loads(records.export_json(1))["document"]
    document["title"] = "Another"
    text = record_check.written(document)
    found = records.verify_export("r.json", record_check.envelope(text, sha256_of(text)))
    assert not found.ok
    assert found.sentence == (
        "It agrees with itself, but is not the record stored here: the first difference is document.title, "
        "'Another' here and 'Serve fp8' stored."
    )


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("r.json", b""),
        ("r.json", b"\xff\xfe\x00"),
        ("r.json", b"{}"),
        ("r.json", b"[]"),
        ("r.json", b'{"document":{},"sha256":1}'),
        ("r.json", b'{"document":{"number":99999999999999999999},"sha256":"\\ud800"}'),
        ("r.json", b'{"document":{},"document":{},"sha256":""}'),
        ("r.json", b"[" * 1_000_000),
        ("r.json", b" " * 8_000_001),
        ("r.json", b'{"document":{"number":1},"sha256":"\\u0000"}'),
        ("r.json", b'{"document":{"number":100000000000000000000},"sha256":"' + b"0" * 64 + b'"}'),
        ("r.md", b'---\nsha256: "\\0"\nnumber: 1\n---\n'),
        ("r.md", b""),
        ("r.md", b"---\n"),
        ("r.md", b"---\nnumber: 1\n---\n"),
        ("r.md", b"---\nnumber: [*a]\n---\n"),
        ("r.md", b"---\nsha256: 5\nnumber: true\n---\n"),
        ("r.md", b"---\n\xff\n---\n"),
        ("r.md", b"---\n" + b"a: [" * 5_000 + b"\n---\n"),
        ("r.md", b"# no front matter\n"),
    ],
    ids=lambda value: str(value)[:24],
)
@pytest.mark.usefixtures("store")
def test_any_file_is_one_sentence(name: str, data: bytes) -> None:
    found = records.verify_export(name, data)
    assert not found.ok
    assert found.sentence.endswith(".")
    assert "\n" not in found.sentence


@pytest.mark.usefixtures("filled")
def test_a_changed_byte_of_a_markdown_export_is_found_wherever_it_is() -> None:
    decided()
    data = records.export_markdown(1).encode()
    for at in range(0, len(data), 101):
        changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        found = records.verify_export("r.md", changed)
        assert not found.ok, (at, found)
