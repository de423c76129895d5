"""Accepting on both databases: numbers without a gap, what was looked at is what is frozen, rows that stay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session, sessionmaker

from db import results, runs
from db.models import DecisionRecord
from kitedash.domain.canonical_json import sha256_of
from kitedash.domain.errors import InvalidInput, Refused
from kitedash.domain.experiment import Candidate
from kitedash.services import decide, records
from tests.db.at_once import at_once
from tests.db.decided import ENGINEER, PRICES, a_draft, accepted, decided, store_experiment
from tests.db.decisions.forging import problems
from tests.db.rows import NOON
from tests.unit.services.decisions import WRITTEN
from tests.unit.services.evidence import LEVELS, SPEC

pytestmark = pytest.mark.database


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
