"""A run that replays a trace: the worker takes its content from the database."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from db import engine, results, traces
from kitedash.domain.trace import Trace, TraceRow
from kitedash.measuring.request_table import decode
from tests.worker.conftest import SPEC, Home

pytestmark = pytest.mark.worker
WORKLOAD = {"users": 1, "trace": "monday", "shared_prefix_tokens": 32}
# Sixteen requests in two seconds, so 8/s: the second of the rates is its own.
LOAD = {**SPEC["load"], "rates_per_s": [4, 8, 9]}
TRACE = Trace(tuple(TraceRow(at / 8, 90 + at, 1 + at % 4) for at in range(16)))


def test_a_worker_replays_a_stored_trace_window_by_window(home: Home) -> None:
    with engine.sessions(home.url).begin() as session:
        traces.add(session, "monday", TRACE, imported_by="a test", now=datetime.now(UTC))
    run_id = home.queue_run(workload=WORKLOAD, load=LOAD)
    home.start_worker()
    home.wait_for_status(run_id, "finished", "failed", "cancelled")
    assert (home.run(run_id).status, home.run(run_id).error) == ("finished", "")
    with home.session() as session:
        first, second = (decode(block.requests_blob) for block in results.blocks(session, run_id, rate_per_s=8.0))
    assert first["planned_s"].tolist() == [row.arrival_s for row in TRACE.rows[:8]]
    assert second["planned_s"].to_numpy() == pytest.approx([row.arrival_s - 1 for row in TRACE.rows[8:]])
    assert [*first["tokens_in_expected"], *second["tokens_in_expected"]] == [row.tokens_in for row in TRACE.rows]
    assert {*first["kind"], *second["kind"]} == {"replayed"}


def test_a_run_whose_trace_is_gone_says_so(home: Home) -> None:
    run_id = home.queue_run(workload=WORKLOAD, load=LOAD)
    home.start_worker()
    assert home.wait_for_status(run_id, "finished", "failed", "cancelled") == "failed"
    assert home.run(run_id).error == "No trace has the name 'monday'."
