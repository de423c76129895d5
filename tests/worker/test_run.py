"""A run from the queue to its end, on the scripted engine."""

from __future__ import annotations

import pytest

from db import results, runs
from tests.worker.conftest import Home

pytestmark = pytest.mark.worker


def test_a_queued_run_is_measured_stored_and_leaves_no_process(home: Home) -> None:
    run_id = home.queue_run()
    home.start_worker()
    home.wait_for_status(run_id, "finished", "failed", "cancelled")
    run = home.run(run_id)
    assert (run.status, run.error, run.attempts) == ("finished", "", 1)
    assert {name: (stage.status, stage.executions) for name, stage in home.stages(run_id).items()} == {
        "prepare": ("finished", 1),
        "load": ("finished", 1),
    }
    with home.session() as session:
        assert results.stored_blocks(session, run_id) == {(rate, block) for rate in (5.0, 6.0, 7.0) for block in (0, 1)}
        assert [level.rate_per_s for level in results.levels(session, run_id)] == [5.0, 6.0, 7.0]
        facts = runs.facts_of(runs.get(session, run_id))
    assert facts is not None
    assert facts.vllm_version == "0.32.0"
    assert facts.kv_cache_tokens == 93_184
    assert facts.device_kind == "cpu"
    assert not any("KEY" in name for name in facts.environment)
    home.wait_until(lambda: not home.children(), "no process left", 5)
