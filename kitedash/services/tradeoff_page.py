"""What the trade-off page shows: the list of experiments and the view of one of them."""

from __future__ import annotations

from dataclasses import dataclass

from kitedash.domain.experiment import Targets
from kitedash.services.evidence import experiment_evidence
from kitedash.services.pricing import Prices
from kitedash.services.runs import runs_view
from kitedash.services.tradeoff import assemble
from kitedash.services.views import ExperimentItem, TradeoffView


@dataclass(frozen=True)
class TradeoffPage:
    """`view` is None while nothing is stored."""

    experiments: tuple[ExperimentItem, ...]
    view: TradeoffView | None


def page(
    experiment_id: str | None,
    *,
    ttft_p90_ms: float | None = None,
    cost_per_1000_requests_usd: float | None = None,
    pass_rate: float | None = None,
) -> TradeoffPage:
    """The newest experiment if none is named; a target of None is the one that was written down. Raises NotFound."""
    stored = runs_view(experiment_id)
    if stored.experiment_id is None:
        return TradeoffPage(stored.experiments, None)
    evidence = experiment_evidence(stored.experiment_id)
    written = evidence.spec.targets
    targets = Targets(
        ttft_p90_ms=ttft_p90_ms or written.ttft_p90_ms,
        cost_per_1000_requests_usd=cost_per_1000_requests_usd or written.cost_per_1000_requests_usd,
        pass_rate=pass_rate or written.pass_rate,
    )
    return TradeoffPage(stored.experiments, assemble(evidence, Prices(), targets=targets))
