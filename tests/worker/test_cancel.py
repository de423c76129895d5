"""Cancel in each stage: the whole tree is gone within five seconds, the run is cancelled, the next one goes on."""

from __future__ import annotations

import pytest

from kitedash.running import queue
from tests.worker.conftest import Home
from tests.worker.processes import is_alive

pytestmark = pytest.mark.worker
LIMIT_S = 5.0


def _runs(home: Home, program: str) -> bool:
    return any(program in part for process in home.children() for part in process.cmdline())


def test_cancel_in_each_stage_and_in_the_queue(home: Home) -> None:
    in_prepare = home.queue_run({"quantization": "int8"})
    in_load = home.queue_run()
    in_quality = home.queue_run(finished=("prepare", "load"), suites=[{"name": "hellaswag_100"}])
    in_queue = home.queue_run()
    home.start_worker({"ignore_terminate": True, "child_processes": 2})
    queue.cancel(home.url, in_queue)

    for run_id, stage, child in (
        (in_prepare, "prepare", "kitedash.measuring.quantize"),
        (in_load, "load", "kitedash.measuring.load_client"),
        (in_quality, "quality:hellaswag_100", "lm_eval"),
    ):
        home.wait_for_stage(run_id, stage)
        home.wait_until(lambda name=child: _runs(home, name), f"{child} to run")
        tree = home.children()
        queue.cancel(home.url, run_id)
        home.wait_until(lambda gone=tree: not any(map(is_alive, gone)), f"the tree of {stage} to be gone", LIMIT_S)
        home.wait_until(lambda over=run_id: home.run(over).status == "cancelled", f"cancelled in {stage}", LIMIT_S)
        assert home.stages(run_id)[stage].status == "failed"
    assert home.stages(in_queue) == {}
    assert not (home.data_dir / "work" / in_load).exists()


def test_a_run_cancelled_while_no_worker_lived_is_settled_by_the_next(home: Home) -> None:
    run_id = home.queue_run()
    worker = home.start_worker()
    home.wait_for_stage(run_id, "load", done=1)
    worker.kill()
    worker.wait()
    queue.cancel(home.url, run_id)
    other = home.queue_run()
    home.start_worker()
    home.wait_for_status(run_id, "cancelled")
    assert home.wait_for_status(other, "finished", "failed") == "finished"
    assert home.run(run_id).status == "cancelled"
