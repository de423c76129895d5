"""A run that came to nothing is queued again, and takes the old one's place wherever runs are read."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
from dbos import DBOSClient
from sqlalchemy.orm import Session
from typer.testing import CliRunner

from db import experiments, results, runs, workers
from db.engine import make_engine, sessions
from kitedash.cli import app
from kitedash.domain.errors import NotAllowed, NotFound, Refused
from kitedash.domain.results import LevelStatus
from kitedash.running.queue import APPLICATION, serializer
from kitedash.services.actor import LOCAL, Actor
from kitedash.services.cancel import cancel_experiment, cancel_run
from kitedash.services.evidence import experiment_evidence
from kitedash.services.launch import launch
from kitedash.services.retry import retry_run
from kitedash.services.runs import run_view, runs_view
from kitedash.settings import settings
from tests.db.rows import a_spec
from tests.ui.builders import level

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("on_url")]


def stored() -> Session:
    return sessions(settings().url)()


def queued_ids() -> list[str]:
    engine = make_engine(settings().url)
    client = DBOSClient(system_database_engine=engine, serializer=serializer(), application_name=APPLICATION)
    waiting = client.list_workflows(status="ENQUEUED", queue_name="cpu")
    client.destroy()
    engine.dispose()
    by_priority = {status.priority: status.workflow_id for status in waiting}
    assert len(by_priority) == len(waiting)
    return [by_priority[priority] for priority in sorted(by_priority)]


def launched(**changes: object) -> tuple[str, list[str]]:
    experiment_id = launch(a_spec(**changes), LOCAL)  # type: ignore[arg-type]
    return experiment_id, [run.id for run in runs_view(experiment_id).runs]


def end(run_id: str, how: str = "failed", *, level_status: LevelStatus | None = None, ttft_ms: float = 300) -> None:
    """The run was taken by a worker, measured one rate if a status is given, and ended."""
    with sessions(settings().url).begin() as session:
        runs.begin(session, run_id, "h:cpu")
        if level_status is not None:
            results.store_level(session, run_id, level(1.0, ttft_ms, status=level_status, reason="").summary)
        if how == "failed":
            runs.fail(session, run_id, "no memory")
        elif how == "cancelled":
            runs.cancel(session, run_id)
        else:
            runs.finish(session, run_id)


@pytest.mark.parametrize("how", ["failed", "cancelled"])
def test_a_retry_waits_at_the_end_of_the_queue_and_takes_the_old_ones_place(how: str) -> None:
    experiment_id, (baseline, other) = launched()
    _, later = launched(name="later")
    end(baseline, how)
    retried = retry_run(baseline, Actor("bo", "engineer"))
    view = runs_view(experiment_id)
    by_id = {run.id: run for run in view.runs}
    new = by_id[retried]
    assert (new.status, new.candidate_name, new.is_baseline, new.retry_of) == ("queued", "float32", True, baseline)
    assert (by_id[baseline].status, by_id[baseline].retried_by) == (how, retried)
    assert [run.id for run in view.current_runs] == [other, retried]
    assert [one for one in queued_ids() if one != baseline] == [other, *later, retried]
    assert new.queue_position == 4
    with stored() as session:
        assert [run.id for run in runs.newest_of_experiment(session, experiment_id)] == [retried, other]


def test_counts_and_evidence_hold_only_the_newest_of_a_chain() -> None:
    experiment_id, (baseline, other) = launched()
    end(baseline, level_status=LevelStatus.OK, ttft_ms=999)
    end(other, "finished", level_status=LevelStatus.OK)
    before = experiment_evidence(experiment_id).revision
    second = retry_run(baseline, LOCAL)
    revisions = {before, experiment_evidence(experiment_id).revision}
    end(second)
    third = retry_run(second, LOCAL)
    revisions.add(experiment_evidence(experiment_id).revision)
    waiting = experiment_evidence(experiment_id)
    assert [one.run_ids for one in waiting.candidates] == [(third,), (other,)]  # in the order of the first runs
    assert (waiting.runs_active, waiting.candidates[0].levels, waiting.candidates[0].error) == (1, (), "")
    end(third, "finished", level_status=LevelStatus.OK, ttft_ms=250)
    revisions.add(experiment_evidence(experiment_id).revision)
    assert len(revisions) == 4  # nothing that is cached by the revision is taken for current
    (found, _) = experiment_evidence(experiment_id).candidates
    assert [one.ttft_p90_ms.value for one in found.levels] == [250]
    (item,) = runs_view(experiment_id).experiments
    assert (item.runs, item.finished, item.failed, item.active) == (2, 2, 0, 0)
    with stored() as session:
        assert experiments.run_counts(session, [experiment_id]) == {experiment_id: {"finished": 2}}


def test_of_repeats_only_the_one_that_failed_is_replaced() -> None:
    experiment_id, ids = launched(repeats=2)  # float32, bf16, float32, bf16
    for run_id in ids:
        end(run_id, "failed" if run_id == ids[2] else "finished")
    retried = retry_run(ids[2], LOCAL)
    assert run_view(retried).repeat == 1
    evidence = experiment_evidence(experiment_id)
    assert {one.candidate.name: one.run_ids for one in evidence.candidates} == {
        "float32": (ids[0], retried),
        "bf16": (ids[1], ids[3]),
    }


def test_measuring_again_until_a_result_is_liked_is_refused() -> None:
    _, (baseline, other) = launched()
    with pytest.raises(Refused, match=r"It is not over; cancel it first\."):
        retry_run(baseline, LOCAL)
    end(baseline, "finished", level_status=LevelStatus.OVERLOADED)  # a result, if not a liked one
    assert run_view(baseline).can_retry is False
    with pytest.raises(Refused, match="measuring again until a result is liked is no retry"):
        retry_run(baseline, LOCAL)
    end(other, "finished", level_status=LevelStatus.INVALID)
    view = run_view(other)
    assert (view.can_retry, view.retry_refusal) == (True, "")
    assert view.invalid_levels == ("1/s gave no result: its checks failed.",)
    retried = retry_run(other, LOCAL)
    with pytest.raises(Refused, match=f"It was retried already, as run {retried[:8]}"):
        retry_run(other, LOCAL)
    assert run_view(other).retry_refusal == f"It was retried already, as run {retried[:8]}."


def test_who_may_not_and_what_is_not_there() -> None:
    _, (baseline, _) = launched()
    end(baseline)
    with pytest.raises(NotAllowed, match="ann is viewer and may not retry runs"):
        retry_run(baseline, Actor("ann", "viewer"))
    with pytest.raises(NotFound, match="No run has the id 'r9'"):
        retry_run("r9", LOCAL)


def test_a_retry_refuses_what_a_launch_would(monkeypatch: pytest.MonkeyPatch) -> None:
    unsupported = {"name": "blocks", "engine_args": {"block-size": 16}}  # on a CPU: multiples of 32
    experiment_id = launch(a_spec(candidates=({"name": "float32"}, unsupported)), LOCAL, leave_out=True)
    failed = next(run for run in runs_view(experiment_id).runs if run.status == "failed")
    with pytest.raises(Refused, match=r"blocks can't run here: block-size 16"):
        retry_run(failed.id, LOCAL)


def test_two_retries_at_once_queue_one_run() -> None:
    experiment_id, (baseline, _) = launched()
    end(baseline)
    outcomes: list[object] = []

    def retry() -> None:
        try:
            outcomes.append(retry_run(baseline, LOCAL))
        except Refused as refused:
            outcomes.append(refused)

    threads = [threading.Thread(target=retry) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(isinstance(outcome, str) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, Refused) for outcome in outcomes) == 3
    assert len(runs_view(experiment_id).runs) == 3


def test_a_cancelled_retry_can_be_retried_and_cancelling_all_leaves_old_runs_alone() -> None:
    experiment_id, (baseline, other) = launched()
    end(baseline)
    second = retry_run(baseline, LOCAL)
    assert cancel_run(second, LOCAL).ended == (second,)
    third = retry_run(second, LOCAL)
    outcome = cancel_experiment(experiment_id, LOCAL)
    assert sorted(outcome.ended) == sorted([third, other])
    assert outcome.already_over == ()
    assert {run.id: run.status for run in runs_view(experiment_id).runs} == {
        baseline: "failed",
        second: "cancelled",
        third: "cancelled",
        other: "cancelled",
    }
    assert launch(a_spec(), LOCAL, once=True) != experiment_id  # all that counts of it was cancelled


def test_the_command_line_retries(tmp_path: Path) -> None:
    experiment_id, (baseline, _) = launched()
    end(baseline)
    answer = CliRunner().invoke(app, ["retry", baseline[:8], "--json"])
    new = json.loads(answer.stdout)
    assert (new["status"], new["retry_of"], new["experiment_id"]) == ("queued", baseline, experiment_id)
    refused = CliRunner().invoke(app, ["retry", baseline])
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
    assert "It was retried already" in refused.stderr
    listing = CliRunner().invoke(app, ["runs"]).stdout
    assert "failed, retried" in listing
    assert f"retried as  {new['id']}" in CliRunner().invoke(app, ["show", baseline]).stdout


def test_a_live_worker_makes_the_new_run_wait_its_turn_only() -> None:
    with sessions(settings().url).begin() as session:
        workers.beat(session, "h:cpu", host="h", pid=1, queue="cpu", now=datetime.now(UTC))
    _, (baseline, _) = launched()
    end(baseline)
    assert runs_view().warnings == ()
    assert run_view(retry_run(baseline, LOCAL)).queue_position == 2
