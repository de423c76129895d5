"""The trade-off's numbers to take away: the table as CSV and as JSON, from the same rows that scripts get."""

from __future__ import annotations

import re

import streamlit as st

from kitedash.services import table
from kitedash.services.export import as_csv, as_json
from kitedash.services.views import TradeoffView


def data_menu(view: TradeoffView) -> None:
    """All candidates, whatever the filters hide: a file has no line that says so."""
    stem = f"{re.sub(r'[^A-Za-z0-9]+', '-', view.name).strip('-') or 'experiment'}-{view.experiment_id[:8]}"
    rows = table.rows(view)
    with st.popover("Data", icon=":material/download:", width="stretch"):
        st.download_button("Table as CSV", as_csv(rows), f"{stem}.csv", "text/csv", on_click="ignore", width="stretch")
        st.download_button(
            "Table as JSON", as_json(rows), f"{stem}.json", "application/json", on_click="ignore", width="stretch"
        )
        st.caption(
            f"All {len(rows)} candidates under the targets shown, with intervals and sizes; filters don't apply. "
            "The toolbar above the chart saves it as PNG."
        )
