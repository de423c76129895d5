"""The trade-off of an experiment: every candidate against the three targets, the front and the recommendation.

Everything is computed anew from what is stored, so that a viewer may move targets and guardrails. The rules live in
`kitedash.domain`; here they are only put together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kitedash.domain import cost, settle
from kitedash.domain.cost import HeldRange
from kitedash.domain.experiment import ExperimentSpec, Guardrails, Targets
from kitedash.domain.latency import is_held
from kitedash.domain.noise import ONCE, NoiseFloor
from kitedash.domain.recommend import Contender, recommend
from kitedash.domain.results import Estimate, LevelStatus, LevelSummary
from kitedash.domain.targets import Status, candidate_status, operating_status, status_of
from kitedash.services.evidence import CandidateEvidence, ExperimentEvidence, experiment_evidence
from kitedash.services.front import with_front
from kitedash.services.noise_view import near_the_recommended, noise_of
from kitedash.services.pricing import Priced, Prices
from kitedash.services.quality_views import repository_suite, suite_views
from kitedash.services.views import CandidateView, CostAt, LevelPoint, SuiteView, TradeoffView


def tradeoff_view(
    experiment_id: str, *, targets: Targets | None = None, guardrails: Guardrails | None = None
) -> TradeoffView:
    """The view under the targets that were written down, or under a viewer's own. Raises NotFound."""
    return assemble(experiment_evidence(experiment_id), Prices(), targets=targets, guardrails=guardrails)


def assemble(
    evidence: ExperimentEvidence,
    prices: Prices,
    *,
    targets: Targets | None = None,
    guardrails: Guardrails | None = None,
) -> TradeoffView:
    """The view of what is stored; pure but for the reading of the price book."""
    spec = evidence.spec
    limits = _Limits(spec, targets or spec.targets, guardrails or spec.guardrails)
    baseline = next((candidate for candidate in evidence.candidates if candidate.is_baseline), None)
    repository = repository_suite(evidence.candidates, spec)
    priced = [prices.of(candidate.facts, candidate.candidate.devices) for candidate in evidence.candidates]
    views = [
        _candidate_view(candidate, baseline, repository, price, limits)
        for candidate, price in zip(evidence.candidates, priced, strict=True)
    ]
    views = with_front(views, evidence, repository, limits.targets, limits.guardrails)
    kinds = [candidate.facts.device_kind for candidate in evidence.candidates if candidate.facts is not None]
    view = TradeoffView(
        experiment_id=evidence.id,
        name=evidence.name,
        created_at=evidence.created_at,
        spec=spec,
        targets=limits.targets,
        guardrails=limits.guardrails,
        candidates=tuple(views),
        recommendation=recommend([contender(view) for view in views]),
        device_kind=kinds[0] if kinds else "",
        runs_active=evidence.runs_active,
        revision=evidence.revision,
        notes=_notes(views, [price.missing for price in priced], repository, spec),
        noise=_noise(evidence, priced, limits),
    )
    return replace(view, notes=(*view.notes, *near_the_recommended(view)))


@dataclass(frozen=True)
class _Limits:
    spec: ExperimentSpec
    targets: Targets
    guardrails: Guardrails


def _noise(evidence: ExperimentEvidence, priced: Sequence[Priced], limits: _Limits) -> NoiseFloor:
    of_baseline = [price for price, one in zip(priced, evidence.candidates, strict=True) if one.is_baseline]
    if not of_baseline:
        return ONCE
    return noise_of(evidence, of_baseline[0], limits.targets, limits.guardrails)


def _candidate_view(
    evidence: CandidateEvidence,
    baseline: CandidateEvidence | None,
    repository: str | None,
    priced: Priced,
    limits: _Limits,
) -> CandidateView:
    targets, guardrails, workload = limits.targets, limits.guardrails, limits.spec.workload
    held = cost.held_range(evidence.levels, targets, guardrails)
    levels = tuple(_level_point(level, priced, limits) for level in evidence.levels)
    point = next((level for level in levels if level.summary.rate_per_s == held.value), None)
    deployed = saturated = None
    if priced.usd_per_hour is not None:
        deployed = cost.deployed_cost(evidence.levels, held, priced.usd_per_hour, priced.devices, workload)
        saturated = cost.saturated_cost(evidence.levels, held, priced.usd_per_hour, priced.devices)
    ttft_status, cost_status = operating_status(evidence.levels, held, deployed, targets, complete=evidence.complete)
    suites = suite_views(evidence, baseline, limits.spec)
    pass_rate = next((suite.pass_rate for suite in suites if suite.name == repository and suite.version), None)
    pass_rate_status = status_of(pass_rate, targets.pass_rate, higher_is_better=True)
    view = CandidateView(
        run_id=evidence.run_ids[0],
        name=evidence.candidate.name,
        run_status=evidence.status.value,
        error=evidence.error,
        is_baseline=evidence.is_baseline,
        facts=evidence.facts,
        levels=levels,
        point=point,
        cost=_cost_at(held, deployed, saturated, priced, limits),
        suites=suites,
        pass_rate=pass_rate,
        ttft_status=ttft_status,
        cost_status=cost_status,
        pass_rate_status=pass_rate_status,
        status=candidate_status((ttft_status, cost_status, pass_rate_status)),
        on_front=False,
        front_probability=None,
        settles="",
        held_rate_per_s=_held_rate(held, point),
        notes=_candidate_notes(evidence, held, priced, suites),
        devices=evidence.candidate.devices,
        run_ids=evidence.run_ids,
    )
    parts = _settles(view, held, priced, limits)
    return replace(view, settles="; ".join(parts), settle_parts=parts)


def _level_point(level: LevelSummary, priced: Priced, limits: _Limits) -> LevelPoint:
    held, reason = is_held(level, limits.targets, limits.guardrails)
    at_rate = deployed = None
    if priced.usd_per_hour is not None and level.status != LevelStatus.INVALID:
        workload = limits.spec.workload
        at_rate = cost.level_cost_usd(level, priced.usd_per_hour, priced.devices, workload.mean_output_tokens)
        deployed = cost.deployed_cost_usd(priced.usd_per_hour, priced.devices, level.rate_per_s, workload)
    return LevelPoint(level, held, "" if held else reason, at_rate, deployed)


def _cost_at(
    held: HeldRange, deployed: Estimate | None, saturated: Estimate | None, priced: Priced, limits: _Limits
) -> CostAt | None:
    if held.value is None or deployed is None or saturated is None or priced.usd_per_hour is None:
        return None
    return CostAt(
        saturated_usd=saturated,
        deployed_usd=deployed,
        replicas=cost.replicas_for_peak(limits.spec.workload, held.value),
        price_usd_per_hour=priced.usd_per_hour,
        price_source=priced.source,
        price_date=priced.date,
    )


def _held_rate(held: HeldRange, point: LevelPoint | None) -> Estimate | None:
    if point is None:
        return None
    return Estimate(held.value, held.pessimistic, held.optimistic, point.summary.n_requests)


def _candidate_notes(
    evidence: CandidateEvidence, held: HeldRange, priced: Priced, suites: Sequence[SuiteView]
) -> tuple[str, ...]:
    notes = []
    if priced.missing:
        notes.append(priced.missing)
    if evidence.same_arrivals:
        notes.append(
            "Its repeats were measured under the same arrivals: the intervals of its latencies are too narrow."
        )
    if evidence.other_requests:
        notes.append("Measured with other requests than the baseline: latency and cost do not compare with it.")
    if evidence.levels and held.value is None:
        perhaps = "" if held.optimistic is None else f"; the intervals leave {held.optimistic:g}/s open"
        notes.append(f"No measured rate is held{perhaps}.")
    invalid = [f"{level.rate_per_s:g}/s" for level in evidence.levels if level.status == LevelStatus.INVALID]
    if invalid:
        notes.append(f"Invalid, and so left out: {', '.join(invalid)}.")
    notes += [
        f"{suite.name}: {suite.verdict_sentence}" for suite in suites if suite.version and suite.verdict == "pending"
    ]
    return tuple(notes)


def _settles(view: CandidateView, held: HeldRange, priced: Priced, limits: _Limits) -> tuple[str, ...]:
    targets, guardrails = limits.targets, limits.guardrails
    summaries = [level.summary for level in view.levels]
    parts: list[str] = []
    if view.cost_status == Status.UNCERTAIN and priced.usd_per_hour is not None:
        parts.append(
            settle.settle_cost(
                summaries, targets, guardrails, priced.usd_per_hour, priced.devices, limits.spec.workload
            )
        )
    if view.ttft_status == Status.UNCERTAIN:
        # Without a rate held, the highest one that is not ruled out is the nearest to being an operating point.
        at = held.value if held.value is not None else held.optimistic
        level = next((level for level in summaries if level.rate_per_s == at), None)
        sentence = settle.settle_level(level, targets, guardrails) if level is not None else ""
        if sentence and not any(sentence in part for part in parts):
            parts.insert(0, sentence)
        if view.cost_status == Status.MEETS and held.pessimistic is not None:
            parts.insert(0, f"P90 TTFT: established at {held.pessimistic:g}/s, where the cost is within its target too")
    if view.pass_rate_status == Status.UNCERTAIN and view.pass_rate is not None:
        parts.append(settle.settle_pass_rate(view.pass_rate, targets.pass_rate))
    parts += [
        settle.settle_verdict(suite.name, suite.verdict, suite.n_items, suite.items_needed) for suite in view.suites
    ]
    return tuple(part for part in parts if part)


def contender(view: CandidateView) -> Contender:
    """The candidate as the rules of the recommendation and of the presets see it."""
    return Contender(
        name=view.name,
        measured=view.is_measured,
        rate_per_s=view.point.summary.rate_per_s if view.point is not None else None,
        ttft_p90_ms=view.point.summary.ttft_p90_ms if view.point is not None else None,
        deployed_usd=view.cost.deployed_usd if view.cost is not None else None,
        pass_rate=view.pass_rate,
        ttft_status=view.ttft_status,
        cost_status=view.cost_status,
        pass_rate_status=view.pass_rate_status,
        verdicts=tuple((suite.name, suite.verdict) for suite in view.suites),
        settles=view.settle_parts,
    )


def _notes(
    views: Sequence[CandidateView], missing_prices: Sequence[str], repository: str | None, spec: ExperimentSpec
) -> tuple[str, ...]:
    """What holds for the whole view: each missing price once, and a missing repository suite."""
    notes = list(dict.fromkeys(sentence for sentence in missing_prices if sentence))
    answered = any(suite.version for view in views for suite in view.suites)
    if repository is None and (answered or not spec.suites):
        notes.append("No suite over the team's own repository is among the suites, so there is no pass rate to judge.")
    return tuple(notes)
