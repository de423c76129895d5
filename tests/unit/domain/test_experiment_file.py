"""Experiment files: what is accepted, how it is written back, and that whatever is wrong is one clear sentence."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kitedash.domain.errors import InvalidInput
from kitedash.domain.expand import expand
from kitedash.domain.experiment import ExperimentSpec, SuiteChoice
from kitedash.domain.experiment_file import experiment_from, parse_experiment, to_yaml
from tests.unit.domain.experiments import experiments

FILE = """\
name: try
model: SmolLM2-135M-Instruct
engine_args: {max_model_len: 1024, dtype: bfloat16}
matrix: {quantization: [none, fp8], max-num-seqs: [4, 16], enable-prefix-caching: [true, false]}
exclude:
  - {quantization: fp8, max-num-seqs: 4}
baseline: bfloat16, seqs 16, prefix cache
workload: {users: 10000, input_tokens: 306, shared_prefix_tokens: 290, output_tokens: 20}
load: {rates_per_s: [1, 2, 4]}
suites: [{name: kitedash_repo}]
targets: {ttft_p90_ms: 1e3, cost_per_1000_requests_usd: 0.1, pass_rate: 0.5}
guardrails: {tpot_p90_ms: 100}
"""


def refused(old: str, new: str, *, where: str = FILE) -> str:
    assert old in where
    with pytest.raises(InvalidInput) as caught:
        parse_experiment(where.replace(old, new, 1))
    return str(caught.value)


def assert_valid_or_refused(read: Callable[[], ExperimentSpec]) -> None:
    """Whatever else is raised fails the test that calls this."""
    said, spec = "", None
    try:
        spec = read()
    except InvalidInput as error:
        said = str(error)
    assert "\n" not in said
    assert said if spec is None else expand(spec)


def test_reads_what_is_written() -> None:
    spec = parse_experiment(FILE)
    assert spec.name == "try"
    assert spec.engine_args == {"max-model-len": 1024, "dtype": "bfloat16"}
    assert spec.targets.ttft_p90_ms == 1000
    assert spec.load.rates_per_s == (1.0, 2.0, 4.0)
    assert spec.suites == (SuiteChoice(name="kitedash_repo", margin=0.05),)


def test_baseline_may_be_typed_without_the_middle_dot() -> None:
    assert parse_experiment(FILE).baseline == "bfloat16 · seqs 16 · prefix cache"


def test_spellings_of_one_meaning_are_equal() -> None:
    kebab = FILE.replace("max_model_len", "max-model-len").replace("bfloat16, seqs", "bfloat16 · seqs")
    assert parse_experiment(kebab) == parse_experiment(FILE)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            "rates_per_s",
            "ratez",
            "load.ratez: is not known (did you mean rates_per_s?); allowed: rates_per_s, blocks, ",
        ),
        ("model: Smol", "modle: Smol", "modle: is not known (did you mean model?); allowed: name, description, model"),
        ("model: SmolLM2-135M-Instruct\n", "", "model: is missing (the default model's name, a folder or a hub id"),
        ("[1, 2, 4]", "[1]", "load.rates_per_s: holds 1 value; at least 3"),
        ("[1, 2, 4]", "[1, 2, .nan]", "load.rates_per_s[2]: must be a finite number, not NaN"),
        ("[1, 2, 4]", "[1, 2, .inf]", "load.rates_per_s[2]: must be a finite number, not an infinite number"),
        ("[1, 2, 4]", "[4, 2, 1]", "load.rates_per_s: must be different rates in ascending order"),
        ("[1, 2, 4]", "[0, 2, 4]", "load.rates_per_s[0]: must be above 0, not 0"),
        ("[1, 2, 4]", "[0.001, 2, 4]", "load.block_duration_s: must be longer: at 0.001 requests/s less than one"),
        ("rates_per_s: [1", "warm_up_s: 30, rates_per_s: [1", "load.warm_up_s: must be below block_duration_s (30)"),
        ("1e3", "86400001", "targets.ttft_p90_ms: must be at most 86,400,000, not 86400001"),
        ("1e3", "on", "targets.ttft_p90_ms: must be a number, not 'on'"),
        ("1e3", "'1000'", "targets.ttft_p90_ms: must be a number, not '1000'; leave out the quotes"),
        ("1e3", "", "targets.ttft_p90_ms: must be a number, not an empty value"),
        ("name: try", "name: 123", "name: must be text, not 123; put it in quotes"),
        ("name: try", "name: ../etc", "name: must begin with a letter or digit and hold only letters"),
        ("name: try", "name: ''", "name: must begin with a letter or digit"),
        ("users: 10000", "users: 1.5", "workload.users: must be a whole number in digits, not 1.5"),
        ("users: 10000", "users: true", "workload.users: must be a whole number in digits, not true"),
        ("users: 10000", "arrivals: burst", "workload.arrivals: must be 'poisson', 'constant' or 'gamma', not 'burst'"),
        ("290", "305", "workload.shared_prefix_tokens: must be at least 4 below input_tokens (306)"),
        ("1024", "325", "engine_args.max-model-len: must hold the workload's input and output tokens (326), not 325"),
        ("[4, 16]", "[4, 4]", "matrix.max-num-seqs: holds 4 twice"),
        ("[4, 16]", "4", "matrix.max-num-seqs: must be a list of values such as [4, 16], not 4"),
        ("[4, 16]", "[]", "matrix.max-num-seqs: is empty; give at least one value"),
        ("[4, 16]", "[[4]]", "matrix.max-num-seqs[0]: must be a single value, not a list"),
        ("[true, false]", "[yes, no]", "matrix.enable-prefix-caching: must be true or false, not 'yes'"),
        ("[none, fp8]", "[none, fp4]", "matrix.quantization: must be one of none, fp8, int8, not 'fp4'"),
        ("[none, fp8]", "[null, fp8]", "matrix.quantization[0]: must be a single value, not an empty value"),
        ("[4, 16]", str([*range(1, 2501)]), "matrix: expands to 10,000 candidates; at most 64"),
        ("[4, 16]", str([*range(1, 41)]), "matrix: expands to 158 candidates; at most 64"),
        ("max-num-seqs: 4}", "max-num-seqs: 5}", "exclude[0].max-num-seqs: matches nothing: the matrix holds 4, 16"),
        (
            "fp8, max-num-seqs: 4",
            "fp8, max-num-sqs: 4",
            "exclude[0].max-num-sqs: is not known (did you mean max-num-seqs?)",
        ),
        ("  - {quantization: fp8, max-num-seqs: 4}", "  - {}", "exclude[0]: is empty"),
        (
            "baseline: bfloat16, seqs 16",
            "baseline: fp9, seqs 17",
            "baseline: 'fp9, seqs 17, prefix cache' is none of the",
        ),
        ("baseline: bfloat16, seqs 16, prefix cache\n", "", "baseline: is missing (name of the candidate that"),
        (
            "dtype: bfloat16",
            "trust-remote-code: true",
            "engine_args.trust-remote-code: is refused because it can run code",
        ),
        ("dtype: bfloat16", "port: 80", "engine_args.port: is set by KiteDash and can't be chosen"),
        ("dtype: bfloat16", "model: x", "engine_args.model: is a key of its own: write `model` beside engine_args"),
        ("dtype: bfloat16", "max-num-seq: 4", "engine_args.max-num-seq: is not known (did you mean max-num-seqs?)"),
        ("dtype: bfloat16", "max-model-len: 9", "engine_args.max-model-len: is there under two spellings"),
        (
            "dtype: bfloat16",
            "seed: [1, 2]",
            "engine_args.seed: must be a single value, not a list; a list belongs under",
        ),
        (
            "engine_args: {max_model_len: 1024, dtype: bfloat16}",
            "engine_args:",
            "engine_args: must be a group of keys, not",
        ),
        ("guardrails: {tpot_p90_ms: 100}", "", "guardrails: is missing (tpot_p90_ms and error_rate)"),
        ("suites: [", "suites: [{name: kitedash_repo}, ", "suites[1].name: 'kitedash_repo' is there twice"),
        (
            "name: try",
            "quantization: fp8\nname: try",
            "quantization: is an engine argument: write it under engine_args",
        ),
        ("name: try", "name: try\ncandidates: {a: 1}", "candidates: must be a list, not a group of keys"),
        ("name: try", "name: try\ncandidates: [x]", "candidates[0]: must be a group of keys, not 'x'"),
        ("name: try", "name: try\ndevices: 2", "devices: must equal tensor-parallel-size x pipeline-parallel-size x"),
        (
            "name: try",
            "name: try\nenvironment: {LD_PRELOAD: x}",
            "environment.LD_PRELOAD: is not known; allowed: VLLM_CPU",
        ),
        (
            "name: try",
            "name: try\nenvironment: {VLLM_CPU_KVCACHE_SPACE: two}",
            "environment.VLLM_CPU_KVCACHE_SPACE: must be a whole number of GiB from 1 to 9999, not 'two'",
        ),
        (
            "name: try",
            "name: try\ncandidates: [{name: x}, {name: y, engine_args: {dtype: bfloat16}}]",
            "candidates[1]: 'y' is the same configuration as 'x'",
        ),
        ("name: try", "name: try\ncandidates: [{name: x}, {name: x}]", "candidates[1]: the name 'x' is taken by"),
        ("name: try", "name: try\nname: again", "line 2, column 1: the key 'name' is there twice"),
        ("name: try", "name: try\ndescription: &a [*a]", "an alias (*name) is not accepted"),
        ("name: try", "name: !!python/name:os.system x", "line 1, column 7: a tag (!...) is not accepted"),
        ("name: try", "name: try: again", "this is not valid YAML (mapping values are not allowed here)"),
        ("name: try", "1: x\nname: try", "line 1, column 1: a key must be text, not 1"),
        ("name: try", 'name: "tr\\u0007y"', "name: holds the control character U+0007"),
    ],
)
def test_what_is_wrong_is_one_sentence(old: str, new: str, sentence: str) -> None:
    said = refused(old, new)
    assert sentence in said
    assert "\n" not in said
    assert "pydantic" not in said
    assert "validation error" not in said


def test_neither_an_empty_file_nor_a_list_is_an_experiment() -> None:
    with pytest.raises(InvalidInput, match="the file is empty"):
        parse_experiment("")
    with pytest.raises(InvalidInput, match="an experiment is a group of keys such as name and model, not a list"):
        parse_experiment("[1, 2]")


def test_a_file_without_candidates_says_so() -> None:
    text = "\n".join(line for line in FILE.splitlines() if not line.startswith(("matrix", "exclude", "  -")))
    with pytest.raises(InvalidInput, match="candidates: is empty; give at least one candidate, or a matrix"):
        parse_experiment(text)


def test_too_large_a_file_is_refused_before_it_is_read() -> None:
    with pytest.raises(InvalidInput, match="the file has 1,000,001 characters; at most 256,000"):
        parse_experiment("#" * 1_000_001)


def test_more_requests_than_anyone_could_send_are_refused() -> None:
    said = refused("[1, 2, 4]", "[1, 2, 10000]")
    assert said.startswith("load: asks for 1,800,540 requests a candidate; at most 1,000,000")


def test_numbers_in_the_environment_are_text() -> None:
    spec = parse_experiment(FILE + "environment: {VLLM_CPU_KVCACHE_SPACE: 2}\n")
    assert spec.environment == {"VLLM_CPU_KVCACHE_SPACE": "2"}


def test_a_form_gives_the_same_experiment_as_a_file() -> None:
    spec = parse_experiment(FILE)
    assert experiment_from(spec.model_dump(mode="json")) == spec


def test_a_form_with_other_values_than_plain_ones_is_refused() -> None:
    data = parse_experiment(FILE).model_dump(mode="json")
    with pytest.raises(InvalidInput, match="description: must be text, a number, true, false, a list or a group"):
        experiment_from({**data, "description": object()})


@settings(max_examples=80, deadline=None)
@given(experiments())
def test_written_and_read_back_is_equal(spec: ExperimentSpec) -> None:
    assert expand(spec)
    again = parse_experiment(to_yaml(spec))
    assert again == spec
    assert expand(again) == expand(spec)


_SCRAPS = st.lists(
    st.sampled_from(
        [*"{}[]:,&*!|>-#?%@`'\"\\ \n\t", "name", "1e3", "<<: ", "on", ".nan", "0x", "- ", "---\n", "~", "ä"]
    ),
    max_size=60,
).map("".join)


@settings(max_examples=300, deadline=None)
@given(
    st.text(max_size=200)
    | _SCRAPS
    | st.integers(0, len(FILE)).flatmap(lambda at: _SCRAPS.map(lambda s: FILE[:at] + s + FILE[at:]))
)
def test_arbitrary_text_raises_nothing_but_invalid_input(text: str) -> None:
    assert_valid_or_refused(lambda: parse_experiment(text))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(ExperimentSpec.model_fields)), _JSON)
def test_any_plain_value_in_any_field_raises_nothing_but_invalid_input(field: str, value: object) -> None:
    data = parse_experiment(FILE).model_dump(mode="json")
    assert_valid_or_refused(lambda: experiment_from({**data, field: value}))
