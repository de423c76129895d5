"""kill -9 of the worker, and of what it started, in every stage: the run goes on where it was and nothing is left."""

from __future__ import annotations

import os
import signal
from datetime import datetime
from pathlib import Path

import psutil
import pytest
import sqlalchemy as sa

from db import results, runs
from db.models import LoadBlock
from evals.registry import suite
from tests.worker.conftest import Home
from tests.worker.processes import is_alive

pytestmark = pytest.mark.worker

SUITE = {"name": "kitedash_repo"}
STAGE = "quality:kitedash_repo"
ALL_BLOCKS = {(rate, block) for rate in (5.0, 6.0, 7.0) for block in (0, 1)}


def _stored(home: Home, run_id: str) -> dict[tuple[float, int], datetime]:
    with home.session() as session:
        rows = session.scalars(sa.select(LoadBlock).where(LoadBlock.run_id == run_id)).all()
    stored = {(row.rate_per_s, row.block): row.stored_at for row in rows}
    assert len(stored) == len(rows)
    return stored


def _is_quantising(home: Home) -> bool:
    return any("kitedash.measuring.quantize" in process.cmdline() for process in home.children())


def test_a_run_survives_a_kill_of_its_worker_in_prepare_and_in_load(home: Home) -> None:
    run_id = home.queue_run({"quantization": "int8"})
    worker = home.start_worker()
    home.wait_until(lambda: _is_quantising(home), "the checkpoint being made")
    worker.kill()
    home.wait_until(lambda: not home.children(), "nothing left of prepare", 5)
    assert home.stages(run_id)["prepare"].status == "running"

    worker = home.start_worker()
    home.wait_for_stage(run_id, "load", done=2)
    before = _stored(home, run_id)
    assert home.engines()
    worker.kill()
    home.wait_until(lambda: not home.children(), "nothing left of load", 5)

    home.start_worker()
    assert home.wait_for_status(run_id, "finished", "failed") == "finished"
    after = _stored(home, run_id)
    assert set(after) == ALL_BLOCKS
    assert 0 < len(before) < len(after)
    assert {key: after[key] for key in before} == before  # measured once: what was stored is not touched again
    stages = home.stages(run_id)
    assert {name: stage.executions for name, stage in stages.items()} == {"prepare": 2, "load": 2}
    assert home.run(run_id).attempts == 3
    home.wait_until(lambda: not home.children(), "nothing left at the end", 5)


def test_a_run_survives_a_kill_of_its_worker_in_quality(home: Home) -> None:
    run_id = home.queue_run(finished=("prepare", "load"), suites=[SUITE])
    slow = {"first_token_ms": 300}
    worker = home.start_worker(slow)
    home.wait_for_stage(run_id, STAGE, done=2)
    worker.kill()
    home.wait_until(lambda: not home.children(), "nothing left of quality", 5)
    with home.session() as session:
        assert results.answers(session, run_id, SUITE["name"]) == []

    home.start_worker()
    assert home.wait_for_status(run_id, "finished", "failed") == "finished"
    stages = home.stages(run_id)
    assert {name: stage.executions for name, stage in stages.items()} == {"prepare": 1, "load": 1, STAGE: 2}
    with home.session() as session:
        answers = results.answers(session, run_id, SUITE["name"])
    assert len(answers) == len({answer.item_id for answer in answers}) == suite(SUITE["name"]).n_items
    assert not any(answer.error for answer in answers)


def test_answers_of_a_dying_engine_are_thrown_away_and_asked_again(home: Home) -> None:
    run_id = home.queue_run(finished=("prepare", "load"), suites=[SUITE])
    home.start_worker({"first_token_ms": 300})
    home.wait_for_stage(run_id, STAGE, done=2)
    (engine,) = home.engines()
    engine.kill()
    assert home.wait_for_status(run_id, "finished", "failed") == "finished"
    with home.session() as session:
        assert not any(answer.error for answer in results.answers(session, run_id, SUITE["name"]))


def test_a_run_goes_on_after_its_engine_was_killed_once(home: Home) -> None:
    run_id = home.queue_run()
    home.start_worker()
    home.wait_for_stage(run_id, "load", done=1)
    (engine,) = home.engines()
    engine.kill()
    assert home.wait_for_status(run_id, "finished", "failed") == "finished"
    assert set(_stored(home, run_id)) == ALL_BLOCKS
    assert home.stages(run_id)["load"].executions == 1
    assert "the engine died" in home.log(run_id)


def test_an_engine_that_keeps_dying_fails_the_run_with_the_reason(home: Home) -> None:
    run_id = home.queue_run()
    home.start_worker({"die_after": 6})
    assert home.wait_for_status(run_id, "finished", "failed") == "failed"
    run = home.run(run_id)
    assert run.error.startswith("the engine failed: it was killed (signal 9)")
    assert home.stages(run_id)["load"].note == run.error
    home.wait_until(lambda: not home.children(), "nothing left", 5)


def test_killing_worker_and_guards_at_once_kills_the_engine_too(home: Home) -> None:
    run_id = home.queue_run()
    worker = home.start_worker()
    home.wait_for_stage(run_id, "load", done=1)
    (engine,) = home.engines()
    guards = [parent for parent in engine.parents() if parent.pid in {child.pid for child in home.children()}]
    assert len(guards) == 2
    victims = [psutil.Process(worker.pid), *guards]
    for victim in victims:
        victim.send_signal(signal.SIGSTOP)  # so that none can act while the others are killed
    for victim in victims:
        victim.kill()
    home.wait_until(lambda: not is_alive(engine), "the engine to be gone", 5)


def test_an_ordered_end_leaves_the_run_to_be_taken_up_and_counts_as_no_loss(home: Home) -> None:
    run_id = home.queue_run()
    worker = home.start_worker()
    home.wait_for_stage(run_id, "load", done=1)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(5) == 0
    home.wait_until(lambda: not home.children(), "nothing left", 5)
    assert home.run(run_id).status == "running"
    with home.session() as session:
        session.execute(sa.text("UPDATE runs SET attempts = 4"))  # as after three more ordered ends ...
        session.commit()
    (home.data_dir / "locks" / f"stops-{run_id}").write_text("....")  # ... noted as this one was
    home.start_worker()
    assert home.wait_for_status(run_id, "finished", "failed") == "finished"
    assert not (home.data_dir / "locks" / f"stops-{run_id}").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_order_to_end_that_the_kernel_gives_to_another_thread_ends_the_worker_too(
    home: Home, number: signal.Signals
) -> None:
    worker = home.start_worker()
    home.wait_until(lambda: "serves queue" in (home.data_dir / "worker.out").read_text(), "a worker that waits")
    threads = [int(task.name) for task in Path(f"/proc/{worker.pid}/task").iterdir()]
    other = next(thread for thread in threads if thread != worker.pid)
    os.kill(other, number)  # Linux: a signal for the whole process, which this thread is asked first to take
    assert worker.wait(5) == 0


def test_a_run_that_costs_too_many_workers_is_given_up(home: Home) -> None:
    run_id = home.queue_run()
    with home.session() as session:
        session.execute(sa.text("UPDATE runs SET attempts = 4"))  # begun four times, never ended in order
        session.commit()
    home.start_worker()
    assert home.wait_for_status(run_id, "finished", "failed") == "failed"
    assert home.run(run_id).error == "worker lost 4 times during this run, which was then given up"


def test_a_worker_that_wakes_up_after_its_run_ended_stops_quietly_and_takes_the_next(home: Home) -> None:
    run_id = home.queue_run()
    worker = home.start_worker()
    home.wait_for_stage(run_id, "load", done=1)
    worker.send_signal(signal.SIGSTOP)
    with home.session() as session:  # as another worker does that took the run over meanwhile
        assert runs.finish(session, run_id)
        session.commit()
    before, revision = _stored(home, run_id), home.run(run_id).revision
    next_id = home.queue_run()
    worker.send_signal(signal.SIGCONT)
    assert home.wait_for_status(next_id, "finished", "failed") == "finished"
    run = home.run(run_id)
    assert (run.status, run.error, run.revision) == ("finished", "", revision)
    assert _stored(home, run_id) == before
    assert f"stopped: Run {run_id} is already finished." in home.log(run_id)
    assert "Traceback" not in home.log(run_id)
    assert "failed" not in home.log(run_id)
    assert not (home.data_dir / "work" / run_id).exists()


def test_the_run_of_a_machine_that_is_gone_is_taken_over(home: Home) -> None:
    run_id = home.queue_run()
    worker = home.start_worker()
    home.wait_for_stage(run_id, "load", done=1)
    worker.kill()
    worker.wait()
    with home.session() as session:  # as another machine would have left it
        session.execute(sa.text("UPDATE workflow_status SET executor_id = 'elsewhere:cpu'"))
        session.execute(sa.text("UPDATE runs SET worker = 'elsewhere:cpu'"))
        session.commit()
    home.start_worker()
    assert home.wait_for_status(run_id, "finished", "failed") == "finished"
    assert home.run(run_id).worker != "elsewhere:cpu"
    assert set(_stored(home, run_id)) == ALL_BLOCKS
