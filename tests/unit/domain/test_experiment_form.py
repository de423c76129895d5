"""The form holds any experiment without loss, and says what is wrong at the field where it was typed."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kitedash.domain import plain_yaml
from kitedash.domain.experiment import CandidateSpec, ExperimentSpec
from kitedash.domain.experiment_file import experiment_from, parse_experiment, to_yaml
from kitedash.domain.experiment_form import data_of, form_of, number, per_cent_text, row_of, share_of
from kitedash.domain.form_checks import Refusal, check, field_of
from kitedash.domain.form_fields import (
    ArgumentRow,
    CandidateRow,
    ExperimentForm,
    SuiteRow,
    free_name,
    value_at,
    with_copy,
    with_value,
    without,
)
from tests.unit.domain.experiments import TEXT, WIDE_KINDS, experiments, kinds_of

FOLDER = Path(__file__).resolve().parents[3] / "experiments"
QUICKSTART = parse_experiment((FOLDER / "quickstart.yaml").read_text(encoding="utf-8"))
KITE = parse_experiment((FOLDER / "kite-qwen3-30b-a3b.yaml").read_text(encoding="utf-8"))
FORM = form_of(QUICKSTART)


def test_form_to_yaml_to_form_loses_nothing() -> None:
    met: set[str] = set()

    @settings(max_examples=500, deadline=None)
    @given(experiments())
    def nothing_is_lost(spec: ExperimentSpec) -> None:
        met.update(kinds_of(spec))
        form = form_of(spec)
        checked = check(form)
        assert checked.refusals == ()
        assert checked.spec == spec
        assert with_types(checked.spec) == with_types(spec)
        assert [one.name for one in checked.spec.candidates] == [one.name for one in spec.candidates]
        assert form_of(parse_experiment(to_yaml(checked.spec))) == form

    nothing_is_lost()
    assert WIDE_KINDS - met == set()  # what was never drawn


def with_types(spec: ExperimentSpec) -> str:
    """1, 1.0 and true are equal in Python, but not as text."""
    return json.dumps(spec.model_dump(mode="json"), sort_keys=True)


@pytest.mark.parametrize("name", ["quickstart", "kite-chat-and-tab", "kite-qwen3-30b-a3b", "single-candidate"])
def test_the_files_that_come_along_survive(name: str) -> None:
    spec = parse_experiment((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    assert experiment_from(data_of(form_of(spec))) == spec
    assert parse_experiment(plain_yaml.dump(data_of(form_of(spec)))) == spec


def test_what_has_a_column_stands_in_it() -> None:
    args = {"quantization": "fp8", "dtype": "float16", "max-num-seqs": 4, "enable-prefix-caching": False, "seed": 7}
    row = row_of(CandidateSpec(name="x", engine_args=args, cpu_engine_args={"dtype": "float32"}, devices=2))
    assert row == CandidateRow("x", "fp8", "4", "off", "dtype=float16, seed=7", "dtype=float32", devices="2")
    assert row_of(CandidateSpec(name="x", engine_args={"dtype": "auto"})).further == "dtype=auto"
    assert row_of(CandidateSpec(name="x", engine_args={"quantization": "none"})).number_format == "unquantised"
    assert row_of(CandidateSpec(name="x")) == CandidateRow("x")


def test_values_that_a_column_can_not_hold_stay_as_they_are() -> None:
    row = row_of(CandidateSpec(name="x", engine_args={"max-num-seqs": "4", "enable-prefix-caching": 1}))
    assert (row.max_num_seqs, row.prefix_caching) == ("", "")
    assert row.further == 'max-num-seqs="4", enable-prefix-caching=1'


def test_an_empty_form_asks_for_what_has_no_default() -> None:
    checked = check(ExperimentForm())
    assert checked.spec is None
    assert [one.field for one in checked.refusals] == [
        *("name", "model", "load.rates_per_s", "targets.ttft_p90_ms", "targets.cost_per_1000_requests_usd"),
        *("targets.pass_rate", "guardrails.tpot_p90_ms"),
    ]
    assert all(one.pending for one in checked.refusals)  # nothing was typed that would be wrong


def test_the_defaults_of_the_form_are_those_of_the_file() -> None:
    needed = {
        "name": "x",
        "model": "m",
        "load.rates_per_s": "1, 2, 4",
        "targets.ttft_p90_ms": "1",
        "targets.cost_per_1000_requests_usd": "1",
        "targets.pass_rate": "50",
        "guardrails.tpot_p90_ms": "1",
    }
    form = ExperimentForm()
    for path, text in needed.items():
        form = with_value(form, path, text)
    assert check(form).spec == experiment_from(
        {
            "name": "x",
            "model": "m",
            "candidates": [{"name": "baseline"}],
            "baseline": "baseline",
            "workload": {},
            "load": {"rates_per_s": [1, 2, 4]},
            "targets": {"ttft_p90_ms": 1, "cost_per_1000_requests_usd": 1, "pass_rate": 0.5},
            "guardrails": {"tpot_p90_ms": 1},
        }
    )


@pytest.mark.parametrize(
    ("path", "text", "sentence"),
    [
        ("name", "../etc", "must begin with a letter or digit"),
        ("workload.users", "many", "must be a whole number in digits, not 'many'"),
        ("workload.users", "1.5", "must be a whole number in digits, not 1.5"),
        ("workload.peak_factor", "0.5", "must be at least 1, not 0.5"),
        ("workload.shared_prefix_tokens", "305", "must be at least 4 below input_tokens (306)"),
        ("load.rates_per_s", "1, 2", "holds 2 values; at least 3"),
        ("load.rates_per_s", "1, 2, fast", "must be a number, not 'fast'"),
        ("load.rates_per_s", "4, 2, 1", "must be different rates in ascending order"),
        ("load.warm_up_s", "18", "must be below block_duration_s (18), not 18"),
        ("load.seed", "x", "must be a whole number in digits, not 'x'"),
        ("targets.ttft_p90_ms", "-1", "must be above 0, not -1"),
        ("targets.pass_rate", "120", "must be above 0 and at most 100 %, not 120 %"),
        ("targets.pass_rate", "half", "must be a number, not 'half'"),
        ("guardrails.error_rate", "100", "must be at least 0 and below 100 %, not 100 %"),
        ("suites[1].margin", "0", "must be above 0 and below 100 %, not 0 %"),
        ("baseline", "bf61", "'bf61' is none of the candidates (did you mean bf16?)"),
        ("repeats", "99", "must be at most 10, not 99"),
        ("engine_args.max-model-len", "10", "must be a whole number from 16 to 10,000,000, not 10"),
        ("engine_args.dtype", "fp64", "must be one of auto, bfloat16, float16, float32, not 'fp64'"),
        ("environment", "LD_PRELOAD=x", "LD_PRELOAD is not known"),
        ("environment", "OMP_NUM_THREADS", "write NAME=value"),
        ("candidates[1].name", "bf16", "the name 'bf16' is taken by candidate 1"),
        ("candidates[1].max_num_seqs", "x", "must be a whole number from 1 to 65,536, not 'x'"),
        ("candidates[1].further", "dtpe=float32", "dtpe is not known (did you mean dtype?)"),
        ("candidates[1].further", "dtype=float16", "dtype is set in its column already"),
        ("candidates[1].further", "trust-remote-code=true", "is refused because it can run code"),
        ("candidates[1].cpu_further", "quantization=fp8", "can't differ by device; write it under engine_args"),
        ("candidates[1].environment", "OMP_NUM_THREADS=x", "OMP_NUM_THREADS must be a whole number from 1"),
        ("candidates[1].devices", "2", "must equal tensor-parallel-size x"),
    ],
)
def test_what_is_wrong_is_said_at_its_field_and_stays_typed(path: str, text: str, sentence: str) -> None:
    form = with_value(FORM, path, text)
    checked = check(form)
    assert checked.spec is None
    assert [one.field for one in checked.refusals] == [path]
    assert sentence in checked.refusals[0].sentence
    assert "\n" not in checked.refusals[0].sentence
    assert not checked.refusals[0].pending
    assert value_at(form, path) == text


@pytest.mark.parametrize(
    ("path", "text", "sentence"),
    [
        ("matrix.max-num-seqs", "32, 32", "holds 32 twice"),
        ("matrix.enable-prefix-caching", "yes", "must be true or false, not 'yes'"),
        ("exclude[1]", "max-num-seqs=5", "matches nothing: the matrix holds 32, 128, not 5"),
        ("exclude[1]", "max-num-seqs", "write name=value"),
        ("baseline", "x", "'x' is none of the candidates"),
    ],
)
def test_the_matrix_is_refused_at_its_own_fields(path: str, text: str, sentence: str) -> None:
    refusals = check(with_value(form_of(KITE), path, text)).refusals
    assert [one.field for one in refusals] == [path]
    assert sentence in refusals[0].sentence


def test_the_list_of_all_arguments_is_not_poured_into_a_sentence() -> None:
    (refusal,) = check(with_value(FORM, "candidates[1].further", "dtpe=float32")).refusals
    assert refusal.sentence == "dtpe is not known (did you mean dtype?)"
    (refusal,) = check(with_value(FORM, "workload.arrivals", "burst")).refusals
    assert refusal.sentence == "must be 'poisson', 'constant' or 'gamma', not 'burst'"


def test_several_fields_are_refused_at_once() -> None:
    form = with_value(with_value(FORM, "workload.users", "x"), "candidates[2].further", "kv-cache-dtpe=fp8")
    form = with_value(form, "candidates[3].further", "seed")
    assert {one.field for one in check(form).refusals} == {
        *("workload.users", "candidates[2].further", "candidates[3].further"),
    }


def test_a_copy_waits_for_its_one_change() -> None:
    form = with_copy(FORM, 2)
    assert [row.name for row in form.candidates] == [
        *("bf16", "float32", "int8", "int8 2", "bf16 no prefix cache", "bf16 batch limit 2", "fp8"),
    ]
    (refusal,) = check(form).refusals
    said = "'int8 2' is the same configuration as 'int8': change one thing"
    assert refusal == Refusal("candidates[3].name", said, pending=True)
    assert check(with_value(form, "candidates[3].max_num_seqs", "8")).refusals == ()


def test_the_baseline_follows_its_candidate() -> None:
    assert with_value(FORM, "candidates[0].name", "first").baseline == "first"
    assert with_value(FORM, "candidates[1].name", "second").baseline == "bf16"
    assert without(FORM, 0).baseline == "float32"
    assert without(FORM, 1).baseline == "bf16"


def test_an_argument_that_is_emptied_goes() -> None:
    form = with_value(form_of(KITE), "exclude[0]", "")
    assert form.exclude == ("max-num-seqs=32, enable-prefix-caching=false",)
    assert [row.name for row in with_value(form, "matrix.model", " ").matrix] == [
        "max-num-seqs",
        "enable-prefix-caching",
    ]
    assert [row.name for row in with_value(FORM, "engine_args.dtype", "").engine_args] == [
        *("max-model-len", "block-size", "max-num-seqs"),
    ]


def test_an_argument_without_a_value_does_not_count() -> None:
    form = replace(FORM, engine_args=(*FORM.engine_args, ArgumentRow("seed")), matrix=(ArgumentRow("seed"),))
    assert check(form).spec == QUICKSTART


def test_new_names_are_free_and_short_enough() -> None:
    assert free_name("a", ["a", "a 2", "a 3"]) == "a 4"
    assert len(free_name("x" * 80, ["x" * 80])) <= 80


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("candidates[1].engine_args.max_num_seqs", "candidates[1].further"),  # its column is empty
        ("candidates[4].engine_args.max-num-seqs", "candidates[4].max_num_seqs"),
        ("candidates[2].engine_args.quantization", "candidates[2].number_format"),
        ("candidates[2].model", "candidates[2].model"),
        ("candidates[2]", "candidates[2].name"),
        ("candidates[99]", "candidates"),
        ("load.rates_per_s[2]", "load.rates_per_s"),
        ("suites[0]", "suites[0]"),
        ("suites[0].margin", "suites[0].margin"),
        ("environment.A.B", "environment"),
        ("matrix.no-such", "matrix"),
        ("", ""),
    ],
)
def test_paths_lead_to_fields(path: str, field: str) -> None:
    assert field_of(path, FORM) == field


@pytest.mark.parametrize(
    ("text", "value"), [("10,000", 10_000), ("1,00", "1,00"), ("1e3", 1000.0), (" 7 ", 7), ("seven", "seven")]
)
def test_numbers_as_people_type_them(text: str, value: object) -> None:
    assert number(text) == value
    assert type(number(text)) is type(value)


@given(st.floats(0, 1))
def test_per_cent_is_exact(share: float) -> None:
    assert share_of(per_cent_text(share)) == share


def test_per_cent_as_it_is_read() -> None:
    assert [per_cent_text(share) for share in (0.05, 0.07, 1.0, 0.295)] == ["5", "7", "100", "29.5"]


FIELDS = [
    *("name", "description", "model", "environment", "devices", "baseline", "repeats", "workload.users"),
    *("workload.arrivals", "load.rates_per_s", "targets.pass_rate", "suites[0].margin", "engine_args.dtype"),
    *("candidates[0].name", "candidates[0].number_format", "candidates[0].max_num_seqs", "candidates[0].further"),
    *(
        "candidates[0].prefix_caching",
        "candidates[0].cpu_further",
        "candidates[0].environment",
        "candidates[0].devices",
    ),
]


@given(st.sampled_from(FIELDS), TEXT | st.text(max_size=10))
def test_whatever_is_typed_is_an_experiment_or_refused_in_one_line(path: str, text: str) -> None:
    began = time.process_time()
    form = with_value(FORM, path, text)
    checked = check(form)
    assert time.process_time() - began < 1
    assert (checked.spec is None) == bool(checked.refusals)
    assert all("\n" not in one.sentence for one in checked.refusals)
    assert text.strip() == "" or value_at(form, path) == text


def test_a_suite_that_is_not_known_is_kept() -> None:
    form = replace(FORM, suites=(SuiteRow("mine_2", "3"), *FORM.suites))
    spec = check(form).spec
    assert spec is not None
    assert [suite.name for suite in spec.suites] == ["mine_2", "kitedash_repo", "hellaswag_100"]
