"""What differs between two experiments, field by field."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kitedash.domain.experiment import ExperimentSpec, MemoryPlan
from kitedash.domain.experiment_file import parse_experiment
from kitedash.domain.experiment_form import data_of, form_of
from kitedash.domain.form_checks import check
from kitedash.domain.form_fields import ExperimentForm, with_copy, with_value, without
from kitedash.domain.form_traffic import with_kind
from kitedash.domain.spec_changes import Change, spec_changes

FOLDER = Path(__file__).resolve().parents[3] / "experiments"
BEFORE = parse_experiment((FOLDER / "quickstart.yaml").read_text(encoding="utf-8"))
FORM = form_of(BEFORE)


def changes(form: ExperimentForm) -> tuple[Change, ...]:
    spec = check(form).spec
    assert spec is not None
    return spec_changes(BEFORE, spec)


def test_equal_experiments_differ_in_nothing() -> None:
    assert changes(FORM) == ()
    assert data_of(FORM)["workload"]["users"] == 10_000


def test_one_change_of_a_field_is_one_row() -> None:
    assert changes(with_value(FORM, "workload.users", "20000")) == (Change("workload.users", "10000", "20000"),)
    assert changes(with_value(FORM, "targets.pass_rate", "60")) == (Change("targets.pass_rate", "0.5", "0.6"),)
    assert changes(with_value(FORM, "load.rates_per_s", "1, 3, 9")) == (
        Change("load.rates_per_s", "1.0, 3.0, 8.0", "1.0, 3.0, 9.0"),
    )
    assert changes(with_value(FORM, "suites[0].margin", "3")) == (Change("suites.kitedash_repo", "0.05", "0.03"),)


def test_kinds_of_requests_are_told_by_their_names() -> None:
    mixed = with_kind(FORM)
    before = check(mixed).spec
    assert before is not None
    flat = {one.path: (one.before, one.after) for one in changes(mixed)}
    assert flat["workload.input_tokens"][1] == "", "it says nothing beside a mix"
    assert flat["workload.mix chat"][0] == ""
    assert "input_tokens=306" in flat["workload.mix chat"][1]
    after = check(with_value(mixed, "mix[0].weight", "2")).spec
    assert after is not None
    assert spec_changes(before, after) == (Change("workload.mix chat.weight", "1.0", "2.0"),)


def test_a_candidate_s_arguments_are_told_one_by_one() -> None:
    form = with_value(with_value(FORM, "candidates[4].max_num_seqs", "4"), "candidates[1].further", "seed=7")
    assert changes(form) == (
        Change("float32: engine_args.seed", "", "7"),
        Change("bf16 batch limit 2: engine_args.max-num-seqs", "2", "4"),
    )


def test_a_new_candidate_is_one_row_with_all_it_holds() -> None:
    form = with_value(with_copy(FORM, 2), "candidates[3].max_num_seqs", "8")
    assert changes(form) == (Change("candidate int8 2", "", "quantization=int8, max-num-seqs=8"),)


def test_one_that_is_gone_is_told_too() -> None:
    assert changes(without(FORM, 5)) == (Change("candidate fp8", "quantization=fp8", ""),)


def test_types_differ() -> None:
    text = with_value(FORM, "engine_args.max-model-len", "2048")
    assert changes(text) == (Change("engine_args.max-model-len", "1024", "2048"),)


def test_the_search_the_noise_floor_and_the_memory_stage_are_told() -> None:
    searched = with_value(with_value(FORM, "load.search", "true"), "load.search_most_blocks", "12")
    assert changes(searched) == (
        Change("load.search", "false", "true"),
        Change("load.search_most_blocks", "30", "12"),
    )
    floor = "false" if BEFORE.noise_floor else "true"
    assert changes(replace(FORM, noise_floor=floor)) == (
        Change("noise_floor", "true" if BEFORE.noise_floor else "false", floor),
    )
    tried = replace(FORM, memory=replace(FORM.memory, tried="true", most_concurrency="64"))
    assert changes(tried) == (Change("memory", "", "most_concurrency=64, output_tokens=16"),)
    before, after = check(tried).spec, check(with_value(tried, "memory.output_tokens", "8")).spec
    assert before is not None
    assert after is not None
    assert spec_changes(before, after) == (Change("memory.output_tokens", "16", "8"),)
    assert spec_changes(after, BEFORE) == (Change("memory", "most_concurrency=64, output_tokens=8", ""),)


def test_no_field_of_an_experiment_is_forgotten() -> None:
    """Each field of the specification, changed by itself, is a row."""
    told = {
        "name": "another",
        "description": "another",
        "model": "another",
        "engine_args": {"seed": 3},
        "environment": {"OMP_NUM_THREADS": "3"},
        "devices": 2,
        "candidates": BEFORE.candidates[:-1],
        "matrix": {"seed": (1, 2)},
        "exclude": ({"seed": 1},),
        "baseline": BEFORE.candidates[1].name,
        "workload": BEFORE.workload.model_copy(update={"users": 1}),
        "load": BEFORE.load.model_copy(update={"search": True}),
        "suites": (),
        "targets": BEFORE.targets.model_copy(update={"pass_rate": 0.9}),
        "guardrails": BEFORE.guardrails.model_copy(update={"error_rate": 0.5}),
        "repeats": 2,
        "noise_floor": not BEFORE.noise_floor,
        "memory": MemoryPlan(),
    }
    assert set(told) == set(ExperimentSpec.model_fields)
    for name, value in told.items():
        assert spec_changes(BEFORE, BEFORE.model_copy(update={name: value})), name
