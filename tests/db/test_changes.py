"""The token by which a page notices that something was stored elsewhere."""

from __future__ import annotations

import pytest
from sqlalchemy.orm import Session, sessionmaker

from db import changes, runs, stages
from tests.db.rows import NOON, stored_runs

pytestmark = pytest.mark.database


def token(store: sessionmaker[Session], experiment_id: str | None = "e1") -> str:
    with store() as session:
        return changes.token(session, experiment_id)


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
