"""The launch page on the real services and a real database: from an empty form to an experiment that is queued once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from db import experiments, runs, workers
from db.engine import sessions
from db.models import Worker
from kitedash.domain.experiment_file import parse_experiment
from kitedash.domain.form_fields import ExperimentForm
from kitedash.services.actor import Actor
from kitedash.services.launch import launch
from kitedash.settings import settings
from kitedash.ui import guard
from kitedash.ui.escape import markdown
from tests.ui.conftest import opened, texts
from tests.ui.launching import (
    GO,
    QUICKSTART,
    SINGLE,
    START,
    VIEW,
    begun,
    cell,
    form,
    form_again,
    fresh,
    quickstart,
    red,
    row_button,
    state,
    stored,
    to_yaml_of,
    typed,
    typed_in_row,
)
from tests.ui.seed import Seeded, seed

pytestmark = [pytest.mark.ui, pytest.mark.usefixtures("no_rows")]


@pytest.fixture
def seeded(no_rows: Path) -> Seeded:
    return seed(no_rows)


def test_a_fresh_form_is_calm_and_says_what_it_still_needs() -> None:
    at = fresh()
    said = texts(at)
    assert "**Still needed:** Name · Model" in said
    assert red(at) == []
    assert len(at.error) == 0
    assert at.button(key=GO).disabled
    assert at.selectbox(key=START).value == "nothing:"
    assert [option.split(":")[0] for option in at.selectbox(key=START).options] == [
        *("Nothing", "Template kite-chat-and-tab", "Template kite-qwen3-30b-a3b", "Template quickstart"),
        "Template single-candidate",
    ]
    assert at.text_input(key="_launch_workload.users").value == "10000"


def test_a_template_fills_the_form_and_is_previewed() -> None:
    at = quickstart()
    assert at.text_input(key="_launch_name").value == "quickstart"
    names = [cell(at, row, "name").value for row in range(6)]
    assert names == ["bf16", "float32", "int8", "bf16 no prefix cache", "bf16 batch limit 2", "fp8"]
    assert cell(at, 2, "number format").value == "int8"
    assert cell(at, 3, "prefix caching").value == "off"
    assert cell(at, 4, "batch limit").value == "2"
    said = texts(at)
    # where all 3 rates are overloaded 2 of their 4 blocks of 18 s are measured: 1.8 min a run, and 10.8 for six of them
    assert "**6 candidates · 7 runs (1 for the noise floor) · at least 13 min**" in said
    assert markdown("No live worker serves queue cpu: runs wait until one is started with: kitedash worker.") in said
    assert not at.button(key=GO).disabled
    assert red(at) == []


def test_each_candidate_s_command_is_there() -> None:
    at = quickstart()
    box = at.selectbox(key="_launch_command_of")
    assert box.options[0] == "bf16 (baseline)"
    box.select("bf16 batch limit 2").run()
    (command,) = [code.value for code in at.code]
    assert "python -m vllm.entrypoints.openai.api_server \\\n  --model <model folder> \\\n" in command
    assert command.split(" \\\n  ")[-4:] == [
        "--dtype bfloat16",
        "--max-model-len 1024",
        "--block-size 32",
        "--max-num-seqs 2",
    ]
    assert "HF_HUB_OFFLINE=1" in command


@pytest.mark.parametrize(
    ("path", "text", "label", "sentence"),
    [
        ("name", "../etc", "Name", "must begin with a letter or digit"),
        ("workload.users", "many", "Users a day", "must be a whole number in digits, not 'many'"),
        ("workload.shared_prefix_tokens", "305", "Shared prefix", "must be at least 4 below input_tokens (306)"),
        ("load.rates_per_s", "3, 1", "Rates, requests/s", "holds 2 values; at least 3"),
        ("targets.pass_rate", "120", "Pass rate ≥ %", "must be above 0 and at most 100 %, not 120 %"),
        ("suites[0].margin", "x", "Suite 1, margin", "must be a number, not 'x'"),
        ("engine_args.block-size", "0", "block-size", "must be a whole number from 1 to 1,024, not 0"),
        ("repeats", "0", "Repeats", "must be at least 1, not 0"),
        ("environment", "LD_PRELOAD=x", "Environment", "LD_PRELOAD is not known"),
    ],
)
def test_a_refusal_stands_at_its_field_and_keeps_what_was_typed(
    path: str, text: str, label: str, sentence: str
) -> None:
    at = quickstart()
    if path == "environment":
        at.text_area(key="_launch_environment").set_value(text).run()
    else:
        typed(at, path, text)
        assert at.text_input(key=f"_launch_{path}").value == text
        assert at.text_input(key=f"_launch_{path}").label.startswith(":red[")
    said = red(at)
    assert len(said) == 2  # above, beside the button, and at the field
    assert all(one.startswith(f"**{markdown(label)}** {markdown(sentence)}") for one in said)
    assert at.button(key=GO).disabled


@pytest.mark.parametrize(
    ("column", "text", "sentence"),
    [
        ("name", "bf16", "the name 'bf16' is taken by candidate 1"),
        ("batch limit", "x", "must be a whole number from 1 to 65,536, not 'x'"),
        ("further arguments", "dtpe=float32", "dtpe is not known (did you mean dtype?)"),
        ("further arguments", "seed", "write name=value, such as max-num-seqs=4, not 'seed'"),
    ],
)
def test_a_candidate_s_refusal_stands_at_its_row(column: str, text: str, sentence: str) -> None:
    at = typed_in_row(quickstart(), 2, column, text)
    assert cell(at, 2, column).value == text
    assert cell(at, 2, column).proto.icon == ":material/error:"
    assert all(one.startswith(markdown(f"Candidate 3, {column}").join(("**", "** "))) for one in red(at))
    assert markdown(sentence) in red(at)[1]


def test_what_the_device_refuses_stands_at_the_row_and_the_others_may_go() -> None:
    at = typed_in_row(quickstart(), 2, "further arguments", "tensor-parallel-size=2")
    sentence = markdown("int8 asks for 2 devices; on the processor there is only 1.")
    assert [one.endswith(sentence) for one in red(at)] == [True, True]
    assert at.button(key=GO).disabled
    at.checkbox(key="_launch_leave_out").check().run()
    at.button(key=GO).click().run()
    with sessions(settings().url)() as session:
        found = {run.candidate_name: run.status for run in runs.of_experiment(session, stored()[0])}
    assert found["int8"] == "failed"
    assert set(found.values()) == {"failed", "queued"}
    assert len(found) == 6


def test_several_refusals_are_all_at_their_fields() -> None:
    at = typed(typed(typed_in_row(quickstart(), 1, "batch limit", "x"), "repeats", "0"), "load.seed", "y")
    above = [one for one in red(at) if one.startswith("**Also to be mended:**")]
    assert len(above) == 1
    assert len(red(at)) == 2 + 1 + 3  # two in full, the third by name, and each at its field


def test_launching_stores_the_experiment_once_and_leads_to_its_runs() -> None:
    at = quickstart()
    at.button(key=GO).click().run()
    (experiment_id,) = stored()
    assert at.query_params["experiment"] == experiment_id
    with sessions(settings().url)() as session:
        spec = experiments.spec_of(experiments.get(session, experiment_id))
        assert len(runs.of_experiment(session, experiment_id)) == 7  # six candidates, and the baseline once more
    assert spec == parse_experiment(QUICKSTART)


def test_a_double_click_launches_once() -> None:
    at = quickstart()
    before = state(at)
    at.button(key=GO).click().run()
    again = quickstart()
    again.session_state["_launch"] = before  # the second click was under way while the first one launched
    again.run()
    again.button(key=GO).click().run()
    assert len(stored()) == 1
    assert again.query_params["experiment"] == stored()[0]


def test_after_a_launch_the_same_form_launches_again_only_on_purpose() -> None:
    at = quickstart()
    at.button(key=GO).click().run()
    at.switch_page("pages/launch.py").run()
    assert not [button for button in at.button if button.key == GO]
    next(button for button in at.button if button.label == "Launch again").click().run()
    at.button(key=GO).click().run()
    assert len(stored()) == 2


def test_an_edit_after_a_launch_is_another_launch() -> None:
    at = quickstart()
    at.button(key=GO).click().run()
    at.switch_page("pages/launch.py").run()
    typed(at, "name", "quickstart 2").button(key=GO).click().run()
    assert len(stored()) == 2


def test_what_was_typed_is_there_after_another_page() -> None:
    at = typed(typed(fresh(), "name", "mine"), "workload.users", "not a number")
    typed_in_row(at, 0, "further arguments", "half a")
    at.switch_page("pages/tradeoff.py").run()
    at.switch_page("pages/launch.py").run()
    assert not at.exception
    assert at.text_input(key="_launch_name").value == "mine"
    assert at.text_input(key="_launch_workload.users").value == "not a number"
    assert cell(at, 0, "further arguments").value == "half a"


def test_beginning_from_something_else_can_be_undone() -> None:
    at = typed(quickstart(), "name", "mine")
    begun(at, "template:single-candidate")
    assert at.text_input(key="_launch_name").value == "single candidate"
    next(button for button in at.button if button.label == "Previous form").click().run()
    assert at.text_input(key="_launch_name").value == "mine"
    assert len(form(at).candidates) == 6


def test_rows_are_added_copied_removed_and_one_is_the_baseline() -> None:
    at = quickstart()
    row_button(at, 2, "content_copy").click().run()
    assert [row.name for row in form(at).candidates][2:4] == ["int8", "int8 2"]
    assert red(at) == []  # a copy waits for its change
    assert "change one thing" in texts(at)
    typed_in_row(at, 3, "batch limit", "8")
    assert "**7 candidates · 8 runs" in texts(at)
    assert "1 change against quickstart" in [one.proto.popover.label for one in at.get("popover")]
    assert at.dataframe[0].value.to_numpy().tolist() == [["candidate int8 2", "–", "quantization=int8, max-num-seqs=8"]]
    row_button(at, 3, "baseline").click().run()
    assert form(at).baseline == "int8 2"
    typed_in_row(at, 3, "name", "int8 limit 8")
    assert form(at).baseline == "int8 limit 8"
    row_button(at, 0, "delete").click().run()
    assert [row.name for row in form(at).candidates][:3] == ["float32", "int8", "int8 limit 8"]
    assert cell(at, 2, "batch limit").value == "8"
    next(button for button in at.button if button.label == "Add a candidate").click().run()
    assert cell(at, 6, "name").value == ""
    assert red(at) == []


def test_arguments_are_added_and_go_when_emptied() -> None:
    at = quickstart()
    at.selectbox(key="_launch_engine_args_add").select("seed").run()
    typed(at, "engine_args.seed", "7")
    assert "seed: 7" in to_yaml_of(at)
    at = form_again(at)
    typed(at, "engine_args.seed", "")
    assert "seed" not in [row.name for row in form(at).engine_args]
    at.selectbox(key="_launch_matrix_add").select("max-num-batched-tokens").run()
    typed(at, "matrix.max-num-batched-tokens", "2048, 4096")
    assert "**8 candidates · 9 runs" in texts(at)
    assert "It makes 2: batched 2048; batched 4096." in texts(at)


def test_the_yaml_is_the_form_s_and_an_edited_one_becomes_the_form() -> None:
    at = quickstart()
    assert parse_experiment(to_yaml_of(at)) == parse_experiment(QUICKSTART)
    next(button for button in at.button if button.label == "Edit").click().run()
    edited = QUICKSTART.replace("peak_factor: 5", "peak_factor: 7")
    at.text_area(key="_launch_yaml_text").set_value(edited).run()
    assert at.button(key=GO).disabled  # not before the edit is in the form
    next(button for button in at.button if button.label == "Put into form").click().run()
    assert at.text_input(key="_launch_workload.peak_factor").value == "7"
    assert not at.button(key=GO).disabled


def test_a_broken_edit_is_refused_in_one_sentence_and_kept() -> None:
    at = quickstart()
    to_yaml_of(at)
    next(button for button in at.button if button.label == "Edit").click().run()
    broken = QUICKSTART.replace("guardrails:", "guardrail:")
    at.text_area(key="_launch_yaml_text").set_value(broken).run()
    next(button for button in at.button if button.label == "Put into form").click().run()
    assert at.text_area(key="_launch_yaml_text").value == broken
    assert any(one.startswith(markdown("guardrail: is not known (did you mean guardrails?)")) for one in red(at))
    form_again(at)
    assert "Edits under YAML are not in the form yet" in texts(at)
    assert form(at) == state(quickstart()).form  # the form is as it was
    to_yaml_of_edit = at.get_by_key(VIEW).set_value("YAML").run()
    assert to_yaml_of_edit.text_area(key="_launch_yaml_text").value == broken
    next(button for button in at.button if button.label == "Discard edits").click().run()
    assert len(at.text_area) == 0


def test_an_uploaded_file_fills_the_form() -> None:
    at = fresh()
    at.file_uploader[0].upload("mine.yaml", SINGLE.encode()).run()
    assert not at.exception
    assert at.text_input(key="_launch_name").value == "single candidate"
    assert at.selectbox(key=START).value == "file:mine.yaml"
    assert "**1 candidate · 1 run" in texts(at)


@pytest.mark.parametrize(
    ("content", "says", "kept"),
    [
        (
            SINGLE.replace("block-size", "blok-size").encode(),
            "blok-size: is not known (did you mean block-size?)",
            True,
        ),
        (b"a: [", "this is not valid YAML", True),
        (b"\x89PNG\r\n\x1a\n\xff", "the file is not UTF-8 text", False),
        (b"x" * 2_000_000, "the file has 2,000,000 bytes", False),
    ],
)
def test_an_uploaded_file_that_is_refused_is_shown_to_be_mended(content: bytes, says: str, kept: bool) -> None:
    at = fresh()
    at.file_uploader[0].upload("mine.yaml", content).run()
    assert not at.exception
    assert any(markdown(says) in one for one in red(at))
    assert [area.value for area in at.text_area] == ([content.decode()] if kept else [])


def test_an_experiment_is_cloned_with_a_copy_of_a_candidate(seeded: Seeded) -> None:
    at = opened("launch", {"clone": seeded.many, "candidate": "int8"})
    assert [row.name for row in form(at).candidates][-1] == "int8 2"
    assert at.selectbox(key=START).value == f"experiment:{seeded.many}"
    assert any(option.startswith("Experiment quickstart · 20") for option in at.selectbox(key=START).options)


def test_choosing_an_experiment_writes_it_to_the_address(seeded: Seeded) -> None:
    at = begun(fresh(), f"experiment:{seeded.one}")
    assert at.query_params["clone"] == seeded.one
    assert [row.name for row in form(at).candidates] == ["float32"]
    begun(at, "template:quickstart")
    assert "clone" not in at.query_params


def test_an_unknown_experiment_is_said_and_leaves_an_empty_form() -> None:
    at = opened("launch", {"clone": "none-such"})
    assert markdown("No experiment has the id 'none-such'.") in at.error[0].value
    assert form(at) == ExperimentForm()


def test_runs_that_wait_before_it_are_counted(seeded: Seeded) -> None:
    said = texts(quickstart())  # its worker is alive
    assert "5 runs in the queue before it" in said  # of the seeded experiment that runs: 8, less 3 begun
    assert "No live worker" not in said


def test_a_worker_that_fell_silent_serves_nothing() -> None:
    silent = datetime.now(UTC) - timedelta(minutes=2)
    with sessions(settings().url).begin() as session:
        workers.beat(session, "h:cpu", host="h", pid=1, queue="cpu", device_name="AMD EPYC 7B13", now=silent)
        assert session.get(Worker, "h:cpu") is not None
    at = quickstart()
    assert markdown("No live worker serves queue cpu") in texts(at)
    assert not at.button(key=GO).disabled  # it may be started later


def test_a_viewer_sees_the_form_and_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "current_user", lambda: Actor("vera", "viewer"))
    at = quickstart()
    assert at.button(key=GO).disabled
    assert markdown("vera is viewer and may not launch experiments: that takes engineer or above.") in texts(at)
    assert "**6 candidates · 7 runs" in texts(at)


def test_names_from_outside_are_shown_as_they_are() -> None:
    spec = parse_experiment(SINGLE.replace("name: single candidate", "name: single\ndescription: '<b>*x*</b> :red[y]'"))
    launch(spec, Actor("e", "engineer"))
    at = begun(fresh(), f"experiment:{stored()[0]}")
    assert at.text_input(key="_launch_description").value == "<b>*x*</b> :red[y]"
    assert not any("<b>" in one.value for one in at.markdown)
