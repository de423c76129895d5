"""What estimates of a run's time rest on: stages that went through at once, of runs whose engine was ready."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy.orm import Session, sessionmaker

from db import history, results, runs
from kitedash.domain.results import BlockResult, LevelStatus
from kitedash.domain.run_time import PastRun, RunKind
from tests.db.rows import NOON, stored_runs
from tests.ui.builders import facts

pytestmark = pytest.mark.database


def test_the_recent_runs_are_read_with_what_they_took(store: sessionmaker[Session]) -> None:
    stored_runs(store, "one", "two", "never ready", "queued")
    with store.begin() as session:
        for minutes, run_id in enumerate(("one", "two", "never ready")):
            runs.begin(session, run_id, "w", NOON + timedelta(minutes=minutes))
        runs.set_facts(session, "one", replace(facts(), device_name="a processor", start_up_s=31.5))
        runs.set_facts(session, "two", replace(facts(), device_name="a processor", start_up_s=float("inf")))
        runs.stage_begin(session, "one", "load", 1, 6, NOON)
        runs.stage_finish(session, "one", "load", NOON + timedelta(seconds=90))
        runs.stage_begin(session, "one", "prepare", 0, 1, NOON)
        runs.stage_begin(session, "one", "prepare", 0, 1, NOON)  # begun again: says nothing of how long it takes
        runs.stage_finish(session, "one", "prepare", NOON + timedelta(seconds=5))
        runs.stage_begin(session, "one", "quality:kitedash_repo", 2, 1, NOON)  # not over
        for number in range(4):
            block = BlockResult(1.0, number, 1, LevelStatus.OK, "", (), 10, 0, 12.5, "0" * 64, b"")
            results.store_block(session, "one", block, NOON)
    with store() as session:
        found = history.recent(session)
        assert found == (
            PastRun(RunKind("m", "model's own", "a processor"), {}, None),
            PastRun(RunKind("m", "model's own", "a processor"), {"load": 90.0}, 31.5, 4, 6, 50.0),
        )
        assert found[1].block_extra_s == (90 - 31.5 - 50) / 4
        assert found[1].measured_share == 4 / 6
        assert history.recent(session, limit=1) == found[:1]  # the last begun
