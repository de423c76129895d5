"""The trade-off chart on the page, built once per stored result."""

from __future__ import annotations

from typing import Any

import streamlit as st

from kitedash.services.views import TradeoffView
from kitedash.ui import chart_words, charts, theme
from kitedash.ui.points import CostScale


def tradeoff_chart(view: TradeoffView, scale: CostScale) -> None:
    """The chart with its reading help, or a sentence on why there is none yet."""
    built = _built(view.experiment_id, view.revision, repr((view.targets, view.guardrails)), scale, theme.ink(), view)
    if built is None:
        icon = ":material/hourglass_empty:" if view.runs_active else ":material/block:"
        st.info(chart_words.no_points(view), icon=icon)
        return
    spec, caption = built
    st.vega_lite_chart(spec, alt=chart_words.describe(view, scale))
    st.caption(caption)


@st.cache_data(ttl=3_600, max_entries=100, show_spinner=False)
def _built(
    experiment_id: str, revision: str, limits: str, scale: CostScale, ink: theme.Ink, _view: TradeoffView
) -> tuple[dict[str, Any], str] | None:
    """The Vega-Lite specification. Building it takes half a second of a core, which a page that refreshes itself every
    2 s would take from the engine that is being measured on the same CPU: hence the cache, keyed by the revision."""
    chart, drawn = charts.tradeoff_chart(_view, scale, ink)
    return (chart.to_dict(), chart_words.legend_caption(drawn, scale)) if drawn.points else None
