"""The run page in each of its states, on the real services and a real database."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from db import results, runs
from db.engine import sessions
from evals import registry
from kitedash.domain.results import Answer, RunStatus, SuiteResult
from kitedash.services import run_page
from kitedash.settings import settings
from kitedash.ui import address
from kitedash.ui.components import run_detail_sections
from kitedash.ui.escape import markdown
from tests.ui import request_blobs
from tests.ui.conftest import opened, texts
from tests.ui.seed import Seeded
from tests.ui.test_tradeoff_page import HOSTILE

pytestmark = pytest.mark.ui


def shown(run_id: str, section: str = "", **query: str) -> AppTest:
    more = {address.SECTION: section} if section else {}
    return opened("run", {"run": run_id, **more, **query})


def links(at: AppTest) -> dict[str, str]:
    """Label -> the page and the address that it leads to."""
    return {link.proto.label: f"{link.proto.page}?{link.proto.query_string}" for link in at.get("page_link")}


def many(number: int) -> str:
    return f"10000000-{number}"


def test_a_finished_run_says_what_it_is_and_its_five_numbers(seeded: Seeded) -> None:
    at = shown(many(3))
    assert "### int8 · ✓ finished" in texts(at)
    assert [(m.label, m.value) for m in at.metric] == [
        ("Highest rate held", "4/s"),
        ("P90 TTFT", "429 ms"),  # 230 ms at 1/s, x 4^0.45 = 1.866
        ("P90 TPOT", "42.0 ms"),
        ("Deployed cost", "0.0418 USD"),  # 3 replicas x 24 h x 0.116 USD over 200 thousand requests
        ("Pass rate", "58.3 %"),  # 35 of 60
    ]
    said = texts(at)
    assert "95 %: 386 ms to 472 ms; n = 240" in said
    assert "● meets ≤ 800 ms" in said
    assert "◆ uncertain ≥ 50.0 %" in said


def test_the_one_run_of_an_experiment_is_its_baseline(seeded: Seeded) -> None:
    at = shown("20000000-0")
    assert "### float32 :gray[(baseline)] · ✓ finished" in texts(at)
    assert [(m.label, m.value) for m in at.metric] == [
        ("Highest rate held", "4/s"),
        ("P90 TTFT", "485 ms"),  # 260 ms at 1/s, x 4^0.45 = 1.866; the target here is 700 ms
        ("P90 TPOT", "42.0 ms"),
        ("Deployed cost", "0.0418 USD"),  # 3 replicas x 24 h x 0.116 USD over 200 thousand requests
        ("Pass rate", "58.3 %"),  # 35 of 60
    ]
    assert "95 %: 437 ms to 534 ms; n = 240" in texts(at)  # 10 % to both sides
    assert "● meets ≤ 700 ms" in texts(at)
    box = at.selectbox(key=address.RUN_BOX)
    assert box.options == ["float32 (baseline) · ✓ finished · 20000000"]
    at = shown("20000000-0", run_detail_sections.ANSWERS)
    assert markdown("This is the baseline: the others are held to it.") in texts(at)
    assert len(at.dataframe[1].value) == 60
    assert set(at.dataframe[1].value["Against the baseline"]) == {""}
    assert [name for name in at.segmented_control(key=address.box(address.ANSWERS)).options if "broken" in name] == []


def test_the_levels_are_in_a_table_with_intervals_and_why_one_is_not_held(seeded: Seeded) -> None:
    at = shown(many(4))  # overloaded at 4/s, and one block of 1/s is invalid
    latency, load, checks = (frame.value for frame in at.dataframe)
    assert list(latency["Status"]) == ["✓ ok", "✓ ok", "▲ overloaded"]
    assert latency["P90 TTFT"][0] == "520 [468 to 572]"
    assert latency["P99 TTFT"][0] == "832 [too few]"
    assert list(load["Blocks"]) == ["6 of 7", "6 of 6", "6 of 6"]
    assert list(load["Held"]) == ["✓ held", "✓ held", "✗ not held"]
    assert f"**4/s** not held: {markdown('overloaded: the number of requests in the system keeps growing')}" in texts(
        at
    )
    assert list(checks["Check"]) == [request_blobs.LATE.name]
    assert (checks["Value"][0], checks["Allowed"][0]) == ("31.0", "≤ 20.0")
    (toggle,) = at.toggle
    toggle.set_value(True).run()
    assert len(at.dataframe[2].value) == 19 * 3
    assert at.query_params[address.ALL_CHECKS] == "all"


def test_the_parts_of_overloaded_rates_have_a_chart_of_their_own(seeded: Seeded) -> None:
    at = shown(many(1), run_detail_sections.PARTS)
    assert "would not add up" in texts(at)
    assert len(at.get("vega_lite_chart")) == 3  # the third is over time
    table = at.dataframe[0].value
    assert table["Queue (ms)"][0] == "270"  # 0.3 x 900 ms
    assert len(shown(many(3), run_detail_sections.PARTS).get("vega_lite_chart")) == 2


def test_the_distribution_that_the_address_names_is_drawn(seeded: Seeded) -> None:
    at = shown(many(4), run_detail_sections.CURVES, f_latency="TPOT")
    (chart,) = at.get("vega_lite_chart")
    assert "Drawn beside them: P90 guardrail 150 ms." in chart.proto.alt
    # The 100 s of the invalid block are in no curve: TPOT was 1,000 ms there, and is 72 ms at most elsewhere.
    assert "1/s: P50 30.0 ms, P90 42.0 ms, P99 70.0 ms" in chart.proto.alt
    assert "Failed requests have no TPOT" in texts(at)
    at.segmented_control(key=address.box(address.LATENCY)).set_value("E2E").run()
    assert at.query_params[address.LATENCY] == "E2E"
    assert "1/s: P50 882 ms, P90 1,320 ms" in at.get("vega_lite_chart")[0].proto.alt  # 312 + 19 x 30; 520 + 19 x 42


def test_answers_can_be_narrowed_and_one_is_shown_in_full_beside_the_baselines(seeded: Seeded) -> None:
    at = shown(many(2), run_detail_sections.ANSWERS, f_answers="broken")
    items = list(at.dataframe[1].value["Item"])
    assert set(at.dataframe[1].value["Against the baseline"]) == {"↓ broken"}
    # As the seed draws them: passed by float32 and not by fp8; in the order of their names.
    assert items == [f"kitedash_repo-{number}" for number in (1, 19, 25, 3, 46, 55)]
    at.selectbox(key=address.ITEM_BOX).select(items[0]).run()
    assert at.query_params[address.ITEM] == items[0]
    number = items[0].rpartition("-")[2]
    shown_texts = [code.value for code in at.code]
    assert sum(f"=value_{number} **{number}**" in text for text in shown_texts) == 2  # this run's and the baseline's
    assert f"=value_{number}" in shown_texts
    said = texts(at)
    assert "**This run** · ✗ failed" in said or "**This run** · ✂ cut off" in said
    assert "**Baseline** · ✓ passed" in said
    assert markdown("It was asked on version v1 of kitedash_repo") in said


def test_another_suite_can_be_picked(seeded: Seeded) -> None:
    at = shown(many(2), run_detail_sections.ANSWERS)
    assert len(at.dataframe[1].value) == 60
    at.segmented_control(key=address.box(address.SUITE)).set_value("hellaswag_100").run()
    assert at.query_params[address.SUITE] == "hellaswag_100"
    assert len(at.dataframe[1].value) == 100


def test_a_suite_that_the_baseline_has_not_answered_says_so_and_shows_hostile_answers_as_data(
    own_database: Seeded,
) -> None:
    item = registry.repository_items("kitedash_repo")[0]
    version = registry.suite("kitedash_repo").version
    answer = Answer(item.id, "c", item.kind, HOSTILE, "stop", 1.0, True, "", item.prompt_sha256, HOSTILE, 3)
    with sessions(settings().url).begin() as session:
        for run_id in ("40000000-0", "40000000-1"):
            runs.get(session, run_id).status = RunStatus.RUNNING  # what is over takes no answers
            results.store_suite(session, run_id, SuiteResult("hellaswag_100", "public", "v", (answer,), 0.25))
        results.store_suite(session, "40000000-1", SuiteResult("kitedash_repo", "repository", version, (answer,), 0.1))
    at = shown("40000000-1", run_detail_sections.ANSWERS, item=item.id)
    said = texts(at)
    assert "The baseline has not answered this suite" in said
    assert [code.value for code in at.code].count(HOSTILE) == 2  # answer and reference, in code blocks
    assert item.messages[0].content in [code.value for code in at.code]
    rendered = [e.value for kind in (at.markdown, at.caption, at.error, at.info) for e in kind]
    for fragment in ("**x**", ":red[", "<b>", "](http", ":material/home:"):
        assert not any(fragment in text for text in rendered), fragment


def test_what_it_takes_to_reproduce_it(seeded: Seeded) -> None:
    at = shown(many(3), run_detail_sections.REPRODUCE)
    assert at.code[0].value.replace("\\\n ", "").split() == [
        "VLLM_CPU_KVCACHE_SPACE=2",
        "python",
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--max-num-seqs",
        "16",
    ]
    facts = dict(at.dataframe[0].value.itertuples(index=False))
    assert facts["Matrix kernel"] == "CPUInt8ScaledMM"
    assert facts["Model hash (SHA-256)"] == "ab" * 32
    assert facts["KV cache"] == "45,504 tokens, 2.00 GiB"
    assert links(at)["Launch it again, or with a change"] == f"launch?clone={seeded.many}"


def test_raw_data_is_offered_and_not_built(seeded: Seeded, monkeypatch: pytest.MonkeyPatch) -> None:
    def built(*_: object) -> None:
        raise AssertionError("built without being asked for")

    monkeypatch.setattr("kitedash.services.raw_data.raw_file", built)
    monkeypatch.setattr("kitedash.services.raw_data.sessions", built)  # nor are the names of the files looked up
    at = shown(many(3), run_detail_sections.RAW)
    buttons = at.get("download_button")
    assert [button.proto.label for button in buttons] == ["Parquet", "CSV"] * 4
    assert not any(button.proto.disabled for button in buttons)
    meanings = at.dataframe[0].value
    assert list(meanings["Column"])[:4] == ["rate_per_s", "block", "block_status", "index"]
    assert all(button.proto.disabled for button in shown("40000000-2", run_detail_sections.RAW).get("download_button"))


def test_raw_data_too_large_for_the_dashboard_is_exported_in_a_terminal(
    seeded: Seeded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """3 rates x 6 blocks x 40 requests are 720 rows; there are 3 levels and 160 answers."""
    monkeypatch.setattr("kitedash.services.raw_data.MOST_ROWS_ON_A_PAGE", 719)
    at = shown(many(3), run_detail_sections.RAW)
    assert "720 rows are too many for a download. In a terminal:" in texts(at)
    command = "kitedash export 10000000 --what requests --out quickstart_int8_10000000_requests.parquet"
    assert [code.value for code in at.code] == [command]
    assert len(at.get("download_button")) == 6
    monkeypatch.setattr("kitedash.services.raw_data.MOST_ROWS_ON_A_PAGE", 720)
    assert len(shown(many(3), run_detail_sections.RAW).get("download_button")) == 8


@pytest.mark.parametrize(("asked", "drawn"), [("80000000", False), ("1e308", True), ("9000", True)])
def test_a_target_far_from_the_data_is_left_out_of_the_axis(seeded: Seeded, asked: str, drawn: bool) -> None:
    """What no target may be, such as 1e308 ms, is ignored: 800 ms as written down is drawn then."""
    at = shown(many(3), run_detail_sections.CURVES, t_ttft_p90_ms=asked)
    assert ("too far from the curves to be drawn" in texts(at)) is not drawn


@pytest.mark.parametrize("key", ["run", "experiment"])
def test_an_id_with_control_characters_is_not_stored(seeded: Seeded, key: str) -> None:
    at = opened("run", {key: "a\0b"})
    assert [error.value for error in at.error] == [f"No {key} ab is stored here."]


def test_a_running_run_shows_progress_and_what_is_stored_so_far(seeded: Seeded) -> None:
    at = shown("30000000-3")
    assert at.progress[0].value == 38  # 23 of 60
    assert "item 24 of 60" in at.progress[0].text
    assert len(at.dataframe[0].value) == 3
    assert [m.value for m in at.metric][-1] == "–"
    assert "No suite has been answered yet." in texts(shown("30000000-3", run_detail_sections.ANSWERS))


def test_what_is_stored_of_a_running_run_changes_what_the_page_waits_for(own_database: Seeded) -> None:
    page = run_page.page("30000000-3")
    assert page is not None
    assert run_page.change_token(own_database.running) == page.token
    with sessions(settings().url).begin() as session:
        results.store_block(session, "30000000-3", request_blobs.invalid_block(4.0))
    assert run_page.change_token(own_database.running) != page.token


def test_a_retried_run_leads_to_the_one_that_counts(own_database: Seeded) -> None:
    with sessions(settings().url).begin() as session:
        before = runs.get(session, "40000000-2")
        again = runs.add(
            session,
            "40000000-again",
            experiment_id=before.experiment_id,
            position=9,
            repeat=0,
            candidate=runs.candidate_of(before),
            is_baseline=False,
            queue="cpu",
            now=datetime.now(UTC),
        )
        again.retry_of = before.id
    at = shown("40000000-2")
    assert "· ✗ failed, retried" in texts(at)
    assert links(at)["The run that replaces it"] == "run?run=40000000-again"
    assert "a retry of 40000000" in texts(shown("40000000-again"))


def test_a_queued_run_says_its_place_and_what_it_will_be_started_with(seeded: Seeded) -> None:
    at = shown("30000000-5")
    assert re.fullmatch(
        r"It waits in the queue cpu, number 3 in line: nothing has been measured yet\. "
        r"It ends in about \d\d min \(\d\d to \d\d min\)\.",
        at.info[0].value,
    )
    assert dict(at.dataframe[0].value.itertuples(index=False))["Model"] == "SmolLM2-135M-Instruct"
    assert not at.metric
    assert "All its runs" in links(at)


def test_a_failed_run_shows_its_error_in_full_and_the_log_at_once(seeded: Seeded) -> None:
    at = shown("40000000-3")
    assert at.error[0].value == markdown(
        "The engine ended before it was ready: ValueError: not enough memory for 2 GiB of KV cache."
    )
    assert "### int8 · ✗ failed" in texts(at)
    assert any("ERROR ValueError: not enough memory" in code.value for code in at.code)
    assert not at.metric
    for section, sentence in (
        (run_detail_sections.LEVELS, "No load level was measured."),
        (run_detail_sections.PARTS, "the parts of its requests are not known"),
        (run_detail_sections.REQUESTS, "there is no request to look at"),
        (run_detail_sections.CURVES, "there is no distribution to draw"),
    ):
        assert sentence in texts(shown("40000000-3", section))


def test_a_cancelled_run_keeps_what_it_had(own_database: Seeded) -> None:
    with sessions(settings().url).begin() as session:
        runs.cancel(session, "30000000-7", datetime.now(UTC))
    at = shown("30000000-7")
    assert "It was cancelled" in at.warning[0].value
    assert "– cancelled" in texts(at)


def test_the_picker_leads_to_another_run_of_the_experiment(seeded: Seeded) -> None:
    at = shown(many(3))
    box = at.selectbox(key=address.RUN_BOX)
    assert len(box.options) == 8
    box.select(many(0)).run()
    assert at.query_params["run"] == many(0)
    assert "### float32" in texts(at)


def test_the_link_back_keeps_what_was_set_on_the_trade_off(seeded: Seeded) -> None:
    at = shown(many(3), "parts", experiment=seeded.many, t_ttft_p90_ms="300", f_cost="saturated")
    back = links(at)["Trade-off of quickstart"]
    assert back.startswith("tradeoff?")
    assert "t_ttft_p90_ms=300" in back
    assert "f_cost=saturated" in back
    assert "f_section" not in back
    assert [m.value for m in at.metric][:2] == ["1/s", "230 ms"]  # at 2/s it is 314 ms


def test_targets_of_another_experiment_do_not_count(seeded: Seeded) -> None:
    at = shown(many(3), experiment=seeded.one, t_ttft_p90_ms="300")
    assert at.metric[0].value == "4/s"


def test_a_tab_that_is_picked_stands_in_the_address(seeded: Seeded) -> None:
    at = shown(many(3), "raw")
    assert at.session_state[address.box(address.SECTION)] == "Raw data"
    assert [tab.label for tab in at.tabs] == [
        *("Load levels", "Attainment", "Parts of a request", "Slow requests", "Distributions"),
        *("Suites and answers", "Memory", "To reproduce", "Raw data"),
    ]


def test_an_unknown_run_is_one_sentence_and_a_way_back(seeded: Seeded) -> None:
    at = shown("gone")
    assert at.error[0].value == "No run gone is stored here."
    assert "All runs" in links(at)
    assert not at.markdown  # Streamlit writes the value of a bare expression on the page


def test_without_a_run_in_the_address_a_finished_one_of_the_newest_experiment_is_shown(seeded: Seeded) -> None:
    at = opened("run", {"experiment": seeded.running})
    assert at.query_params["run"] == "30000000-0"


def test_an_empty_installation_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KITEDASH_DATA_DIR", str(tmp_path))
    settings.cache_clear()
    try:
        at = opened("run", {})
        assert "No run has been launched yet" in at.info[0].value
        assert "Launch an experiment" in links(at)
    finally:
        settings.cache_clear()
