"""The runs page in each of its states."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kitedash.ui import address
from kitedash.ui.escape import markdown
from tests.ui import builders
from tests.ui.conftest import Show, texts
from tests.ui.test_tradeoff_page import HOSTILE

pytestmark = pytest.mark.ui


def test_an_empty_installation_says_how_to_start(runs: Show) -> None:
    at = runs(builders.runs_empty())
    assert "`kitedash launch FILE`" in texts(at)
    assert not at.dataframe


def test_one_finished_run_shows_stages_facts_and_log(runs: Show) -> None:
    at = runs(builders.runs_one())
    said = texts(at)
    assert "**1 run**: ✓ finished 1" in said
    assert "**load** finished · 24 of 24 · 2 min 00 s" in said
    assert [(m.label, m.value) for m in at.metric] == [
        ("Start-up", "31 s"),
        ("KV cache", "45,504 tokens"),
        ("vLLM", "0.32.0"),
    ]
    assert "CPUInt8LinearKernel" in said
    assert "INFO ready" in [code.value for code in at.code]


def test_many_runs_are_all_listed(runs: Show) -> None:
    at = runs(builders.runs_many())
    assert list(at.dataframe[0].value["Status"]) == ["✓ finished"] * 8
    assert address.polling_key("runs") not in at.session_state or not at.session_state[address.polling_key("runs")]


def test_running_shows_progress_note_and_places_in_the_queue(runs: Show) -> None:
    at = runs(builders.runs_running(), run="run-1-0000")
    table = at.dataframe[0].value
    assert list(table["Status"])[:3] == ["✓ finished", "▶ running", "… queued"]
    assert table["Progress"][1] == pytest.approx(37.5)
    assert table["Now"][1] == "rate 0.5/s, block 4 of 6"
    assert list(table["Queue"])[2:4] == ["1 in cpu", "2 in cpu"]
    assert at.progress[0].value == 37
    assert "begun 2 times" in at.progress[0].text
    assert at.session_state[address.polling_key("runs")] is True


def test_failed_shows_the_sentence_the_log_and_that_no_worker_is_alive(runs: Show) -> None:
    at = runs(builders.runs_failed())
    assert at.error[0].value == markdown(
        "The engine ended before it was ready: not enough memory for 2 GiB of KV cache."
    )
    assert any("ValueError: not enough memory" in code.value for code in at.code)
    assert "No worker is alive." in [info.value for info in at.info]


def test_queued_without_a_worker_is_a_warning(runs: Show) -> None:
    view = builders.runs_view((builders.run(1, "queued", place=1),))
    at = runs(view)
    assert "`kitedash worker`" in at.warning[0].value
    assert "number 1 in line" in texts(at)
    at = runs(replace(view, warnings=("1 run waits in queue gpu-2, which no live worker serves.",)))
    assert [w.value for w in at.warning] == [markdown("1 run waits in queue gpu-2, which no live worker serves.")]


def test_the_run_in_the_address_is_shown_and_another_can_be_picked(runs: Show) -> None:
    at = runs(builders.runs_many(), run="run-3-0000")
    box = at.selectbox(key=address.RUN_BOX)
    assert box.value == "run-3-0000"
    box.select("run-5-0000").run()
    assert at.query_params["run"] == "run-5-0000"
    assert at.selectbox(key=address.RUN_BOX).value == "run-5-0000"


def test_an_unknown_experiment_is_named(runs: Show) -> None:
    at = runs(builders.runs_many(), experiment="gone")
    assert "gone" in at.error[0].value


def test_engine_output_is_shown_as_it_is_and_never_as_markup(runs: Show) -> None:
    log = f"\x1b[31m{HOSTILE}\x1b[0m\nsecond \u202eline"
    stage = builders.stage("load", "running", 1, 2, HOSTILE)
    broken = builders.run(1, "failed", error=HOSTILE, log_tail=log, stages=(stage,))
    at = runs(builders.runs_view((replace(broken, candidate_name=HOSTILE),), (builders.worker(),), (HOSTILE,)))
    assert f"{HOSTILE}\nsecond line" in [code.value for code in at.code]
    rendered = [e.value for kind in (at.markdown, at.caption, at.error, at.warning, at.info) for e in kind]
    assert markdown(HOSTILE) in rendered
    for fragment in ("**x**", ":red[", "<b>", "](http", ":material/home:"):
        assert not any(fragment in text for text in rendered), fragment
