"""The token by which a page notices that something was stored elsewhere."""

from __future__ import annotations

import pytest
from sqlalchemy.orm import Session, sessionmaker

from db import changes, runs, stages
from tests.db.rows import NOON, stored_runs

pytestmark = pytest.mark.database


def token(store: sessionmaker[Session], experiment_id: str | None = "e1", *, progress: bool = False) -> str:
    with store() as session:
        return changes.token(session, experiment_id, progress=progress)


def test_it_changes_with_what_this_experiment_stores_and_with_runs_anywhere(store: sessionmaker[Session]) -> None:
    seen = [token(store)]
    stored_runs(store, "a", "b")
    seen.append(token(store))
    with store.begin() as session:
        runs.begin(session, "a", "h:cpu", NOON)
    seen.append(token(store))
    with store.begin() as session:
        stages.stage_begin(session, "a", "load", 1, 18, NOON)
    seen.append(token(store))
    stored_runs(store, "x", experiment_id="e2")  # launched elsewhere
    seen.append(token(store))
    with store.begin() as session:
        runs.begin(session, "x", "h:cpu", NOON)
    seen.append(token(store))
    assert len(set(seen)) == len(seen)


def test_it_stays_while_nothing_of_this_experiment_is_stored(store: sessionmaker[Session]) -> None:
    stored_runs(store, "a")
    stored_runs(store, "x", experiment_id="e2")
    with store.begin() as session:
        runs.begin(session, "x", "h:cpu", NOON)
    before, of_the_other, of_none = token(store), token(store, "e2"), token(store, None)
    assert token(store) == before
    with store.begin() as session:
        stages.stage_begin(session, "x", "load", 1, 18, NOON)  # progress of another experiment
    assert token(store) == before
    assert token(store, None) == of_none
    assert token(store, "e2") != of_the_other


def test_progress_of_a_stage_changes_it_only_where_it_is_asked_for(store: sessionmaker[Session]) -> None:
    stored_runs(store, "a")
    stored_runs(store, "x", experiment_id="e2")
    with store.begin() as session:
        for run_id in ("a", "x"):
            runs.begin(session, run_id, f"h:{run_id}", NOON)
            stages.stage_begin(session, run_id, "quality:s", 1, 18, NOON)
    rests, with_progress = token(store), token(store, progress=True)
    with store.begin() as session:
        stages.stage_advance(session, "x", "quality:s", 1, 18, "item 2 of 18")
    assert token(store, progress=True) == with_progress  # of another experiment
    with store.begin() as session:
        stages.stage_advance(session, "a", "quality:s", 0, 18, "item 1 of 18")
    assert token(store) == rests
    assert token(store, progress=True) != with_progress
    with store.begin() as session:
        stages.stage_finish(session, "a", "quality:s", NOON)
    assert token(store) != rests


@pytest.mark.parametrize("experiment_id", ["a\0b", "a\x1bb", "\ud800"])
def test_an_id_that_none_can_be_is_of_no_experiment(store: sessionmaker[Session], experiment_id: str) -> None:
    stored_runs(store, "a")
    assert token(store, experiment_id, progress=True) == token(store, None, progress=True)
