"""A suite's answers beside the baseline's, and the prompt: only ever the one that was asked."""

from __future__ import annotations

import hashlib

import pytest
from sqlalchemy.orm import Session, sessionmaker

from db import results
from evals import hellaswag_100, registry
from kitedash.domain.results import Answer, SuiteResult
from kitedash.services.answers import asked, suite_answers
from tests.db.rows import stored_runs
from tests.db.test_results import an_answer

pytestmark = pytest.mark.database
Store = sessionmaker[Session]
SUITE = "kitedash_repo"


def store_suite(store: Store, run_id: str, *answers: Answer, version: str = "v1") -> None:
    with store.begin() as session:
        results.store_suite(session, run_id, SuiteResult(SUITE, "repository", version, answers, 0.1))


def wrong(item_id: str, **changes: object) -> Answer:
    return an_answer(item_id, passed=False, score=0.0, **changes)


@pytest.fixture
def both(store: Store) -> Store:
    stored_runs(store, "baseline", "other")
    store_suite(store, "baseline", an_answer("a"), an_answer("b"), wrong("c"), wrong("d"))
    mine = (
        an_answer("a"),
        wrong("b", finish_reason="length"),
        an_answer("c", text="mine"),
        wrong("d", error="HTTP 500"),
        wrong("e"),
    )
    store_suite(store, "other", *mine)
    return store


def test_each_answer_has_its_outcome_and_its_change(both: Store) -> None:
    with both() as session:
        found = suite_answers(session, "other", SUITE, baseline_run_ids=["baseline"])
    assert found is not None
    assert [(item.item_id, item.outcome, item.against_baseline) for item in found.items] == [
        ("a", "passed", "both pass"),
        ("b", "cut off", "broken"),
        ("c", "passed", "fixed"),
        ("d", "error", "both fail"),
        ("e", "failed", ""),  # the baseline was not asked it
    ]
    assert (found.note, found.baseline_run_id, found.chosen) == ("", "baseline", None)


def test_the_chosen_answer_comes_with_the_baselines(both: Store) -> None:
    with both() as session:
        found = suite_answers(session, "other", SUITE, baseline_run_ids=["baseline"], item_id="c")
        gone = suite_answers(session, "other", SUITE, baseline_run_ids=["baseline"], item_id="none-such")
        alone = suite_answers(session, "other", SUITE, baseline_run_ids=["baseline"], item_id="e")
    assert found is not None
    assert found.chosen is not None
    assert (found.chosen.answer.text, found.chosen.outcome) == ("mine", "passed")
    assert found.chosen.baseline == wrong("c")
    assert found.chosen.baseline_outcome == "failed"
    assert gone is not None
    assert gone.chosen is None
    assert alone is not None
    assert alone.chosen is not None
    assert alone.chosen.baseline is None


def test_why_nothing_is_compared(store: Store) -> None:
    stored_runs(store, "baseline", "other")
    store_suite(store, "other", an_answer("a"))
    with store() as session:
        assert suite_answers(session, "baseline", SUITE, baseline_run_ids=[]) is None
        early = suite_answers(session, "other", SUITE, baseline_run_ids=["baseline"])
        own = suite_answers(session, "other", SUITE, baseline_run_ids=[])
    store_suite(store, "baseline", an_answer("a"), version="v2")
    with store() as session:
        outdated = suite_answers(session, "other", SUITE, baseline_run_ids=["baseline"], item_id="a")
    assert early is not None
    assert "has not answered this suite" in early.note
    assert own is not None
    assert own.note.startswith("This is the baseline")
    assert outdated is not None
    assert outdated.note == "The baseline answered version v2 of the suite, this run v1."
    assert [item.against_baseline for item in outdated.items] == [""]
    assert outdated.chosen is not None
    assert outdated.chosen.baseline is None


def test_the_baselines_second_run_counts_where_the_first_has_no_answers(store: Store) -> None:
    stored_runs(store, "first", "second", "other")
    store_suite(store, "second", wrong("a"))
    store_suite(store, "other", an_answer("a"))
    with store() as session:
        found = suite_answers(session, "other", SUITE, baseline_run_ids=["first", "second"])
    assert found is not None
    assert found.baseline_run_id == "second"
    assert found.items[0].against_baseline == "fixed"


def test_the_prompt_is_shown_where_version_and_hash_are_those_of_the_suite() -> None:
    suite, item = registry.suite(SUITE), registry.repository_items(SUITE)[0]
    found = asked(SUITE, suite.version, item.id, item.prompt_sha256)
    assert found.parts == tuple((message.role, message.content) for message in item.messages)
    assert found.note == ""


def test_the_public_suites_prompt_is_the_context_and_its_endings() -> None:
    suite, row = registry.suite(hellaswag_100.NAME), hellaswag_100.rows()[0]
    # What lm-eval stored for this item in a real run: the hash of the context.
    sha256 = hashlib.sha256(row.query.encode()).hexdigest()
    found = asked(hellaswag_100.NAME, suite.version, row.id, sha256)
    assert found.parts[0] == ("context", row.query)
    assert [text for _, text in found.parts[1:]] == list(row.choices)


@pytest.mark.parametrize("broken", ["version", "hash", "item", "suite"])
def test_another_prompt_is_never_shown(broken: str) -> None:
    suite, item = registry.suite(SUITE), registry.repository_items(SUITE)[0]
    found = asked(
        "no_such_suite" if broken == "suite" else SUITE,
        "0" * 64 if broken == "version" else suite.version,
        "no-such-item" if broken == "item" else item.id,
        "f" * 64 if broken == "hash" else item.prompt_sha256,
    )
    assert found.parts == ()
    assert "is not stored, only its SHA-256" in found.note
    assert {"version": "0" * 8, "suite": "is no suite"}.get(broken, "has another one") in found.note
