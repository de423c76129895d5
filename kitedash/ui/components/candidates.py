"""Tables beside the chart: candidates, every measured rate, the verdict of every suite."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pandas as pd
import streamlit as st

from kitedash.domain.results import Estimate
from kitedash.services.views import CandidateView, TradeoffView
from kitedash.ui import formats, picks, theme
from kitedash.ui.definitions import DEFINITIONS
from kitedash.ui.escape import printable

_Number = st.column_config.NumberColumn
_Text = st.column_config.TextColumn
# Columns of the two tables below the candidates, and the terms that define them.
_RATE_TERMS = (
    ("Held", "Highest rate held"),
    ("Status", "Load level"),
    ("P50 TTFT (ms)", "P90 TTFT"),
    ("P90 TTFT (ms)", "P90 TTFT"),
    ("P99 TTFT (ms)", "P90 TTFT"),
    ("P90 TPOT (ms)", "P90 TPOT"),
    ("Failed", "Error rate"),
    ("Delivered (/s)", "Delivered rate"),
    ("Prefix hits (%)", "Prefix hits"),
    ("Most running", "Most running"),
    ("Saturated cost (USD/1,000)", "Saturated cost"),
)
_SUITE_TERMS = (
    ("Verdict", "Quality verdict"),
    ("Pass rate (%)", "Pass rate"),
    ("Change to the baseline (points, 90 % interval)", "Change to the baseline"),
    ("Margin (points)", "Margin"),
    ("Items that would settle it", "Items that would settle it"),
)


def candidate_rows(view: TradeoffView, shown: Collection[str]) -> pd.DataFrame:
    """One row a candidate of those in `shown`, in the order and with the numbers of the chart."""
    return pd.DataFrame([_row(number, candidate) for number, candidate in _numbered(view, shown)])


def candidate_table(view: TradeoffView, shown: Collection[str], picked: str | None) -> None:
    """The table; a click at the left edge of a row picks its candidate. Nothing where the filters leave none."""
    names = [candidate.name for _, candidate in _numbered(view, shown)]
    if not names:
        return
    st.dataframe(
        candidate_rows(view, shown),
        key=picks.table_key(names, picked),
        on_select="rerun",
        selection_mode="single-row",
        selection_default={"selection": {"rows": [names.index(picked)] if picked in names else []}},
        hide_index=True,
        placeholder=formats.MISSING,
        alt="Candidates with their highest rate held, latency, cost, pass rate, verdicts and target status",
        column_config={
            "#": _Number(width=36, pinned=True),
            "Candidate": _Text(width=190, pinned=True),
            "Targets": _Text(help=DEFINITIONS["Target status"], width=96),
            "Rate held": _Number("Highest rate held (/s)", help=DEFINITIONS["Highest rate held"], format="%g"),
            "TTFT": _Number("P90 TTFT (ms)", help=DEFINITIONS["P90 TTFT"], format="%,.0f"),
            "TTFT interval": _Text("95 % interval", width=130, help=DEFINITIONS["95 % interval"]),
            "TTFT n": _Number("requests", format="%,d"),
            "TPOT": _Number("P90 TPOT (ms)", help=DEFINITIONS["P90 TPOT"], format="%,.1f"),
            "Deployed": _Number("Deployed cost (USD/1,000)", help=DEFINITIONS["Deployed cost"], format="%.4g"),
            "Deployed interval": _Text("95 % interval", width=130, help=DEFINITIONS["95 % interval"]),
            "Replicas": _Number(format="%d", help=DEFINITIONS["Replicas"]),
            "Saturated": _Number("Saturated cost (USD/1,000)", help=DEFINITIONS["Saturated cost"], format="%.4g"),
            "Pass rate": _Number("Pass rate (%)", help=DEFINITIONS["Pass rate"], format="%.1f"),
            "Pass rate interval": _Text("95 % interval", width=130, help=DEFINITIONS["95 % interval"]),
            "Items": _Number("items", format="%,d"),
            "Quality": _Text("Quality verdicts", help=DEFINITIONS["Quality verdict"]),
            "Front": _Text(help=f"{DEFINITIONS['Front']}\n\n{DEFINITIONS['Probability of the front']}"),
            "Kernel": _Text(help=DEFINITIONS["Kernel"]),
            "Run": _Text("Run", width=90),
            "Settles": _Text("What would settle it, or why a number is missing", width=420),
        },
    )


def rate_rows(view: TradeoffView, shown: Collection[str]) -> pd.DataFrame:
    """Every measured rate of the candidates shown, invalid and overloaded ones with their reason."""
    rows: list[dict[str, Any]] = []
    for number, candidate in _numbered(view, shown):
        for level in candidate.levels:
            s = level.summary
            rows.append(
                {
                    "#": number,
                    "Candidate": printable(candidate.name),
                    "Rate (/s)": s.rate_per_s,
                    "Held": "✓ held" if level.held else "✗ not held",
                    "Status": str(s.status),
                    "Why": printable(level.held_reason or s.reason),
                    "P50 TTFT (ms)": _cell(s.ttft_p50_ms),
                    "P90 TTFT (ms)": _cell(s.ttft_p90_ms),
                    "P99 TTFT (ms)": _cell(s.ttft_p99_ms),
                    "P90 TPOT (ms)": _cell(s.tpot_p90_ms),
                    "Requests": s.n_requests,
                    "Failed": s.n_failed,
                    "Blocks": s.blocks,
                    "Delivered (/s)": round(s.delivered_rate_per_s, 3),
                    "Prefix hits (%)": None if s.prefix_hit_rate is None else round(100 * s.prefix_hit_rate, 1),
                    "Most running": s.running_max,
                    "Saturated cost (USD/1,000)": level.cost_usd,
                }
            )
    return pd.DataFrame(rows)


def suite_rows(view: TradeoffView, shown: Collection[str]) -> pd.DataFrame:
    """Every suite of the candidates shown with its verdict and what it rests on."""
    rows: list[dict[str, Any]] = []
    for number, candidate in _numbered(view, shown):
        for suite in candidate.suites:
            rows.append(
                {
                    "#": number,
                    "Candidate": printable(candidate.name),
                    "Suite": f"{suite.name} ({suite.role})" if suite.role else suite.name,
                    "Verdict": theme.sign(theme.VERDICT_SIGN, suite.verdict),
                    "Pass rate (%)": _cell(suite.pass_rate, 100),
                    "Passed": f"{suite.n_passed} of {suite.n_items}" if suite.n_items else formats.MISSING,
                    "Cut off": suite.n_truncated,
                    "Failed": suite.n_failed,
                    "Change to the baseline (points, 90 % interval)": _cell(suite.change, 100),
                    "Margin (points)": 100 * suite.margin,
                    "Items that would settle it": suite.items_needed,
                    "In words": printable(suite.verdict_sentence),
                }
            )
    return pd.DataFrame(rows)


def more_tables(view: TradeoffView, shown: Collection[str]) -> None:
    rates, suites = rate_rows(view, shown), suite_rows(view, shown)
    with st.expander(f"All measured rates ({len(rates)})", icon=":material/speed:"):
        if rates.empty:
            st.caption("No rate has been measured yet.")
        else:
            st.dataframe(
                rates,
                hide_index=True,
                placeholder=formats.MISSING,
                alt="Every measured rate with latencies and whether it was held",
                column_config={column: st.column_config.Column(help=DEFINITIONS[term]) for column, term in _RATE_TERMS},
            )
    with st.expander(f"Quality by suite ({len(suites)})", icon=":material/fact_check:"):
        if suites.empty:
            st.caption("No suite has been answered yet.")
        else:
            st.dataframe(
                suites,
                hide_index=True,
                placeholder=formats.MISSING,
                alt="Verdict of every suite against the baseline",
                column_config={
                    column: st.column_config.Column(help=DEFINITIONS[term]) for column, term in _SUITE_TERMS
                },
            )


def _numbered(view: TradeoffView, shown: Collection[str]) -> list[tuple[int, CandidateView]]:
    """The candidates shown; each keeps its number whatever is hidden."""
    return [(number, one) for number, one in enumerate(view.candidates, start=1) if one.name in shown]


def _row(number: int, c: CandidateView) -> dict[str, Any]:
    summary = c.point.summary if c.point is not None else None
    passing = c.pass_rate
    return {
        "#": number,
        "Candidate": printable(c.name) + (" (baseline)" if c.is_baseline else ""),
        "Targets": theme.sign(theme.STATUS_SIGN, c.status),
        "Rate held": summary.rate_per_s if summary else None,
        "TTFT": summary.ttft_p90_ms.value if summary else None,
        "TTFT interval": formats.interval(summary.ttft_p90_ms, formats.number) if summary else formats.MISSING,
        "TTFT n": summary.ttft_p90_ms.n if summary else None,
        "TPOT": summary.tpot_p90_ms.value if summary else None,
        "Deployed": c.cost.deployed_usd.value if c.cost else None,
        "Deployed interval": formats.interval(c.cost.deployed_usd, formats.number) if c.cost else formats.MISSING,
        "Replicas": c.cost.replicas if c.cost else None,
        "Saturated": c.cost.saturated_usd.value if c.cost else None,
        "Pass rate": None if passing is None or passing.value is None else 100 * passing.value,
        "Pass rate interval": formats.interval(passing, lambda share: formats.number(100 * share)),
        "Items": passing.n if passing else None,
        "Quality": ", ".join(f"{s.name}: {theme.sign(theme.VERDICT_SIGN, s.verdict)}" for s in c.suites)
        or formats.MISSING,
        "Front": _front(c),
        "Kernel": printable(c.facts.linear_kernel or "not named") if c.facts else formats.MISSING,
        "Run": theme.sign(theme.RUN_SIGN, c.run_status),
        "Settles": printable("; ".join(text for text in (c.error, c.settles, *c.notes) if text)),
    }


def _front(c: CandidateView) -> str:
    if not c.on_front and not c.front_probability:
        return formats.MISSING
    likely = f" ({100 * c.front_probability:.0f} % likely)" if c.front_probability is not None else ""
    return ("◎ on it" if c.on_front else "not on it") + likely


def _cell(estimate: Estimate | None, times: float = 1) -> str:
    """`312 [290 to 340]`, in the column's unit."""
    if estimate is None or estimate.value is None:
        return (estimate.note if estimate else "") or formats.MISSING
    bounds = formats.interval(estimate, lambda value: formats.number(times * value))
    return f"{formats.number(times * estimate.value)} [{bounds}]"
