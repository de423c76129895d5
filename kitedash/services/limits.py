"""Targets and guardrails as a viewer asks for them: what is left open is what was written down."""

from __future__ import annotations

from dataclasses import dataclass

from kitedash.domain.experiment import ExperimentSpec, Guardrails, Targets


@dataclass(frozen=True)
class AskedLimits:
    """Times in ms, cost in USD per 1,000 requests, shares in 0..1. None: as written down."""

    ttft_p90_ms: float | None = None
    cost_per_1000_requests_usd: float | None = None
    pass_rate: float | None = None
    tpot_p90_ms: float | None = None
    error_rate: float | None = None

    def targets(self, spec: ExperimentSpec) -> Targets:
        written = spec.targets
        return Targets(
            ttft_p90_ms=self.ttft_p90_ms or written.ttft_p90_ms,
            cost_per_1000_requests_usd=self.cost_per_1000_requests_usd or written.cost_per_1000_requests_usd,
            pass_rate=self.pass_rate or written.pass_rate,
        )

    def guardrails(self, spec: ExperimentSpec) -> Guardrails:
        written = spec.guardrails
        return Guardrails(
            tpot_p90_ms=self.tpot_p90_ms or written.tpot_p90_ms,
            error_rate=written.error_rate if self.error_rate is None else self.error_rate,  # 0 is a guardrail too
        )
