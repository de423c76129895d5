"""The front of an experiment's candidates: who is on it by the estimates, and how likely each is to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kitedash.domain import cost, pareto
from kitedash.domain.experiment import Guardrails, Targets, Workload
from kitedash.domain.results import LevelStatus
from kitedash.services.evidence import CandidateEvidence, ExperimentEvidence, SuiteEvidence
from kitedash.services.views import CandidateView, CostAt


def with_front(
    views: Sequence[CandidateView],
    evidence: ExperimentEvidence,
    repository: str | None,
    targets: Targets,
    guardrails: Guardrails,
) -> list[CandidateView]:
    """The views with `on_front` and `front_probability`.

    Only candidates that have all three numbers take part, and only those that answered the same version of the
    repository suite (the baseline's, or while it has none the first candidate's).
    """
    suites = (
        {c.candidate.name: c.suites[repository] for c in evidence.candidates if repository in c.suites}
        if repository
        else {}
    )
    version = _version(evidence.candidates, suites)
    members = [
        (view, found)
        for view, found in zip(views, evidence.candidates, strict=True)
        if view.three_numbers is not None and view.name in suites and suites[view.name].version == version
    ]
    if not members:
        return list(views)
    points = [point for view, _ in members if (point := view.three_numbers) is not None]
    on_front = pareto.on_front(*zip(*points, strict=True))
    likely = pareto.front_probability(
        [
            pareto.FrontEvidence(
                rates=_rates(found, view.cost, targets, guardrails, evidence.spec.workload),
                passed={answer.item_id: answer.passed for answer in suites[view.name].answers},
            )
            for view, found in members
        ],
        _clusters([suites[view.name] for view, _ in members]),
        targets,
        guardrails,
    )
    found_by_name = {
        view.name: (is_on, share) for (view, _), is_on, share in zip(members, on_front, likely, strict=True)
    }
    return [
        replace(view, on_front=found_by_name[view.name][0], front_probability=found_by_name[view.name][1])
        if view.name in found_by_name
        else view
        for view in views
    ]


def _version(candidates: Sequence[CandidateEvidence], suites: Mapping[str, SuiteEvidence]) -> str | None:
    baseline = [suites[c.candidate.name].version for c in candidates if c.is_baseline and c.candidate.name in suites]
    return next(iter([*baseline, *(suite.version for suite in suites.values())]), None)


def _rates(
    found: CandidateEvidence, price: CostAt | None, targets: Targets, guardrails: Guardrails, workload: Workload
) -> tuple[pareto.RateEvidence, ...]:
    assert price is not None  # members have a cost
    return tuple(
        pareto.RateEvidence(
            ttft_p90_ms=level.ttft_p90_ms,
            tpot_p90_ms=level.tpot_p90_ms,
            can_hold=cost.could_hold(level, targets, guardrails),
            deployed_usd=cost.deployed_cost_usd(
                price.price_usd_per_hour, found.candidate.devices, level.rate_per_s, workload
            ),
        )
        for level in found.levels
        if level.status != LevelStatus.INVALID
    )


def _clusters(suites: Sequence[SuiteEvidence]) -> dict[str, str]:
    return {answer.item_id: answer.cluster for suite in suites for answer in suite.answers}
