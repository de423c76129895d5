"""Experiments of every kind that a file may hold, for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from kitedash.domain.engine_args import ALLOWED, QUANTIZATION, ArgRule
from kitedash.domain.expand import candidates_of
from kitedash.domain.experiment import (
    ArgValue,
    CandidateSpec,
    ExperimentSpec,
    Guardrails,
    LoadPlan,
    SuiteChoice,
    Targets,
    Workload,
)
from kitedash.domain.experiment_file import experiment_from

TEXT = st.text(st.characters(blacklist_categories=("Cc", "Cs")), max_size=30)
_POSITIVE = st.floats(1e-6, 1e6) | st.integers(1, 10**6).map(float)
_NAME = r"[A-Za-z0-9][A-Za-z0-9._ -]{0,20}"
_CANDIDATE_NAME = r"[A-Za-z0-9][A-Za-z0-9._ +=·-]{0,12}"
_SEQS = "max-num-seqs"  # tells candidates apart, so that no two are the same configuration
# Arguments that constrain each other or the workload are left to their own tests.
_FREE = [
    rule
    for name, rule in ALLOWED.items()
    if not name.startswith(("max-", "spec-", "long-", "tensor-", "pipeline-", "data-", "vllm-"))
]
_CPU_FREE = [rule for rule in _FREE if rule.name != QUANTIZATION]
_ENVIRONMENT = st.fixed_dictionaries(
    {},
    optional={
        "OMP_NUM_THREADS": st.integers(1, 9_999).map(str),
        "VLLM_BATCH_INVARIANT": st.sampled_from(["0", "1"]),
        "VLLM_CPU_OMP_THREADS_BIND": st.sampled_from(["auto", "0-1", "0-1,4", "0,2|1,3"]),
        "VLLM_FLOAT32_MATMUL_PRECISION": st.sampled_from(["highest", "high", "medium"]),
    },
)


def _value(rule: ArgRule) -> st.SearchStrategy[ArgValue]:
    match rule.kind:
        case "bool":
            return st.booleans()
        case "choice":
            return st.sampled_from(rule.choices)
        case "int":
            return st.integers(int(rule.low), int(rule.high))
        case _:
            return st.floats(rule.low, rule.high) | st.just(int(rule.high))


def _args(rules: list[ArgRule]) -> st.SearchStrategy[dict[str, ArgValue]]:
    chosen = st.lists(st.sampled_from(rules), unique_by=lambda rule: rule.name, max_size=4)
    return chosen.flatmap(lambda found: st.fixed_dictionaries({rule.name: _value(rule) for rule in found}))


@st.composite
def experiments(draw: st.DrawFn) -> ExperimentSpec:
    """Explicit candidates, or a matrix with excludes, or both; with every field written, or left to its default."""
    names = draw(st.lists(st.from_regex(_CANDIDATE_NAME, fullmatch=True), max_size=4, unique_by=str.strip))
    candidates = [
        CandidateSpec(
            name=name,
            engine_args={**draw(_args(_FREE)), **({_SEQS: index + 1} if index or draw(st.booleans()) else {})},
            cpu_engine_args=draw(_args(_CPU_FREE)),
            environment=draw(_ENVIRONMENT),
            model=draw(st.none() | TEXT.filter(bool)),
            devices=draw(st.sampled_from([None, 1])),
        )
        for index, name in enumerate(names)
    ]
    matrix: dict[str, list[ArgValue]] = {}
    exclude: list[dict[str, ArgValue]] = []
    if not names or draw(st.booleans()):
        seqs = draw(st.lists(st.integers(100, 200), unique=True, min_size=1, max_size=3))
        matrix = {QUANTIZATION: ["none", "fp8"], _SEQS: list(seqs)}
        if draw(st.booleans()):
            matrix["model"] = [draw(TEXT.filter(bool))]
        if draw(st.booleans()):
            matrix["enable-prefix-caching"] = [True, False]
            exclude.append({QUANTIZATION: "fp8", "enable-prefix-caching": False})
        if draw(st.booleans()):
            exclude.append({QUANTIZATION: "fp8", _SEQS: seqs[0]})
    tokens = draw(st.integers(8, 10_000))
    spec = ExperimentSpec(
        name=draw(st.from_regex(_NAME, fullmatch=True)),
        description=draw(TEXT | st.just("Which one?\nThe\tsmall one: 'a' or \"b\"?")),
        model=draw(TEXT.filter(bool)),
        engine_args={"max-model-len": tokens + 100, "dtype": "bfloat16"},
        environment=draw(_ENVIRONMENT),
        candidates=tuple(candidates),
        matrix={key: tuple(values) for key, values in matrix.items()},
        exclude=tuple(exclude),
        baseline="to be drawn",
        workload=Workload(
            users=draw(st.integers(1, 10**9)),
            requests_per_user_per_day=draw(_POSITIVE),
            peak_factor=draw(st.floats(1, 100)),
            input_tokens=tokens,
            shared_prefix_tokens=draw(st.integers(0, tokens - 4)),
            output_tokens=draw(st.integers(1, 100)),
            arrivals=draw(st.sampled_from(["poisson", "constant"])),
            spare_replicas=draw(st.integers(0, 9)),
        ),
        load=LoadPlan(
            rates_per_s=tuple(sorted(draw(st.lists(st.floats(0.5, 50), min_size=3, max_size=5, unique=True)))),
            blocks=draw(st.integers(2, 9)),
            block_duration_s=draw(st.floats(4, 90)),
            warm_up_s=draw(st.sampled_from([0.0, 0.1, 1.5])),
            request_timeout_s=draw(st.floats(1, 900)),
            seed=draw(st.integers(0, 2**31 - 1)),
        ),
        suites=tuple(
            SuiteChoice(name=name, margin=draw(st.floats(1e-9, 0.999)))
            for name in draw(st.lists(st.sampled_from(["kitedash_repo", "hellaswag_100", "mine_2"]), unique=True))
        ),
        targets=Targets(
            ttft_p90_ms=draw(_POSITIVE), cost_per_1000_requests_usd=draw(_POSITIVE), pass_rate=draw(st.floats(1e-6, 1))
        ),
        guardrails=Guardrails(tpot_p90_ms=draw(_POSITIVE), error_rate=draw(st.floats(0, 0.99))),
        repeats=draw(st.integers(1, 3)),
    )
    baseline = draw(st.sampled_from([candidate.name for candidate in candidates_of(spec)]))
    return experiment_from({**spec.model_dump(mode="json"), "baseline": baseline})
