"""Results come back as they were, each is there once however often it was stored, and writers wait for each other."""

from __future__ import annotations

import dataclasses
import hashlib
import threading
from collections.abc import Callable
from typing import get_type_hints

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session, sessionmaker

from db import results, runs
from db.models import Answer as AnswerRow
from db.models import LoadBlock, Run
from kitedash.domain.errors import NotFound
from kitedash.domain.results import Answer, BlockResult, Check, Estimate, LevelStatus, LevelSummary, SuiteResult
from tests.db.rows import NOON, stored_runs
from tests.ui.builders import facts

pytestmark = pytest.mark.database
Store = sessionmaker[Session]


def a_block(rate_per_s: float = 0.1 + 0.2, block: int = 0, **changes: object) -> BlockResult:
    values: dict[str, object] = {
        "rate_per_s": rate_per_s,
        "block": block,
        "seed": 2**31 - 1,
        "status": LevelStatus.INVALID,
        "reason": "the hit rate is 40 %, 95 % was intended",
        "checks": (
            Check("hit_rate", 0.4, 0.93, 1.0, False, "low"),
            Check("late", float("inf"), None, 5.0, False),
            Check("x", None, None, None, True),
        ),
        "n_requests": 31,
        "n_failed": 2,
        "duration_s": 30.25,
        "schedule_sha256": "cd" * 32,
        "requests_blob": bytes(range(256)) * 4_000,  # a megabyte with every byte in it
        "server_counters": {"vllm:prompt_tokens_total": 12_345.0, "worst": float("inf")},
    }
    return BlockResult(**(values | changes))  # type: ignore[arg-type]


def a_level(rate_per_s: float = 2.0) -> LevelSummary:
    """Every estimate differs from the others, so that a mixed-up column is seen."""
    hints = get_type_hints(LevelSummary)
    estimates = {
        field.name: Estimate(100.0 * i, 100.0 * i - 1, 100.0 * i + 2, 10 + i, f"note {i}")
        for i, field in enumerate(dataclasses.fields(LevelSummary))
        if hints[field.name] is Estimate
    }
    assert len(estimates) == 7
    estimates["ttft_p99_ms"] = Estimate(None, None, None, 31, "too few: 300 requests would do")
    estimates["ttft_p90_ms"] = Estimate(float("inf"), 900.0, float("inf"), 31, "x" * 300)
    return LevelSummary(
        rate_per_s=rate_per_s,
        status=LevelStatus.OVERLOADED,
        reason="the queue grows",
        blocks=6,
        n_requests=180,
        n_failed=1,
        error_rate=1 / 180,
        delivered_rate_per_s=1.98,
        output_tokens_per_s=39.5,
        prefix_hit_rate=None,
        running_max=4.0,
        parts_ms={"client": 0.1, "front_end": -0.5, "queue": 300.0, "prefill": 80.0, "decode": 900.0},
        **estimates,
    )


def a_suite(*answers: Answer, version: str = "v1") -> SuiteResult:
    return SuiteResult("repository", "repository", version, answers, chance=0.25)


def an_answer(item_id: str, **changes: object) -> Answer:
    values: dict[str, object] = {
        "item_id": item_id,
        "cluster": "db/engine.py",
        "kind": "completion",
        "text": "return 1",
        "finish_reason": "stop",
        "score": 1.0,
        "passed": True,
        "error": "",
        "prompt_sha256": "ef" * 32,
        "reference": "return 1",
        "tokens_out": 3,
    }
    return Answer(**(values | changes))  # type: ignore[arg-type]


def test_a_block_comes_back_byte_for_byte(store: Store) -> None:
    stored_runs(store, "r1")
    with store.begin() as session:
        results.store_block(session, "r1", a_block(), NOON)
    with store() as session:
        (stored,) = results.blocks(session, "r1")
    assert stored == a_block()
    assert hashlib.sha256(stored.requests_blob).digest() == hashlib.sha256(bytes(range(256)) * 4_000).digest()


def test_storing_twice_leaves_one_row_with_the_later_values(store: Store) -> None:
    stored_runs(store, "r1")
    for status in (LevelStatus.INVALID, LevelStatus.OK):
        with store.begin() as session:
            results.store_block(session, "r1", a_block(status=status, requests_blob=status.encode()), NOON)
            results.store_level(session, "r1", dataclasses.replace(a_level(), status=status))
            results.store_suite(session, "r1", a_suite(an_answer("i1")), NOON)
    with store() as session:
        (block,) = results.blocks(session, "r1")
        (level,) = results.levels(session, "r1")
        assert (block.status, block.requests_blob, level.status) == (LevelStatus.OK, b"ok", LevelStatus.OK)
        assert session.scalar(sa.select(sa.func.count()).select_from(AnswerRow)) == 1
        assert runs.get(session, "r1").revision == 6


def test_blocks_are_sorted_and_can_be_asked_for_by_rate_without_their_blobs(store: Store) -> None:
    stored_runs(store, "r1", "r2")
    with store.begin() as session:
        for rate_per_s, block in ((2.0, 1), (0.1 + 0.2, 0), (2.0, 0)):
            results.store_block(session, "r1", a_block(rate_per_s, block), NOON)
    with store() as session:
        assert [(b.rate_per_s, b.block) for b in results.blocks(session, "r1")] == [(0.1 + 0.2, 0), (2.0, 0), (2.0, 1)]
        assert [b.block for b in results.blocks(session, "r1", rate_per_s=2.0)] == [0, 1]
        assert results.stored_blocks(session, "r1") == {(0.1 + 0.2, 0), (2.0, 0), (2.0, 1)}
        assert results.blocks(session, "r2") == []


def test_a_level_comes_back_with_every_estimate_in_its_place(store: Store) -> None:
    stored_runs(store, "r1")
    with store.begin() as session:
        results.store_level(session, "r1", a_level(3.0))
        results.store_level(session, "r1", a_level(2.0))
    with store() as session:
        assert results.levels(session, "r1") == [a_level(2.0), a_level(3.0)]


def test_a_suite_is_counted_and_its_answers_come_back(store: Store) -> None:
    stored_runs(store, "r1")
    answers = (
        an_answer("i1"),
        an_answer("i2", passed=False, finish_reason="length", score=0.0),
        an_answer("i3", passed=False, error="timed out", tokens_out=None, finish_reason="error" * 20),
    )
    with store.begin() as session:
        results.store_suite(session, "r1", a_suite(*answers), NOON)
    with store() as session:
        (row,) = results.suites(session, "r1")
        assert (row.n_items, row.n_passed, row.n_truncated, row.n_failed, row.chance) == (3, 1, 1, 1, 0.25)
        stored = results.answers(session, "r1", "repository")
        assert tuple(stored[:2]) == answers[:2]
        assert stored[2].finish_reason == ("error" * 20)[:40]
        assert not results.answers(session, "r1", "hellaswag_100")


def test_answers_of_another_version_of_a_suite_do_not_linger(store: Store) -> None:
    stored_runs(store, "r1")
    with store.begin() as session:
        results.store_suite(session, "r1", a_suite(an_answer("old"), an_answer("kept")), NOON)
        results.store_suite(session, "r1", a_suite(an_answer("kept"), version="v2"), NOON)
        assert [answer.item_id for answer in results.answers(session, "r1", "repository")] == ["kept"]


def test_text_that_a_database_cannot_hold_is_marked_and_not_lost(store: Store) -> None:
    stored_runs(store, "r1")
    with store.begin() as session:
        results.store_suite(session, "r1", a_suite(an_answer("i1", text="a\0b\ud83d \U0001f600")), NOON)
        assert results.answers(session, "r1", "repository")[0].text == "a\ufffdb? \U0001f600"


def test_a_result_of_a_run_that_is_not_stored_is_refused(store: Store) -> None:
    with store() as session, pytest.raises(NotFound, match="r9"):
        results.store_block(session, "r9", a_block())


@pytest.mark.parametrize("end", [runs.finish, runs.cancel, lambda session, run_id: runs.fail(session, run_id, "why")])
def test_a_run_that_is_over_stores_no_result_and_no_stage(store: Store, end: Callable[[Session, str], bool]) -> None:
    stored_runs(store, "r1")
    with store.begin() as session:
        runs.begin(session, "r1", "w", NOON)
        runs.stage_begin(session, "r1", "load", 0)
        results.store_block(session, "r1", a_block())
        assert end(session, "r1")
    writes: tuple[Callable[[Session], None], ...] = (
        lambda session: results.store_block(session, "r1", a_block(n_failed=0)),
        lambda session: results.store_block(session, "r1", a_block(block=1)),
        lambda session: results.store_level(session, "r1", a_level()),
        lambda session: results.store_suite(session, "r1", a_suite(an_answer("i1"))),
        lambda session: runs.stage_begin(session, "r1", "quality", 1),
        lambda session: runs.stage_finish(session, "r1", "load"),
        lambda session: runs.set_facts(session, "r1", facts()),
    )
    with store() as session:
        before = runs.get(session, "r1").revision
    for write in writes:
        with (
            pytest.raises(runs.RunEndedError, match=r"Run r1 is already (finished|failed|cancelled)\."),
            store.begin() as session,
        ):
            write(session)
    with store() as session:
        assert results.blocks(session, "r1") == [a_block()]
        assert results.levels(session, "r1") == []
        assert results.suites(session, "r1") == []
        assert runs.get(session, "r1").revision == before


def test_a_rolled_back_store_leaves_nothing(store: Store) -> None:
    stored_runs(store, "r1")
    with store() as session:
        results.store_block(session, "r1", a_block())
        session.rollback()
    with store() as session:
        assert results.stored_blocks(session, "r1") == set()
        assert runs.get(session, "r1").revision == 0


def test_two_writers_at_once_lose_nothing(store: Store) -> None:
    """Each reads before it writes, as a stage does, and waits for the other instead of failing."""
    stored_runs(store, "r1")
    n, failed = 40, []

    def write(first: int) -> None:
        try:
            for block in range(first, first + n):
                with store.begin() as session:
                    runs.get(session, "r1")
                    results.store_block(session, "r1", a_block(2.0, block, requests_blob=b"x" * 10_000))
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(first,)) for first in (0, 1_000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with store() as session:
        assert failed == []
        assert session.scalar(sa.select(sa.func.count()).select_from(LoadBlock)) == 2 * n
        assert session.scalar(sa.select(Run.revision)) == 2 * n  # no lost update
