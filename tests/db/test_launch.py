"""Launching and cancelling against the real queue's tables: rows and places become true together or not at all."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from dbos import DBOSClient

from db import runs, workers
from db.engine import make_engine, sessions
from db.models import Experiment, Run
from kitedash.domain.errors import InvalidInput, NotAllowed, NotFound, Refused
from kitedash.domain.experiment import Candidate, Workload
from kitedash.running.queue import APPLICATION, serializer
from kitedash.services import launch as launching
from kitedash.services.actor import LOCAL, Actor
from kitedash.services.cancel import cancel_experiment, cancel_run
from kitedash.services.launch import launch
from kitedash.services.runs import find_experiment, find_run, run_view, runs_view
from kitedash.settings import settings
from tests.db.at_once import at_once
from tests.db.rows import a_spec

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("on_url")]
BF16 = {"name": "bf16", "engine_args": {"dtype": "bfloat16"}}
THREE = (BF16, {"name": "float32"}, {"name": "fp8", "engine_args": {"quantization": "fp8"}})


def queued_ids() -> list[str]:
    """What waits in DBOS's queue, in the order in which it is handed out; nothing is left to equal times."""
    engine = make_engine(settings().url)
    client = DBOSClient(system_database_engine=engine, serializer=serializer(), application_name=APPLICATION)
    waiting = client.list_workflows(status="ENQUEUED", queue_name="cpu")
    client.destroy()
    engine.dispose()
    by_priority = {status.priority: status.workflow_id for status in waiting}
    assert len(by_priority) == len(waiting)
    return [by_priority[priority] for priority in sorted(by_priority)]


def stored(statement: sa.Select[tuple[object]]) -> list[object]:
    with sessions(settings().url)() as session:
        return list(session.scalars(statement))


def beat(slot: str, queue: str, age_s: float = 0.0) -> None:
    now = datetime.now(UTC) - timedelta(seconds=age_s)
    with sessions(settings().url).begin() as session:
        workers.beat(session, slot, host="h", pid=1, queue=queue, now=now)


def begin(run_id: str, worker: str = "h:cpu") -> None:
    with sessions(settings().url).begin() as session:
        runs.begin(session, run_id, worker)


def test_runs_are_stored_and_queued_in_blocks_with_the_baseline_first_and_once_more_at_the_end() -> None:
    experiment_id = launch(a_spec(candidates=THREE, repeats=2, noise_floor=True), LOCAL)
    view = runs_view(experiment_id)
    assert [run.repeat for run in view.runs] == [0, 0, 0, 1, 1, 1, 0]
    names = [run.candidate_name for run in view.runs]
    assert (names[0], names[-1]) == ("float32", "float32")
    assert sorted(names[:3]) == sorted(names[3:6]) == ["bf16", "float32", "fp8"]
    assert [run.purpose for run in view.runs] == ["candidate"] * 6 + ["again"]
    assert {run.is_baseline for run in view.runs if run.candidate_name == "float32"} == {True}
    assert [(run.status, run.queue, run.queue_position) for run in view.runs] == [
        ("queued", "cpu", place) for place in range(1, 8)
    ]
    assert queued_ids() == [run.id for run in view.runs]


def test_a_later_experiment_waits_behind_an_earlier_one() -> None:
    first = runs_view(launch(a_spec("first"), LOCAL)).runs
    second = runs_view(launch(a_spec("second"), LOCAL)).runs
    assert queued_ids() == [run.id for run in (*first, *second)]
    assert [run.queue_position for run in second] == [3, 4]


@pytest.mark.parametrize("at", [1, 2])
def test_a_launch_that_breaks_off_leaves_neither_rows_nor_places(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    real, calls = launching.enqueue_in, []

    def breaks_off(*arguments: object, **options: object) -> None:
        real(*arguments, **options)  # type: ignore[arg-type]
        calls.append(arguments)
        if len(calls) == at:
            raise ConnectionError("the machine lost power")

    monkeypatch.setattr(launching, "enqueue_in", breaks_off)
    with pytest.raises(ConnectionError):
        launch(a_spec(), LOCAL)
    assert queued_ids() == []
    assert stored(sa.select(Experiment.id)) == []
    assert stored(sa.select(Run.id)) == []


def test_once_returns_what_was_launched_before_unless_all_of_it_failed() -> None:
    first = launch(a_spec(), LOCAL, once=True)
    assert launch(a_spec(), LOCAL, once=True) == first
    assert launch(a_spec(description="another"), LOCAL, once=True) != first
    baseline, other = (run.id for run in runs_view(first).runs)
    with sessions(settings().url).begin() as session:
        runs.fail(session, baseline, "no memory")
    assert launch(a_spec(), LOCAL, once=True) == first
    cancel_run(other, LOCAL)
    second = launch(a_spec(), LOCAL, once=True)
    assert second != first
    assert launch(a_spec(), LOCAL) not in (first, second)


def test_two_launches_at_once_make_one_experiment() -> None:
    sessions(settings().url)
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(launch(a_spec(), LOCAL, once=True))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1
    assert len(stored(sa.select(Run.id))) == 2


def test_a_form_that_is_sent_twice_launches_once() -> None:
    first = launch(a_spec(), LOCAL, launch_key="form-1")
    assert launch(a_spec(), LOCAL, launch_key="form-1") == first
    assert launch(a_spec(baseline="nobody"), LOCAL, launch_key="form-1") == first  # whatever came of it meanwhile
    assert launch(a_spec(), LOCAL, launch_key="form-2") != first
    assert launch(a_spec(), LOCAL) != launch(a_spec(), LOCAL)
    assert len(stored(sa.select(Experiment.id))) == 4
    with pytest.raises(InvalidInput, match="launch_key: must have 1 to 64 characters, not 65"):
        launch(a_spec(), LOCAL, launch_key="k" * 65)
    with pytest.raises(NotAllowed):
        launch(a_spec(), Actor("ann", "viewer"), launch_key="form-1")


def test_two_processes_that_launch_with_one_key_at_once_make_one_experiment() -> None:
    sessions(settings().url)
    code = """
import sys
from kitedash.services.actor import LOCAL
from kitedash.services.launch import launch
from tests.db.rows import a_spec
print("ready", flush=True)
sys.stdin.readline()
print(launch(a_spec(), LOCAL, launch_key="form-1", device_kind="cpu"))
"""
    answers = at_once(code, [()] * 2)
    assert answers[0] == answers[1]
    assert stored(sa.select(Experiment.id)) == [answers[0]]
    assert len(stored(sa.select(Run.id))) == 2


def test_a_viewer_may_neither_launch_nor_cancel() -> None:
    viewer = Actor("ann@example.org", "viewer")
    with pytest.raises(NotAllowed, match=r"ann@example.org is viewer and may not launch experiments"):
        launch(a_spec(), viewer)
    run_id = runs_view(launch(a_spec(), Actor("bo", "engineer"))).runs[0].id
    with pytest.raises(NotAllowed, match="may not cancel"):
        cancel_run(run_id, viewer)
    with pytest.raises(NotAllowed, match="may not cancel"):
        cancel_experiment(run_view(run_id).experiment_id, viewer)
    assert stored(sa.select(Experiment.created_by)) == ["bo"]


def test_what_no_device_can_do_is_refused_before_anything_is_stored() -> None:
    with pytest.raises(Refused, match=r"float32 asks for 2 devices"):
        launch(a_spec(devices=2, engine_args={"tensor-parallel-size": 2}), LOCAL)
    with pytest.raises(Refused, match=r"asks for 1 GPU; this machine has none and no live worker serves queue gpu-1"):
        launch(a_spec(), LOCAL, device_kind="gpu")
    unsupported = {"name": "blocks", "engine_args": {"block-size": 16}}  # on a CPU: multiples of 32
    with pytest.raises(Refused, match=r"blocks can't run here: block-size 16"):
        launch(a_spec(candidates=({"name": "float32"}, unsupported)), LOCAL)
    with pytest.raises(InvalidInput, match="baseline"):
        launch(a_spec(baseline="nobody"), LOCAL)
    with pytest.raises(InvalidInput, match=r"suites: 'kite_repo' is no suite; there are kitedash_repo, hellaswag_100"):
        launch(a_spec(suites=({"name": "kite_repo"},)), LOCAL)
    short = {"name": "short", "engine_args": {"max-model-len": 64}}
    small = Workload(input_tokens=32, shared_prefix_tokens=16, output_tokens=8)
    with pytest.raises(
        InvalidInput, match=r"suites\[0\]: kitedash_repo needs a max-model-len of \d+ or more, and short"
    ):
        launch(
            a_spec(candidates=(short,), baseline="short", workload=small, suites=({"name": "kitedash_repo"},)), LOCAL
        )
    assert stored(sa.select(Experiment.id)) == []


def test_what_the_device_cannot_serve_may_be_left_out_with_its_reason() -> None:
    unsupported = {"name": "blocks", "engine_args": {"block-size": 16}}
    view = runs_view(launch(a_spec(candidates=({"name": "float32"}, unsupported)), LOCAL, leave_out=True))
    assert {run.candidate_name: run.status for run in view.runs} == {"float32": "queued", "blocks": "failed"}
    assert "block-size 16" in next(run.error for run in view.runs if run.candidate_name == "blocks")
    assert queued_ids() == [run.id for run in view.runs if run.candidate_name == "float32"]
    with pytest.raises(Refused, match="blocks can't run here"):
        launch(a_spec(candidates=(unsupported,), baseline="blocks"), LOCAL, leave_out=True)


def test_what_vllms_own_parser_refuses_is_refused_in_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def answers(candidates: tuple[Candidate, ...], *, device_kind: str) -> tuple[str | None, ...]:
        asked.append((device_kind, [candidate.name for candidate in candidates]))
        return None, "argument --dtype: invalid choice"

    monkeypatch.setattr(launching, "parser_refusals", answers)
    launch(a_spec(), LOCAL)
    assert asked == []
    with pytest.raises(Refused, match=r"bf16: vLLM refuses its arguments: argument --dtype: invalid choice"):
        launch(a_spec(), LOCAL, ask_vllm=lambda: asked.append("said"))
    assert asked == ["said", ("cpu", ["float32", "bf16"])]


def test_a_run_is_stored_as_it_runs_on_its_device() -> None:
    fp8 = {"name": "fp8", "engine_args": {"dtype": "bfloat16"}, "cpu_engine_args": {"dtype": "float32"}}
    launch(a_spec(candidates=(BF16, fp8), baseline="bf16"), LOCAL, device_kind="cpu")
    arguments = [candidate["engine_args"] for candidate in stored(sa.select(Run.candidate).order_by(Run.position))]
    assert arguments == [{"dtype": "bfloat16"}, {"dtype": "float32"}]


def test_runs_go_where_a_live_worker_serves_gpus() -> None:
    beat("far:0", "gpu-1")
    view = runs_view(launch(a_spec(), LOCAL))
    assert {run.queue for run in view.runs} == {"gpu-1"}
    assert view.warnings == ()
    assert {run.queue for run in runs_view(launch(a_spec(), LOCAL, device_kind="cpu")).runs} == {"cpu"}


def test_a_waiting_run_that_is_cancelled_is_over_at_once_and_never_handed_out() -> None:
    view = runs_view(launch(a_spec(), LOCAL))
    outcome = cancel_run(view.runs[0].id, LOCAL)
    assert outcome.ended == (view.runs[0].id,)
    assert run_view(view.runs[0].id).status == "cancelled"
    assert queued_ids() == [view.runs[1].id]
    with sessions(settings().url)() as session, pytest.raises(runs.RunEndedError):
        runs.begin(session, view.runs[0].id, "h:cpu")


def test_a_running_run_is_told_to_stop_and_shown_as_such() -> None:
    beat("h:cpu", "cpu")
    run_id = runs_view(launch(a_spec(), LOCAL)).runs[0].id
    begin(run_id)
    assert cancel_run(run_id, LOCAL).stopping == (run_id,)
    view = run_view(run_id)
    assert (view.status, view.cancelling) == ("running", True)
    assert run_id not in queued_ids()


def test_a_running_run_without_a_live_worker_is_over_when_it_is_cancelled() -> None:
    beat("h:cpu", "cpu", age_s=workers.MAX_HEARTBEAT_AGE_S + 5)
    run_id = runs_view(launch(a_spec(), LOCAL)).runs[0].id
    begin(run_id)
    assert cancel_run(run_id, LOCAL).ended == (run_id,)
    assert run_view(run_id).status == "cancelled"


def test_what_is_over_stays_as_it_is() -> None:
    run_id = runs_view(launch(a_spec(), LOCAL)).runs[0].id
    begin(run_id)
    with sessions(settings().url).begin() as session:
        runs.finish(session, run_id)
    assert cancel_run(run_id, LOCAL).already_over == (run_id,)
    assert run_view(run_id).status == "finished"


def test_a_whole_experiment_is_cancelled() -> None:
    beat("h:cpu", "cpu")
    experiment_id = launch(a_spec(candidates=THREE), LOCAL)
    ids = [run.id for run in runs_view(experiment_id).runs]
    begin(ids[0])
    outcome = cancel_experiment(experiment_id, LOCAL)
    assert (outcome.ended, outcome.stopping) == ((ids[2], ids[1]), (ids[0],))
    assert queued_ids() == []
    with pytest.raises(NotFound, match="No experiment has the id 'e9'"):
        cancel_experiment("e9", LOCAL)


def test_waiting_without_a_live_worker_and_a_silent_worker_are_warned_of() -> None:
    experiment_id = launch(a_spec(), LOCAL)
    (warning,) = runs_view(experiment_id).warnings
    assert warning.startswith("2 runs wait in queue cpu, which no live worker serves")
    beat("h:cpu", "cpu")
    assert runs_view(experiment_id).warnings == ()
    begin(runs_view(experiment_id).runs[0].id)
    beat("h:cpu", "cpu", age_s=60)
    waits, silent = runs_view(experiment_id).warnings
    assert waits.startswith("1 run waits in queue cpu")
    assert silent.startswith("float32 was running on h:cpu, which has been silent for over 15 s")
    assert [(worker.slot, worker.alive) for worker in runs_view().workers] == [("h:cpu", False)]


def test_views_show_stages_and_the_log_and_short_ids_are_understood() -> None:
    experiment_id = launch(a_spec(), LOCAL)
    run_id = runs_view().runs[0].id
    log = settings().data_dir / "logs" / "r.log"
    log.parent.mkdir(parents=True)
    log.write_text("\x1b[32mINFO\x1b[0m ready\n")
    with sessions(settings().url).begin() as session:
        runs.begin(session, run_id, "h:cpu")
        runs.set_log_path(session, run_id, "logs/r.log")
        runs.stage_begin(session, run_id, "load", 1, 9)
    view = run_view(find_run(run_id[:13]))
    assert view.log_tail == "INFO ready"
    assert [(stage.name, stage.total, stage.executions) for stage in view.stages] == [("load", 9, 1)]
    assert runs_view(find_experiment(experiment_id[:13])).experiment_id == experiment_id
    (item,) = runs_view().experiments
    assert (item.runs, item.active, item.finished, item.failed) == (2, 2, 0, 0)
