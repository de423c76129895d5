"""The parts of a candidate in a decision's document, each taken from the view model that the pages draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kitedash.domain.comparison import Difference
from kitedash.domain.decision_document import (
    CostPart,
    DifferencePart,
    ItemsPart,
    LevelPart,
    NumbersPart,
    PricePart,
    RunEvidence,
    ServerPart,
    SettingsPart,
    StatusesPart,
    SuitePart,
)
from kitedash.domain.experiment import Candidate
from kitedash.domain.results import ServerFacts
from kitedash.services.compare import SuiteComparison
from kitedash.services.pricing import Priced
from kitedash.services.views import CandidateView, LevelPoint, SuiteView


def statuses(view: CandidateView) -> StatusesPart:
    return StatusesPart(
        ttft_p90=view.ttft_status.value,
        cost=view.cost_status.value,
        pass_rate=view.pass_rate_status.value,
        overall=view.status.value,
    )


def numbers(view: CandidateView) -> NumbersPart:
    at = view.point.summary if view.point is not None else None
    return NumbersPart(
        rate_held_per_s=view.held_rate_per_s,
        ttft_p90_ms=at.ttft_p90_ms if at is not None else None,
        tpot_p90_ms=at.tpot_p90_ms if at is not None else None,
        error_rate=at.error_rate if at is not None else None,
        requests=at.n_requests if at is not None else 0,
        cost=CostPart(view.cost.deployed_usd, view.cost.saturated_usd, view.cost.replicas)
        if view.cost is not None
        else None,
        pass_rate=view.pass_rate,
    )


def level(point: LevelPoint) -> LevelPart:
    summary = point.summary
    return LevelPart(
        rate_per_s=summary.rate_per_s,
        status=summary.status.value,
        held=point.held,
        reason=summary.reason or point.held_reason,
        requests=summary.n_requests,
        failed=summary.n_failed,
        ttft_p50_ms=summary.ttft_p50_ms,
        ttft_p90_ms=summary.ttft_p90_ms,
        ttft_p99_ms=summary.ttft_p99_ms,
        tpot_p90_ms=summary.tpot_p90_ms,
        error_rate=summary.error_rate,
    )


def suite(view: SuiteView) -> SuitePart:
    return SuitePart(
        name=view.name,
        role=view.role,
        version=view.version,
        pass_rate=view.pass_rate,
        items=view.n_items,
        passed=view.n_passed,
        truncated=view.n_truncated,
        failed=view.n_failed,
        verdict=view.verdict,
        sentence=view.verdict_sentence,
        change=view.change,
        margin=view.margin,
    )


def difference(found: Difference) -> DifferencePart:
    return DifferencePart(
        dimension=found.dimension,
        chosen=found.mine,
        option=found.theirs,
        change=found.change,
        outcome=found.outcome,
        established=found.established,
        sentence=found.sentence,
    )


def items(found: SuiteComparison) -> ItemsPart:
    return ItemsPart(
        suite=found.suite,
        comparable=found.comparable,
        fixed=found.fixed,
        broken=found.broken,
        sentence=found.sentence,
    )


def settings(candidate: Candidate) -> SettingsPart:
    return SettingsPart(
        model=candidate.model,
        quantization=candidate.quantization,
        engine_args=candidate.engine_args,
        environment=candidate.environment,
        devices=candidate.devices,
    )


def server(facts: ServerFacts) -> ServerPart:
    return ServerPart(
        argv=facts.argv,
        environment=facts.environment,
        checkpoint=facts.checkpoint,
        model_sha256=facts.model_sha256,
        weight_dtype=facts.weight_dtype,
        engine_package=facts.engine_package,
        vllm_version=facts.vllm_version,
        torch_version=facts.torch_version,
        device_kind=facts.device_kind,
        device_name=facts.device_name,
        driver=facts.driver,
        linear_kernel=facts.linear_kernel,
        attention_backend=facts.attention_backend,
        kernel_note=facts.kernel_note,
    )


def price(found: Priced) -> PricePart:
    return PricePart(found.usd_per_hour, found.source, found.date, found.missing)


def run_evidence(run_ids: Sequence[str], hashes: Mapping[str, str]) -> tuple[RunEvidence, ...]:
    return tuple(RunEvidence(run_id, hashes[run_id]) for run_id in run_ids if run_id in hashes)
