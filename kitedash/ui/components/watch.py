"""Notices that something was stored elsewhere, without drawing anything while nothing was."""

from __future__ import annotations

import streamlit as st

from kitedash.services import tradeoff_page
from kitedash.services.tradeoff_page import TradeoffPage

WHILE_RUNNING_S = 2
WHILE_IDLE_S = 10  # somebody may launch from another tab or a terminal


def changes(found: TradeoffPage) -> None:
    """Asks again every few seconds, with one small query, and draws the page anew only when the answer has changed:
    what is picked, typed or opened stays as it is meanwhile."""
    view = found.view
    every_s = WHILE_RUNNING_S if view is not None and view.runs_active else WHILE_IDLE_S
    experiment_id = view.experiment_id if view is not None else None

    def ask() -> None:
        if tradeoff_page.change_token(experiment_id) != found.token:
            st.rerun()

    st.fragment(ask, run_every=every_s)()
