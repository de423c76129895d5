"""Verifying the evidence of a database's records: a changed number is found, and its run named."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session, sessionmaker

from db import results
from kitedash.domain.errors import NotFound
from kitedash.domain.results import Answer, SuiteResult
from kitedash.services import decide, evidence_hashes, records
from kitedash.services.evidence_hashes import run_hash
from tests.db.decided import a_draft, decided, store_experiment
from tests.db.decisions.forging import problems
from tests.db.rows import going_on
from tests.unit.services.evidence import LEVELS

pytestmark = pytest.mark.database


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
