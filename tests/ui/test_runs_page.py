"""The runs page in each of its states."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kitedash.domain.run_time import Minutes
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
    assert markdown("vLLM 0.32.0 · ready after 31 s · kernel CPUInt8LinearKernel · AMD EPYC 7B13") in said
    assert "INFO ready" in [code.value for code in at.code]
    assert not {"Left", "Queue"} & {*at.dataframe[0].value.columns}  # nothing waits


def test_many_runs_are_all_listed(runs: Show) -> None:
    at = runs(builders.runs_many())
    table = at.dataframe[0].value
    assert list(table["Status"]) == ["✓ finished"] * 8
    assert list(table["Candidate"]) == [
        *("float32 (baseline)", "bfloat16", "fp8", "int8", "int8, no prefix cache", "int8, 2 sequences"),
        *("float32, no prefix cache", "float32, 2 sequences"),
    ]
    assert not {"Left", "Queue"} & {*table.columns}  # nothing waits
    assert "**8 runs**: ✓ finished 8" in texts(at)
    assert address.polling_key("runs") not in at.session_state or not at.session_state[address.polling_key("runs")]
    assert not [button.label for button in at.button if "Cancel" in button.label]


def test_running_shows_progress_note_time_left_and_places_in_the_queue(runs: Show) -> None:
    view = builders.runs_running()
    done, active, *queued = view.runs
    active = replace(active, remaining=Minutes(3.9, 9.2, 16.1))
    queued[0] = replace(queued[0], remaining=Minutes(9.1, 20.4, 41.5))
    at = runs(replace(view, runs=(done, active, *queued)), run="run-1-0000")
    table = at.dataframe[0].value
    assert list(table["Status"])[:3] == ["✓ finished", "▶ running", "… queued"]
    assert table["Progress"][1] == pytest.approx(37.5)
    assert table["Now"][1] == "rate 0.5/s, block 4 of 6"
    assert list(table["Queue"])[2:4] == ["1 in cpu", "2 in cpu"]
    assert list(table["Left"])[:4] == ["", "9 min (3 to 17 min)", "20 min (9 to 42 min)", "unknown"]
    assert "time left unknown" in texts(at)  # of all together, as long as it is of one
    assert at.progress[0].value == 37
    assert "begun 2 times" in at.progress[0].text
    assert at.session_state[address.polling_key("runs")] is True


def test_all_are_over_when_the_last_is_and_what_is_partly_known_is_a_lower_bound(runs: Show) -> None:
    active = replace(builders.run(1, "running", stages=builders.RUNNING_STAGES), remaining=Minutes(1, 2, 3))
    last = replace(builders.run(2, "queued", place=1), remaining=Minutes(10, 70, 100))
    at = runs(builders.runs_view((active, last), (builders.worker(),)))
    assert "**2 runs**: … queued 1 · ▶ running 1 · all over in about 1 h 10 min (10 min to 1 h 40 min)" in texts(at)
    at = runs(builders.runs_view((replace(active, remaining=None, remaining_at_least=4.2),), (builders.worker(),)))
    assert at.dataframe[0].value["Left"][0] == "at least 4 min"


def test_when_all_is_over_is_the_latest_of_each_bound_whichever_run_that_is_of(runs: Show) -> None:
    """The one that most likely ends last ends by 30 min; the other one may take 50."""
    sure = replace(builders.run(1, "running", stages=builders.RUNNING_STAGES), remaining=Minutes(18, 20, 30))
    open_ended = replace(builders.run(2, "queued", place=1), remaining=Minutes(5, 15, 50))
    stopping = replace(builders.run(3, "running", stages=builders.RUNNING_STAGES), cancelling=True)
    view = builders.runs_view((sure, open_ended, stopping), (builders.worker(),))
    assert view.all_over == Minutes(18, 20, 50)
    assert "all over in about 20 min (18 to 50 min)" in texts(runs(view))


def test_a_run_of_which_nothing_is_known_has_no_unknown_end(runs: Show) -> None:
    waiting = builders.run(2, "queued", place=1)
    said = texts(runs(builders.runs_view((waiting,), (builders.worker(),))))
    assert "number 1 in line; when it ends is unknown." in said


def test_failed_and_invalid_show_their_reasons_above_the_table_and_that_no_worker_is_alive(runs: Show) -> None:
    view = builders.runs_failed()
    sentence = "The engine ended before it was ready: not enough memory for 2 GiB of KV cache."
    invalid = replace(builders.run(4, "finished"), invalid_levels=("8/s gave no result: client lateness.",))
    at = runs(replace(view, runs=(*view.runs, invalid)))
    assert at.error[0].value == f"**{markdown('float32, bfloat16, fp8 and int8')}**: {markdown(sentence)}"
    assert len(at.error) == 1  # once, not again for the run in detail
    assert at.warning[0].value == (
        f"**{markdown('int8, no prefix cache')}**: {markdown('8/s gave no result: client lateness.')}"
    )
    assert any("ValueError: not enough memory" in code.value for code in at.code)
    assert "No worker is alive." in [info.value for info in at.info]


def test_many_reasons_are_cut_short_and_the_one_of_the_run_in_detail_is_always_said(runs: Show) -> None:
    broken = tuple(builders.run(i, "failed", error=f"Reason number {i}.") for i in range(5))
    at = runs(builders.runs_view(broken, (builders.worker(),)), run="run-4-0000")
    said = [error.value for error in at.error]
    assert said[3] == "2 more with other reasons: see the table."
    assert said[4:] == [markdown("Reason number 4.")]


def test_a_retried_run_is_shown_last_and_counts_no_more(runs: Show) -> None:
    old = replace(builders.run(0, "failed", error="no memory"), retried_by="new-0000")
    new = replace(builders.run(0, "finished", stages=builders.FINISHED_STAGES), id="new-0000", retry_of="run-0-0000")
    at = runs(builders.runs_view((old, new), (builders.worker(),)), run="run-0-0000")
    assert list(at.dataframe[0].value["Status"]) == ["✓ finished", "↻ retried"]
    said = texts(at)
    assert "**1 run**: ✓ finished 1" in said
    assert f"It was retried as run {markdown('new-0000')}, and counts no more." in said
    assert at.error[0].value == markdown("no memory")
    assert address.RUN_ACTION + "_retry" not in [button.key for button in at.button]


def test_a_run_that_is_told_to_stop_is_shown_as_stopping_and_can_not_be_told_again(runs: Show) -> None:
    stopping = replace(builders.run(1, "running", stages=builders.RUNNING_STAGES), cancelling=True)
    at = runs(builders.runs_view((stopping,), (builders.worker(),)))
    assert list(at.dataframe[0].value["Status"]) == ["■ stopping"]
    assert at.button(key=f"{address.RUN_ACTION}_stopping").disabled
    assert "Cancel all" not in [button.label for button in at.button]


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
