"""The presets of a trade-off view."""

from __future__ import annotations

from kitedash.domain import presets as rule
from kitedash.domain.presets import Preset
from kitedash.services.tradeoff import contender
from kitedash.services.views import TradeoffView


def presets(view: TradeoffView) -> tuple[Preset, ...]:
    """Cheapest that meets, fastest, best quality: which candidate each picks under the view's targets."""
    return rule.presets([contender(one) for one in view.candidates], view.recommendation, view.noise.ttft_p90)
