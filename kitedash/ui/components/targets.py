"""Targets and guardrails: adjustable, kept in the address, with what was written down beside them."""

from __future__ import annotations

import math

import streamlit as st

from kitedash.domain.experiment import MOST_MS, MOST_USD
from kitedash.services.views import TradeoffView
from kitedash.ui import address, formats
from kitedash.ui.definitions import DEFINITIONS
from kitedash.ui.points import CostScale

_SCALES: tuple[CostScale, ...] = ("deployed", "saturated")


def inputs(view: TradeoffView) -> None:
    """The three targets, the guardrails behind a button, and the way back to what was written down."""
    written, now = view.spec.targets, view.targets
    ttft, cost, passing, guardrails, reset = st.columns([2.3, 2.7, 2.1, 1.5, 1.5], vertical_alignment="bottom")
    with ttft:
        _number(address.TARGET_TTFT, "P90 TTFT ≤ ms", now.ttft_p90_ms, written.ttft_p90_ms, "P90 TTFT", high=MOST_MS)
    with cost:
        _number(
            address.TARGET_COST,
            "Deployed cost ≤ USD",
            now.cost_per_1000_requests_usd,
            written.cost_per_1000_requests_usd,
            "Deployed cost",
            high=MOST_USD,
        )
    with passing:
        shares = address.per_cent(now.pass_rate), address.per_cent(written.pass_rate)
        _number(address.TARGET_PASS_RATE, "Pass rate ≥ %", *shares, "Pass rate", low=0.01, high=100.0, step=1.0)
    with guardrails:
        _guardrails(view)
    reset.button(
        "As written",
        on_click=address.reset_limits,
        disabled=now == written and view.guardrails == view.spec.guardrails,
        width="stretch",
        help="Targets and guardrails back to what was written down with the experiment.",
    )


def _guardrails(view: TradeoffView) -> None:
    written, now = view.spec.guardrails, view.guardrails
    moved = sum((now.tpot_p90_ms != written.tpot_p90_ms, now.error_rate != written.error_rate))
    with st.popover(f"Guardrails ({moved})" if moved else "Guardrails", icon=":material/shield:", width="stretch"):
        if moved:
            st.caption(f"{moved} moved from what was written down.")
        st.caption("A rate is held only while both are kept: moving one may move a candidate's marked point.")
        _number(address.GUARDRAIL_TPOT, "P90 TPOT ≤ ms", now.tpot_p90_ms, written.tpot_p90_ms, "P90 TPOT", high=MOST_MS)
        shares = address.per_cent(now.error_rate), address.per_cent(written.error_rate)
        _number(address.GUARDRAIL_ERRORS, "Failed requests ≤ %", *shares, "Error rate", low=0.0, high=99.9, step=0.5)


def cost_scale() -> CostScale:
    """The choice of the cost that the chart shows."""
    asked = address.value(address.COST_SCALE)
    st.session_state[address.box(address.COST_SCALE)] = asked if asked in _SCALES else "deployed"
    chosen = st.segmented_control(
        "Cost on the chart",
        _SCALES,
        format_func=lambda scale: f"{scale.capitalize()} cost",
        required=True,
        key=address.box(address.COST_SCALE),
        on_change=_write_scale,
        label_visibility="collapsed",
        help=f"Deployed: {DEFINITIONS['Deployed cost']}\n\nSaturated: {DEFINITIONS['Saturated cost']}",
    )
    return chosen if chosen in _SCALES else "deployed"


def _number(
    key: str,
    label: str,
    now: float,
    written: float,
    term: str,
    *,
    low: float = 0.000001,
    high: float,
    step: float | None = None,
) -> None:
    st.session_state[address.box(key)] = min(max(float(now), low), high)
    st.number_input(
        f"{label} (written: {formats.plain(written)})",
        min_value=low,
        max_value=float(high),
        step=step or _step(written),
        format="%g",
        key=address.box(key),
        on_change=_write,
        args=(key, written),
        help=DEFINITIONS[term],
    )


def _write(key: str, written: float) -> None:
    address.put(key, _text(st.session_state[address.box(key)]), default=_text(written))


def _write_scale() -> None:
    address.put(address.COST_SCALE, st.session_state[address.box(address.COST_SCALE)] or "", default="deployed")


def _text(number: float) -> str:
    return f"{number:.10g}"


def _step(value: float) -> float:
    """About a twentieth of the value, as a round number: one click is a visible move."""
    power = 10.0 ** math.floor(math.log10(value / 20))
    return float(f"{max(s for s in (1, 2, 5, 10) if s * power <= value / 20 * 1.0001) * power:.3g}")
