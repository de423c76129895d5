"""The trade-off chart on the page, built once per stored result; a click on a point picks its candidate."""

from __future__ import annotations

import hashlib
from typing import Any

import streamlit as st

from kitedash.services.views import TradeoffView
from kitedash.ui import chart_picks, chart_words, charts, picks, theme
from kitedash.ui.points import CostScale, Picture


def tradeoff_chart(view: TradeoffView, scale: CostScale, shown: tuple[str, ...], picked: str | None) -> None:
    """The chart with its reading help, or a sentence on why there is none yet. `shown`: what the filters leave."""
    ink = theme.ink()
    built = _built(view.experiment_id, _drawn(view), scale, ink, shown, view)
    if built is None:
        icon = ":material/hourglass_empty:" if view.runs_active else ":material/block:"
        st.info(chart_words.no_points(view, shown), icon=icon)
        return
    spec, pic = built
    point = chart_picks.named_point(pic, picked) if picked else None
    st.vega_lite_chart(
        chart_picks.with_ring(spec, point, ink) if point is not None else spec,
        alt=chart_words.describe(view, scale, shown),
        key=picks.chart_key([one.name for one in view.candidates], picked),
        on_select="rerun",
        selection_mode=picks.POINT,
    )
    st.caption(chart_words.legend_caption(pic, scale, view.targets.pass_rate))


def _drawn(view: TradeoffView) -> str:
    """Stands for all that the chart is drawn from: a run's progress changes the revision, but not the chart."""
    return hashlib.sha256(repr((view.candidates, view.targets, view.guardrails)).encode()).hexdigest()


@st.cache_data(ttl=3_600, max_entries=100, show_spinner=False)
def _built(
    experiment_id: str, drawn: str, scale: CostScale, ink: theme.Ink, shown: tuple[str, ...], _view: TradeoffView
) -> tuple[dict[str, Any], Picture] | None:
    """The Vega-Lite specification and what is on it. Building it takes half a second of a core, which a page that
    refreshes itself would take from the engine that is being measured on the same CPU: hence the cache."""
    chart, pic = charts.tradeoff_chart(_view, scale, ink, shown=shown)
    return (chart.to_dict(), pic) if pic.points else None
