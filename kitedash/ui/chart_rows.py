"""Points as rows of a chart's data, with the texts of their tooltips."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

from kitedash.domain.results import Estimate
from kitedash.ui import formats, theme
from kitedash.ui.points import Point


def frame(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=list(rows[0]) if rows else ["cost_usd", "ttft_ms"])


def row(p: Point) -> dict[str, Any]:
    summary = p.level.summary
    return {
        "number": p.number,
        "cost_usd": p.cost_usd,
        "ttft_ms": p.ttft_p90_ms,
        "rate": summary.rate_per_s,
        "pass_rate": p.pass_rate.value if p.pass_rate is not None else None,
        "status": str(p.status),
        "Candidate": f"#{p.number} {p.candidate}",
        "Rate": formats.rate(summary.rate_per_s) + (", highest held" if p.marked else ""),
        "P90 TTFT": formats.with_interval(p.ttft, formats.ms),
        "P90 TPOT": formats.with_interval(summary.tpot_p90_ms, formats.ms),
        "Cost": formats.with_interval(p.cost, formats.usd) if p.cost else formats.usd(p.cost_usd),
        "Passes": formats.with_interval(p.pass_rate, formats.share),
        "Held": "yes" if p.level.held else f"no: {p.level.held_reason or summary.reason}",
        "Targets": theme.sign(theme.STATUS_SIGN, p.status),
    }


def tooltip() -> list[alt.Tooltip]:
    titles = {"Cost": "Cost per 1,000", "Passes": "Pass rate", "Held": "Held?"}
    fields = ("Candidate", "Rate", "P90 TTFT", "P90 TPOT", "Cost", "Passes", "Held", "Targets")
    return [alt.Tooltip(f"{field}:N", title=titles.get(field, field)) for field in fields]


def span(estimate: Estimate, value: float, domain: tuple[float, float]) -> tuple[float, float] | None:
    """The interval within the scale; a bound that is not established ends at the point itself."""
    low = max(estimate.low if estimate.low is not None else value, domain[0])
    high = min(estimate.high if estimate.high is not None else value, domain[1])
    return (low, high) if high > low else None
