"""From an experiment to its candidates."""

from __future__ import annotations

from typing import Any

import pytest

from kitedash.domain.errors import InvalidInput
from kitedash.domain.expand import expand
from kitedash.domain.experiment import Candidate, ExperimentSpec


def spec(**changes: Any) -> ExperimentSpec:
    data: dict[str, Any] = {
        "name": "x",
        "model": "m",
        "baseline": "a",
        "candidates": [{"name": "a"}],
        "workload": {"input_tokens": 300, "shared_prefix_tokens": 200, "output_tokens": 20},
        "load": {"rates_per_s": [1, 2, 3]},
        "targets": {"ttft_p90_ms": 1, "cost_per_1000_requests_usd": 1, "pass_rate": 0.5},
        "guardrails": {"tpot_p90_ms": 1},
    }
    return ExperimentSpec.model_validate({**data, **changes})


def names(**changes: Any) -> list[str]:
    return [candidate.name for candidate in expand(spec(**changes))]


def matrix(baseline: str, **changes: Any) -> list[str]:
    return names(candidates=[], baseline=baseline, **changes)


def test_a_candidate_is_complete() -> None:
    found = expand(
        spec(
            engine_args={"dtype": "half", "max_num_seqs": 8, "quantization": "fp8"},
            environment={"OMP_NUM_THREADS": "2", "VLLM_BATCH_INVARIANT": "0"},
            candidates=[
                {"name": "a"},
                {
                    "name": "b",
                    "model": "other",
                    "engine_args": {"max-num-seqs": 4, "quantization": "none"},
                    "environment": {"OMP_NUM_THREADS": "1"},
                },
            ],
        )
    )
    assert found == (
        Candidate(
            name="a",
            model="m",
            quantization="fp8",
            engine_args={"dtype": "float16", "max-num-seqs": 8},
            environment={"OMP_NUM_THREADS": "2", "VLLM_BATCH_INVARIANT": "0"},
        ),
        Candidate(
            name="b",
            model="other",
            quantization="none",
            engine_args={"dtype": "float16", "max-num-seqs": 4},
            environment={"OMP_NUM_THREADS": "1", "VLLM_BATCH_INVARIANT": "0"},
        ),
    )


def test_matrix_names_hold_only_what_differs() -> None:
    assert matrix(
        "bfloat16 · prefix cache",
        matrix={"quantization": ["none", "fp8"], "max-num-seqs": [4], "enable-prefix-caching": [True, False]},
        engine_args={"dtype": "bfloat16"},
    ) == ["bfloat16 · prefix cache", "bfloat16 · no prefix cache", "fp8 · prefix cache", "fp8 · no prefix cache"]


def test_matrix_names_of_other_kinds() -> None:
    found = matrix(
        "unquantised · tp 1 · compiled",
        matrix={"quantization": ["none", "int8"], "tensor-parallel-size": [1, 2], "enforce-eager": [False, True]},
        exclude=[
            {"quantization": "none", "tensor-parallel-size": 2},
            {"tensor-parallel-size": 2, "enforce-eager": True},
        ],
    )
    assert found == [
        "unquantised · tp 1 · compiled",
        "unquantised · tp 1 · eager",
        "int8 · tp 1 · compiled",
        "int8 · tp 1 · eager",
        "int8 · tp 2 · compiled",
    ]


def test_matrix_over_models_is_named_by_their_last_part() -> None:
    found = expand(spec(candidates=[], baseline="B-7.5B-it", matrix={"model": ["/models/A", "org/B-7.5B-it"]}))
    assert [(one.name, one.model) for one in found] == [("A", "/models/A"), ("B-7.5B-it", "org/B-7.5B-it")]


def test_models_of_one_name_are_told_apart_by_hand() -> None:
    with pytest.raises(InvalidInput, match="matrix: the name 'A' is taken by matrix"):
        expand(spec(candidates=[], baseline="A", matrix={"model": ["/one/A", "/two/A"]}))


def test_a_matrix_of_one_combination_still_has_a_name() -> None:
    assert matrix("seqs 4", matrix={"max-num-seqs": [4]}) == ["seqs 4"]


def test_long_names_are_cut_and_stay_different() -> None:
    long = ["org/" + "x" * 90 + tail for tail in ("1", "2")]
    with pytest.raises(InvalidInput) as caught:
        expand(spec(candidates=[], baseline="none of them", matrix={"model": long}))
    found = str(caught.value).split("they are: ")[1].split(", ")
    assert len(set(found)) == 2
    assert all(len(name) <= 80 for name in found)


def test_candidates_and_matrix_together_are_at_most_64() -> None:
    seqs = list(range(1, 65))
    assert len(expand(spec(candidates=[], baseline="seqs 1", matrix={"max-num-seqs": seqs}))) == 64
    with pytest.raises(InvalidInput, match="candidates: with the matrix there are 65; at most 64"):
        expand(spec(matrix={"max-num-seqs": seqs}))


def test_a_matrix_may_be_cut_to_size_by_excludes() -> None:
    excludes = [{"seed": seed, "max-num-seqs": seqs} for seed in range(1, 9) for seqs in (1, 2)]
    found = matrix(
        "seed 0 · seqs 1", matrix={"seed": list(range(9)), "max-num-seqs": list(range(1, 9))}, exclude=excludes
    )
    assert len(found) == 9 * 8 - 16


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"baseline": "b"}, "baseline: 'b' is none of the candidates; they are: a"),
        ({"candidates": []}, "candidates: is empty; give at least one candidate, or a matrix"),
        ({"exclude": [{"seed": 1}]}, "exclude: needs a matrix to leave combinations out of"),
        (
            {"matrix": {"seed": [1]}, "exclude": [{"seed": 1}]},
            "exclude: leaves no combination of the matrix",
        ),
        ({"matrix": {"host": ["0.0.0.0"]}}, "matrix.host: is set by KiteDash and can't be chosen"),
        ({"matrix": {"devices": [1, 2]}}, "matrix.devices: is a key of its own"),
        ({"matrix": {"max-model-len": [100, 1000]}}, "matrix.max-model-len: must hold the workload's input and output"),
        (
            {"candidates": [{"name": "a", "engine_args": {"tensor-parallel-size": 64, "data-parallel-size": 64}}]},
            "needs 4,096 devices; at most 64",
        ),
        (
            {"candidates": [{"name": "a", "devices": 2}]},
            "candidates[0].devices: must equal tensor-parallel-size x pipeline-parallel-size x data-parallel-size, "
            "which is 1, not 2",
        ),
        (
            {
                "engine_args": {"max-num-batched-tokens": 64},
                "candidates": [{"name": "a", "engine_args": {"max-num-seqs": 65}}],
            },
            "candidates[0].engine_args.max-num-batched-tokens: must be at least max-num-seqs (65), not 64",
        ),
        (
            {"engine_args": {"enable-chunked-prefill": False, "max-num-batched-tokens": 512, "max-model-len": 1024}},
            "max-num-batched-tokens: must be at least max-model-len (1,024) where enable-chunked-prefill is false",
        ),
        ({"engine_args": {"spec-method": "ngram"}}, "spec-method: needs spec-tokens beside it"),
        ({"engine_args": {"spec-tokens": 3}}, "spec-tokens: needs spec-method beside it"),
        (
            {"engine_args": {"quantization": "fp8", "vllm-quantization": "fp8_per_channel"}},
            "vllm-quantization: can't be combined with quantization",
        ),
    ],
)
def test_refusals(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        expand(spec(**changes))
    assert sentence in str(caught.value)


def test_devices_follow_from_the_parallel_sizes() -> None:
    args = {"tensor-parallel-size": 2, "pipeline-parallel-size": 2, "data-parallel-size": 2}
    assert expand(spec(engine_args=args))[0].devices == 8
    assert expand(spec(engine_args=args, devices=8))[0].devices == 8
    assert expand(spec(engine_args=args, candidates=[{"name": "a", "devices": 8}]))[0].devices == 8


def test_shared_and_own_arguments_may_complete_each_other() -> None:
    found = expand(
        spec(engine_args={"spec-method": "ngram"}, candidates=[{"name": "a", "engine_args": {"spec-tokens": 3}}])
    )
    assert found[0].engine_args == {"spec-method": "ngram", "spec-tokens": 3}


def test_a_candidate_is_complete_once_its_device_is_known() -> None:
    written = {"name": "a", "engine_args": {"max-num-seqs": 4, "dtype": "half"}, "cpu_engine_args": {"dtype": "float"}}
    (candidate,) = expand(spec(candidates=[written], matrix={}, baseline="a"))
    assert candidate.on("gpu").engine_args == {**candidate.engine_args, "dtype": "float16"}
    assert candidate.on("cpu").engine_args == {**candidate.engine_args, "dtype": "float32"}
    assert candidate.on("cpu").cpu_engine_args == candidate.on("gpu").cpu_engine_args == {}


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ({"tensor-parallel-size": 2}, "candidates[0].cpu_engine_args.tensor-parallel-size: can't differ by device"),
        ({"quantization": "fp8"}, "candidates[0].cpu_engine_args.quantization: can't differ by device"),
        ({"dtype": "bf17"}, "candidates[0].cpu_engine_args.dtype: must be one of"),
        ({"trust-remote-code": True}, "candidates[0].cpu_engine_args.trust-remote-code: is refused"),
    ],
)
def test_what_may_not_differ_by_device(args: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        expand(spec(candidates=[{"name": "a", "cpu_engine_args": args}], matrix={}, baseline="a"))
    assert str(refused.value).startswith(sentence)
