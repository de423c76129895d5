"""The three targets: adjustable, bound to the address, with what was written down beside them."""

from __future__ import annotations

import math
from typing import cast

import streamlit as st

from kitedash.services.views import TradeoffView
from kitedash.ui import address, formats
from kitedash.ui.definitions import DEFINITIONS
from kitedash.ui.points import CostScale


def inputs(view: TradeoffView) -> CostScale:
    """Draws the inputs, the reset and the choice of the cost scale, which it returns."""
    written = view.spec.targets
    ttft, cost, passing, reset, scale = st.columns([2.3, 2.6, 2.1, 1.6, 1.9], vertical_alignment="bottom")
    ttft.number_input(
        f"P90 TTFT ≤ ms (written: {formats.plain(written.ttft_p90_ms)})",
        min_value=0.001,
        value=float(written.ttft_p90_ms),
        step=_step(written.ttft_p90_ms),
        format="%g",
        key=address.TARGET_TTFT,
        bind="query-params",
        help=DEFINITIONS["P90 TTFT"],
    )
    cost.number_input(
        f"Deployed cost ≤ USD (written: {formats.plain(written.cost_per_1000_requests_usd)})",
        min_value=0.000001,
        value=float(written.cost_per_1000_requests_usd),
        step=_step(written.cost_per_1000_requests_usd),
        format="%g",
        key=address.TARGET_COST,
        bind="query-params",
        help=DEFINITIONS["Deployed cost"],
    )
    passing.number_input(
        f"Pass rate ≥ % (written: {formats.plain(address.per_cent(written.pass_rate))})",
        min_value=0.01,
        max_value=100.0,
        value=address.per_cent(written.pass_rate),
        step=1.0,
        format="%g",
        key=address.TARGET_PASS_RATE,
        bind="query-params",
        help=DEFINITIONS["Pass rate"],
    )
    reset.button(
        "As written down",
        on_click=address.reset_targets,
        args=(written,),
        disabled=view.targets == written,
        width="stretch",
    )
    chosen = scale.segmented_control(
        "Cost on the chart",
        ["deployed", "saturated"],
        default="deployed",
        required=True,
        key=address.COST_SCALE,
        bind="query-params",
        help=f"Deployed: {DEFINITIONS['Deployed cost']}\n\nSaturated: {DEFINITIONS['Saturated cost']}",
    )
    return cast(CostScale, chosen if chosen in ("deployed", "saturated") else "deployed")


def _step(value: float) -> float:
    """About a twentieth of the value, as a round number: one click is a visible move."""
    power = 10.0 ** math.floor(math.log10(value / 20))
    return float(f"{max(s for s in (1, 2, 5, 10) if s * power <= value / 20 * 1.0001) * power:.3g}")
