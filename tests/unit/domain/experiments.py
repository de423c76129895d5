"""Experiments of every kind that a file may hold, for property tests."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from kitedash.domain.engine_args import ALLOWED, PARALLEL, QUANTIZATION, VLLM_QUANTIZATION, ArgRule
from kitedash.domain.environment import ALLOWED_ENVIRONMENT
from kitedash.domain.expand import candidates_of
from kitedash.domain.experiment import (
    ArgValue,
    CandidateSpec,
    ExperimentSpec,
    Guardrails,
    LoadPlan,
    MemoryPlan,
    SuiteChoice,
    Targets,
    Workload,
)
from kitedash.domain.experiment_file import experiment_from
from kitedash.domain.workload import RequestClass

TEXT = st.text(st.characters(blacklist_categories=("Cc", "Cs")), max_size=30)
_ODD_FLOATS = (1e-3, 1e-6, 1e5)  # those that a person writes with an exponent
_POSITIVE = st.floats(1e-6, 1e6) | st.integers(1, 10**6).map(float) | st.sampled_from(_ODD_FLOATS)
_NAME = r"[A-Za-z0-9][A-Za-z0-9._ -]{0,20}"
_CANDIDATE_NAME = r"[A-Za-z0-9][A-Za-z0-9._ +=·-]{0,12}"
_SEQS = "max-num-seqs"  # tells candidates apart, so that no two are the same configuration: others than shared ones
_TOKENS = 10_200  # no less than the longest input and output have together
_SPECULATION = ("spec-method", "spec-tokens")  # only together
# What constrains each other holds in any combination: threshold <= length <= batched, and seqs <= batched.
_SIZES: dict[str, st.SearchStrategy[int]] = {
    _SEQS: st.integers(1_000, 65_536),
    "max-model-len": st.integers(_TOKENS, 65_536),
    "max-num-batched-tokens": st.integers(65_536, 4_194_304),
    "long-prefill-token-threshold": st.integers(0, _TOKENS),
} | dict.fromkeys(PARALLEL, st.sampled_from([1, 2, 4]))
# Drawn as one: an argument by itself, or the two of speculative decoding.
_UNITS: list[tuple[str, ...]] = [(name,) for name in ALLOWED if name not in _SPECULATION] + [_SPECULATION]
_OFTEN_IN_A_MATRIX = [("dtype",), *((rule.name,) for rule in ALLOWED.values() if rule.kind == "float")]
_NOT_PER_DEVICE = (QUANTIZATION, "max-model-len", *PARALLEL)
_ENVIRONMENT = st.fixed_dictionaries(
    {},
    optional={
        name: st.from_regex(re.compile(f"({rule.pattern})", re.ASCII), fullmatch=True)
        for name, rule in ALLOWED_ENVIRONMENT.items()
    },
)
_PARALLEL = st.fixed_dictionaries({"tensor-parallel-size": st.sampled_from([1, 2, 4])})
_FEW_VARIABLES: st.SearchStrategy[dict[str, str]] = st.just({}) | _ENVIRONMENT


def _value(rule: ArgRule) -> st.SearchStrategy[ArgValue]:
    if rule.name in _SIZES:
        return _SIZES[rule.name]
    match rule.kind:
        case "bool":
            return st.booleans()
        case "choice":
            return st.sampled_from(rule.choices)
        case "int":
            return st.integers(int(rule.low), int(rule.high))
        case _:
            odd = [value for value in _ODD_FLOATS if rule.low <= value <= rule.high]
            written = st.floats(rule.low, rule.high) | st.just(int(rule.high))
            return written | st.sampled_from(odd) if odd else written


_VALUES = {name: _value(rule) for name, rule in ALLOWED.items()}


def _args(draw: st.DrawFn, units: Sequence[tuple[str, ...]], most: int = 4) -> dict[str, ArgValue]:
    chosen = draw(st.lists(st.sampled_from(units), unique=True, max_size=most))
    return {name: draw(_VALUES[name]) for unit in chosen for name in unit}


def _as_named(value: ArgValue) -> ArgValue:
    """Names of candidates show six digits of a number."""
    return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else value


def _matrix(
    draw: st.DrawFn, units: Sequence[tuple[str, ...]], *, beside_others: bool
) -> tuple[dict[str, list[ArgValue]], list[dict[str, ArgValue]]]:
    """Lists of values, and excludes that leave at least one combination."""
    chosen = draw(st.lists(st.sampled_from([*units, *_OFTEN_IN_A_MATRIX]), unique=True, min_size=1, max_size=2))
    matrix = {
        name: draw(st.lists(_VALUES[name], unique_by=_as_named, min_size=1, max_size=3))
        for unit in chosen
        for name in unit
    }
    if beside_others or draw(st.booleans()):
        matrix[_SEQS] = list(draw(st.lists(st.integers(100, 200), unique=True, min_size=1, max_size=3)))
    if draw(st.booleans()):
        matrix["model"] = [draw(TEXT.filter(bool))]
    several = [name for name, values in matrix.items() if len(values) > 1]
    exclude: list[dict[str, ArgValue]] = []
    if draw(st.booleans()) and several:
        first = draw(st.sampled_from(several))
        exclude.append({first: matrix[first][0]})
        if others := [name for name in several if name != first]:
            exclude.append({first: matrix[first][1], others[0]: matrix[others[0]][0]})
    return matrix, exclude


def _devices(draw: st.DrawFn, shared_devices: int, args: Mapping[str, ArgValue]) -> int | None:
    """A candidate's own: what its parallel sizes need, or nothing where that follows."""
    needed = _needed(args)
    return needed if shared_devices not in (1, needed) or draw(st.booleans()) else None


def _needed(args: Mapping[str, ArgValue]) -> int:
    return math.prod(int(args.get(name, 1)) for name in PARALLEL)


def _one_kind(draw: st.DrawFn) -> dict[str, Any]:
    """No longer than `_TOKENS`, with the turns before the last."""
    turns = draw(st.sampled_from([1, 3]))
    tokens = draw(st.integers(8, 10_000 if turns == 1 else 3_000))
    return {
        "kind": draw(st.sampled_from(["chat", "completion"])) if turns == 1 else "chat",
        "input_tokens": tokens,
        "input_tokens_p90": draw(st.none() | st.just(tokens + 1)),
        "shared_prefix_tokens": draw(st.integers(0, tokens - 4)),
        "output_tokens": draw(st.integers(1, 100)),
        "timestamp_first": draw(st.booleans()),
        "turns": turns,
        "think_time_s": draw(st.sampled_from([0.0, 0.5, 20.0])),
    }


def _requests(draw: st.DrawFn) -> dict[str, Any]:
    """Of one kind, of several, or recorded."""
    which = draw(st.sampled_from(["one", "mix", "trace"]))
    if which == "trace":
        return {
            "trace": draw(st.from_regex(_NAME, fullmatch=True)),
            "shared_prefix_tokens": draw(st.integers(0, 5_700)),
        }
    when = {
        "arrivals": draw(st.sampled_from(["poisson", "constant", "gamma"])),
        "burstiness": draw(st.sampled_from([0.25, 1.0, 4.0])),
    }
    if which == "one":
        return _one_kind(draw) | when
    names = draw(st.lists(st.from_regex(_NAME, fullmatch=True), min_size=1, max_size=3, unique=True))
    return when | {"mix": tuple(RequestClass(name=name, weight=draw(_POSITIVE), **_one_kind(draw)) for name in names)}


@st.composite
def experiments(draw: st.DrawFn) -> ExperimentSpec:
    """Explicit candidates, or a matrix with excludes, or both; with every field written, or left to its default."""
    # KiteDash's number formats and vLLM's don't go together.
    out = draw(st.sampled_from([QUANTIZATION, VLLM_QUANTIZATION]))
    units = [unit for unit in _UNITS if out not in unit]
    of_candidates = [unit for unit in units if _SEQS not in unit]
    of_a_device = [unit for unit in of_candidates if not {*unit} & {*_NOT_PER_DEVICE}]
    shared = _args(draw, units, most=12)
    if draw(st.booleans()):
        shared |= draw(_PARALLEL)
    names = draw(st.lists(st.from_regex(_CANDIDATE_NAME, fullmatch=True), max_size=4, unique_by=str.strip))
    matrix: dict[str, list[ArgValue]] = {}
    exclude: list[dict[str, ArgValue]] = []
    if not names or draw(st.booleans()):
        matrix, exclude = _matrix(draw, of_candidates, beside_others=bool(names))
    follow = draw(st.booleans()) or any(name in matrix for name in PARALLEL)
    shared_devices = 1 if follow else _needed(shared)
    candidates = []
    for index, name in enumerate(names):
        own = _args(draw, of_candidates) | (draw(_PARALLEL) if draw(st.booleans()) else {})
        own |= {_SEQS: index + 1} if index or draw(st.booleans()) else {}
        candidates.append(
            CandidateSpec(
                name=name,
                engine_args=own,
                cpu_engine_args=_args(draw, of_a_device),
                environment=draw(_FEW_VARIABLES),
                model=draw(st.none() | TEXT.filter(bool)),
                devices=_devices(draw, shared_devices, shared | own),
            )
        )
    spec = ExperimentSpec(
        name=draw(st.from_regex(_NAME, fullmatch=True)),
        description=draw(TEXT | st.just("Which one?\nThe\tsmall one: 'a' or \"b\"?")),
        model=draw(TEXT.filter(bool)),
        engine_args=shared,
        environment=draw(_FEW_VARIABLES),
        devices=shared_devices,
        candidates=tuple(candidates),
        matrix={key: tuple(values) for key, values in matrix.items()},
        exclude=tuple(exclude),
        baseline="to be drawn",
        workload=Workload(
            users=draw(st.integers(1, 10**9)),
            requests_per_user_per_day=draw(_POSITIVE),
            peak_factor=draw(st.floats(1, 100)),
            spare_replicas=draw(st.integers(0, 9)),
            **_requests(draw),
        ),
        load=LoadPlan(
            rates_per_s=tuple(sorted(draw(st.lists(st.floats(0.5, 50), min_size=3, max_size=5, unique=True)))),
            blocks=draw(st.integers(2, 9)),
            block_duration_s=draw(st.floats(4, 90)),
            **draw(st.sampled_from([{}, {"warm_up_s": 1e-6}, {"warm_up_s": 0.1}, {"warm_up_s": 1.5, "ramp_s": 1.25}])),
            request_timeout_s=draw(st.floats(1, 900)),
            seed=draw(st.integers(0, 2**31 - 1)),
            client_processes=draw(st.none() | st.integers(1, 8)),
            search=draw(st.booleans()),
            search_precision=draw(st.sampled_from([0.02, 0.1, 0.125, 1.0])),
            search_most_blocks=draw(st.integers(2, 500)),
        ),
        suites=tuple(
            SuiteChoice(name=name, margin=draw(st.floats(1e-9, 0.999) | st.sampled_from([1e-3, 1e-6])))
            for name in draw(st.lists(st.sampled_from(["kitedash_repo", "hellaswag_100", "mine_2"]), unique=True))
        ),
        targets=Targets(
            ttft_p90_ms=draw(_POSITIVE),
            cost_per_1000_requests_usd=draw(_POSITIVE),
            pass_rate=draw(st.floats(1e-6, 1) | st.sampled_from([1e-3, 1e-6])),
        ),
        guardrails=Guardrails(
            tpot_p90_ms=draw(_POSITIVE), error_rate=draw(st.floats(0, 0.99) | st.sampled_from([1e-3, 1e-6]))
        ),
        repeats=draw(st.integers(1, 3)),
        memory=draw(
            st.none()
            | st.builds(
                MemoryPlan,
                most_prompt_tokens=st.none() | st.integers(16, 9_000),
                most_concurrency=st.none() | st.integers(1, 64),
                output_tokens=st.integers(1, 90),
            )
        ),
        noise_floor=draw(st.booleans()),
    )
    baseline = draw(st.sampled_from([candidate.name for candidate in candidates_of(spec)]))
    return experiment_from({**spec.model_dump(mode="json"), "baseline": baseline})


# What the property tests must have met: they would pass without it too.
WIDE_KINDS = frozenset(
    (
        *(f"shared {name}" for name in ALLOWED),
        *(f"candidate's {name}" for name in ALLOWED),
        *(f"matrix of {kind}" for kind in ("bool", "choice", "int", "float", "dtype")),
        *(f"environment {name}" for name in ALLOWED_ENVIRONMENT),
        *("shared devices", "candidate's devices", "devices of a candidate that differ from the shared ones"),
        *("devices that follow from the sizes", "matrix of several floats", "matrix beside candidates", "excludes"),
        *(f"target of {value:g}" for value in _ODD_FLOATS),
        *("a mix", "a trace", "sessions", "completions", "a rate search"),
    )
)


def kinds_of(spec: ExperimentSpec) -> Iterator[str]:
    """Which of `WIDE_KINDS` an experiment is of."""
    yield from (f"shared {name}" for name in spec.engine_args)
    yield from (f"matrix of {ALLOWED[name].kind}" for name in spec.matrix if name in ALLOWED)
    yield from (f"environment {name}" for name in spec.environment)
    yield from (f"target of {value:g}" for value in (spec.targets.ttft_p90_ms, spec.guardrails.tpot_p90_ms))
    for candidate in spec.candidates:
        yield from (f"candidate's {name}" for name in candidate.engine_args)
        if candidate.devices is not None and candidate.devices > 1:
            yield "candidate's devices"
        if candidate.devices is not None and candidate.devices != spec.devices != 1:
            yield "devices of a candidate that differ from the shared ones"
        if candidate.devices is None and _needed(spec.engine_args | candidate.engine_args) > 1:
            yield "devices that follow from the sizes"
    if spec.devices > 1:
        yield "shared devices"
    if spec.load.search:
        yield "a rate search"
    if spec.workload.mix:
        yield "a mix"
    if spec.workload.trace is not None:
        yield "a trace"
    if any(one.turns > 1 for one in spec.workload.classes):
        yield "sessions"
    if any(one.kind == "completion" for one in spec.workload.classes):
        yield "completions"
    if any(sum(isinstance(value, float) for value in values) > 1 for values in spec.matrix.values()):
        yield "matrix of several floats"
    if "dtype" in spec.matrix:
        yield "matrix of dtype"
    if spec.matrix and spec.candidates:
        yield "matrix beside candidates"
    if spec.exclude:
        yield "excludes"
