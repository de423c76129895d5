"""The launch page's one call on a real database: what a form begins from, and what a launch would do with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kitedash.domain.errors import InvalidInput, NotFound
from kitedash.domain.experiment import ExperimentSpec
from kitedash.domain.experiment_file import parse_experiment
from kitedash.domain.experiment_form import form_of
from kitedash.domain.form_fields import CandidateRow, SuiteRow, with_value
from kitedash.domain.spec_changes import Change
from kitedash.services import launch_page
from kitedash.services.actor import LOCAL, Actor
from kitedash.services.launch import launch
from kitedash.services.launch_page import Start
from kitedash.services.templates import FOLDER

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("on_url")]
QUICKSTART = Start("template", "quickstart")


def read(name: str) -> ExperimentSpec:
    return parse_experiment((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))


def test_a_fresh_form_has_no_preview_yet() -> None:
    page = launch_page.page(LOCAL, Start())
    assert page.preview is None
    assert page.spec is None
    assert {one.pending for one in page.refusals} == {True}
    assert [one.name for one in page.templates] == [
        "kite-chat-and-tab",
        "kite-qwen3-30b-a3b",
        "quickstart",
        "single-candidate",
    ]
    assert page.earlier == ()
    assert [(one.name, one.n_items > 50) for one in page.suites] == [("kitedash_repo", True), ("hellaswag_100", True)]
    assert page.not_allowed == ""


def test_a_template_is_previewed_and_written_as_a_file() -> None:
    page = launch_page.page(LOCAL, QUICKSTART)
    assert page.spec == read("quickstart")
    assert parse_experiment(page.yaml) == page.spec
    assert page.preview is not None
    assert [one.name for one in page.preview.candidates] == [one.name for one in read("quickstart").candidates]
    assert page.preview.runs == 7  # six candidates, and the baseline once more for the noise floor
    assert page.changes == ()


def test_a_clone_differs_in_its_one_change() -> None:
    experiment_id = launch(read("quickstart"), LOCAL)
    start = Start("experiment", experiment_id, "int8")
    page = launch_page.page(LOCAL, start)
    assert [one.id for one in page.earlier] == [experiment_id]
    assert page.form.candidates[-1] == CandidateRow("int8 2", "int8")
    assert [one.field for one in page.refusals] == ["candidates[6].name"]
    changed = launch_page.page(LOCAL, start, with_value(page.form, "candidates[6].max_num_seqs", "8"))
    assert changed.changes == (Change("candidate int8 2", "", "quantization=int8, max-num-seqs=8"),)
    assert changed.changed_from == "quickstart"
    assert changed.preview is not None
    assert changed.preview.waiting_runs == 7


def test_a_candidate_of_a_matrix_is_copied_with_its_combination() -> None:
    spec = read("kite-qwen3-30b-a3b")
    form = launch_page.form_with_copy(spec, "Qwen3-30B-A3B-Instruct-2507-FP8 · seqs 32 · prefix cache")
    assert form.candidates == (
        CandidateRow(
            name="Qwen3-30B-A3B-Instruct-2507-FP8 · seqs 32 · prefix cache 2",
            max_num_seqs="32",
            prefix_caching="on",
            model="Qwen/Qwen3-30B-A3B-Instruct-2507-FP8",
        ),
    )


@pytest.mark.parametrize("start", [Start("template", "none"), Start("experiment", "none")])
def test_what_is_not_there_is_not_found(start: Start) -> None:
    with pytest.raises(NotFound):
        launch_page.page(LOCAL, start)


def test_a_candidate_that_is_not_there_is_not_found() -> None:
    with pytest.raises(NotFound, match="has no candidate 'bf17'"):
        launch_page.form_with_copy(read("quickstart"), "bf17")


def test_a_template_that_is_refused_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.yaml").write_text("name: mine\n")
    mine = launch_page.templates(tmp_path)
    monkeypatch.setattr(launch_page, "templates", lambda: mine)
    with pytest.raises(InvalidInput, match="model: is missing"):
        launch_page.page(LOCAL, Start("template", "mine"))


def test_what_only_a_launch_refuses_stands_at_its_field() -> None:
    form = form_of(read("quickstart"))
    page = launch_page.page(LOCAL, QUICKSTART, with_value(form, "engine_args.max-model-len", "400"))
    assert [one.field for one in page.refusals] == ["suites[1]"]
    assert page.refusals[0].sentence.startswith("hellaswag_100 needs a max-model-len of ")
    page = launch_page.page(LOCAL, QUICKSTART, replace(form, suites=(SuiteRow("no_such"),)))
    assert [one.field for one in page.refusals] == ["suites"]
    assert page.preview is None


def test_what_the_device_can_not_do_is_the_candidate_s() -> None:
    form = form_of(read("quickstart"))
    page = launch_page.page(LOCAL, QUICKSTART, with_value(form, "candidates[2].further", "tensor-parallel-size=2"))
    assert page.preview is not None
    refused = {one.name: one.refused_field for one in page.preview.candidates if one.refusal}
    assert refused == {"int8": "candidates[2]"}
    assert not page.all_refused


def test_a_form_that_is_not_complete_is_written_as_far_as_it_goes() -> None:
    form = with_value(form_of(read("quickstart")), "workload.users", "many")
    assert "  users: many\n" in launch_page.page(LOCAL, QUICKSTART, form).yaml
    assert launch_page.page(LOCAL, QUICKSTART, with_value(form, "candidates[0].further", "x")).yaml == ""


def test_a_viewer_reads_why_not() -> None:
    assert launch_page.page(Actor("vera", "viewer"), Start()).not_allowed == (
        "vera is viewer and may not launch experiments: that takes engineer or above."
    )
