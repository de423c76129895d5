"""What the runs page does: cancel one or all, retry, clone, notice what is launched elsewhere. On a real database."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from db import results, runs, workers
from db.engine import dispose_engines, sessions
from kitedash.domain.experiment import LoadPlan
from kitedash.domain.results import LevelStatus
from kitedash.services import launch_check, runs_page
from kitedash.services.actor import LOCAL, Actor
from kitedash.services.launch import launch
from kitedash.services.retry import retry_run
from kitedash.services.runs import run_view, runs_view
from kitedash.settings import settings
from kitedash.ui import address, guard
from kitedash.ui.escape import markdown
from tests.db.rows import a_spec
from tests.ui.builders import level
from tests.ui.conftest import opened, texts

pytestmark = pytest.mark.ui
ALL, ONE = f"{address.RUN_ACTION}_all", f"{address.RUN_ACTION}_cancel"
RETRY = f"{address.RUN_ACTION}_retry"


@pytest.fixture(autouse=True)
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("KITEDASH_DATA_DIR", str(tmp_path))
    monkeypatch.delenv("KITEDASH_DATABASE_URL", raising=False)
    monkeypatch.setattr(launch_check, "gpu_count", lambda: 0)
    settings.cache_clear()
    yield
    settings.cache_clear()
    dispose_engines()


@pytest.fixture
def ids() -> list[str]:
    """Three queued runs of an experiment: float32, bf16 and half, with a live worker."""
    beat()
    half = {"name": "half", "engine_args": {"dtype": "half"}}
    candidates = ({"name": "float32"}, {"name": "bf16", "engine_args": {"dtype": "bfloat16"}}, half)
    load = LoadPlan(rates_per_s=(1, 2, 3), seed=3)  # which draws this order
    found = runs_view(launch(a_spec(candidates=candidates, load=load), LOCAL)).runs
    assert [run.candidate_name for run in found] == ["float32", "bf16", "half"]
    return [run.id for run in found]


def beat(age_s: float = -3_600) -> None:
    """By default so that it stays alive however long the test takes."""
    with sessions(settings().url).begin() as session:
        at = datetime.now(UTC) - timedelta(seconds=age_s)
        workers.beat(session, "h:cpu", host="h", pid=1, queue="cpu", device_name="a processor", now=at)


def begin(run_id: str) -> None:
    with sessions(settings().url).begin() as session:
        runs.begin(session, run_id, "h:cpu")
        runs.stage_begin(session, run_id, "prepare", 0, 1)


def end(run_id: str, error: str = "") -> None:
    begin(run_id)
    with sessions(settings().url).begin() as session:
        runs.fail(session, run_id, error) if error else runs.finish(session, run_id)


def statuses(at: AppTest) -> list[str]:
    return list(at.dataframe[0].value["Status"])


def test_cancelling_one_run_asks_first_and_shows_the_new_state_at_once(ids: list[str]) -> None:
    at = opened("runs", {"run": ids[1]})
    at.button(key=ONE).click().run()
    assert run_view(ids[1]).status == "queued"  # only asked so far
    assert any("Cancel bf16?" in text.value for text in at.markdown)
    at.button(key=f"{ONE}_no").click().run()
    assert run_view(ids[1]).status == "queued"
    at.button(key=ONE).click().run()
    at.button(key=f"{ONE}_yes").click().run()
    assert not at.exception
    assert statuses(at) == ["… queued", "– cancelled", "… queued"]
    assert at.toast[0].value == markdown("1 run cancelled.")
    assert run_view(ids[1]).status == "cancelled"


def test_cancelling_all_tells_a_running_run_to_stop(ids: list[str]) -> None:
    begin(ids[0])
    at = opened("runs", {})
    at.button(key=ALL).click().run()
    assert any("Cancel 3 runs of this experiment?" in text.value for text in at.markdown)
    at.button(key=f"{ALL}_yes").click().run()
    assert statuses(at) == ["■ stopping", "– cancelled", "– cancelled"]
    assert at.toast[0].value == markdown("2 runs cancelled, 1 run told to stop, which takes seconds.")
    assert run_view(ids[0]).cancelling


def test_a_failed_run_is_retried_once_and_the_new_one_is_shown(ids: list[str]) -> None:
    end(ids[0], "no memory")
    at = opened("runs", {"run": ids[0]})
    at.button(key=RETRY).click().run()
    view = runs_view()
    (new,) = (run for run in view.runs if run.retry_of == ids[0])
    assert statuses(at) == ["… queued", "… queued", "… queued", "↻ retried"]
    assert at.query_params["run"] == new.id
    assert f"It takes the place of run {markdown(ids[0][:8])}." in texts(at)
    assert not at.error  # the old failure is no news any more


def test_what_was_retried_meanwhile_is_refused_in_place(ids: list[str]) -> None:
    end(ids[0], "no memory")
    at = opened("runs", {"run": ids[0]})
    retried = retry_run(ids[0], LOCAL)  # in another tab
    at.button(key=RETRY).click().run()
    assert markdown(f"It was retried already, as run {retried[:8]}.") in [error.value for error in at.error]
    assert len(runs_view().runs) == 4


def test_a_clean_result_can_not_be_retried_and_an_invalid_one_can(ids: list[str]) -> None:
    for run_id, status in zip(ids, (LevelStatus.OK, LevelStatus.INVALID), strict=False):
        with sessions(settings().url).begin() as session:
            results.store_level(session, run_id, level(1.0, 300, status=status).summary)
        end(run_id)
    at = opened("runs", {"run": ids[0]})
    assert at.button(key=RETRY).disabled
    assert "measuring again until a result is liked is no retry" in at.button(key=RETRY).help
    assert "**bf16**" in at.warning[0].value
    at = opened("runs", {"run": ids[1]})
    assert not at.button(key=RETRY).disabled


def test_a_viewer_sees_all_of_it_and_may_do_none(ids: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "current_user", lambda: Actor("ann", "viewer"))
    at = opened("runs", {"run": ids[0]})
    for key, action in ((ALL, "cancel"), (ONE, "cancel")):
        assert at.button(key=key).disabled
        assert f"ann is viewer and may not {action} runs" in at.button(key=key).help
    end(ids[0], "no memory")
    at = opened("runs", {"run": ids[0]})
    assert "may not retry runs" in at.button(key=RETRY).help


def test_links_lead_to_the_run_and_to_a_clone_with_one_change(ids: list[str]) -> None:
    experiment_id = run_view(ids[1]).experiment_id
    at = opened("runs", {"run": ids[1]})
    links = {link.proto.label: link.proto for link in at.get("page_link")}
    assert links["Clone with one change"].page == "launch"
    assert links["Clone with one change"].query_string == f"clone={experiment_id}&candidate=bf16"
    assert links["Results and raw data"].page == "run"
    assert links["Results and raw data"].query_string == f"experiment={experiment_id}&run={ids[1]}"


@pytest.mark.parametrize(
    ("queue", "said"),
    [
        ("gpu-2", "which no live worker serves (those alive serve cpu): start one with: kitedash worker --slots 0,1."),
        ("cpu", ""),
    ],
)
def test_queued_runs_whose_devices_no_worker_has_are_a_banner(queue: str, said: str, ids: list[str]) -> None:
    with sessions(settings().url).begin() as session:
        for run_id in ids:
            runs.get(session, run_id).queue = queue
    warnings = [warning.value for warning in opened("runs", {}).warning]
    assert warnings == ([markdown(f"3 runs wait in queue {queue}, {said}")] if said else [])


def test_a_silent_worker_is_a_banner(ids: list[str]) -> None:
    begin(ids[0])
    beat(age_s=workers.MAX_HEARTBEAT_AGE_S + 60)
    warnings = " ".join(warning.value for warning in opened("runs", {}).warning)
    assert "which no live worker serves \\(none is alive\\)" in warnings
    assert markdown("float32 was running on h:cpu, which has been silent for over 15 s") in warnings


def test_an_idle_page_notices_a_run_that_was_launched_elsewhere(ids: list[str]) -> None:
    experiment_id = run_view(ids[0]).experiment_id
    for run_id in ids:
        end(run_id)
    at = opened("runs", {"experiment": experiment_id})
    assert address.polling_key("runs") not in at.session_state  # it rests, and asks by one small query
    token = runs_page.page(experiment_id, None).token
    assert runs_page.change_token(experiment_id) == token
    assert not any("another experiment" in text.value for text in at.markdown)
    other = launch(a_spec("another"), LOCAL)
    assert runs_page.change_token(experiment_id) != token
    at.run()
    assert any("2 runs are queued or under way in another experiment: another" in m.value for m in at.markdown)
    at.button(key=f"{address.RUN_ACTION}_show").click().run()
    assert at.query_params["experiment"] == other
    assert at.session_state[address.polling_key("runs")] is True


def test_an_empty_installation_leads_to_the_launch_page_first() -> None:
    at = opened("runs", {})
    assert [link.proto.page for link in at.get("page_link")] == ["launch"]
    assert "`make quickstart`" in texts(at)
