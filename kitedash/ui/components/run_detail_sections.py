"""The sections of a run's page as tabs; only the open one is drawn, and the address says which it is."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from kitedash.services.run_page import RunDetail
from kitedash.ui import address
from kitedash.ui.components import (
    run_detail_answers,
    run_detail_attainment,
    run_detail_curves,
    run_detail_files,
    run_detail_levels,
    run_detail_memory,
    run_detail_parts,
    run_detail_requests,
)

ATTAINMENT, REQUESTS, MEMORY = "attainment", "requests", "memory"
LEVELS, PARTS, CURVES, ANSWERS, REPRODUCE, RAW = "levels", "parts", "distributions", "answers", "reproduce", "raw"
_Draw = Callable[[RunDetail], None]
_SECTIONS: dict[str, tuple[str, _Draw]] = {
    LEVELS: ("Load levels", run_detail_levels.level_tables),
    ATTAINMENT: ("Attainment", run_detail_attainment.attained),
    PARTS: ("Parts of a request", run_detail_parts.parts),
    REQUESTS: ("Slow requests", run_detail_requests.requests),
    CURVES: ("Distributions", run_detail_curves.curves),
    ANSWERS: ("Suites and answers", run_detail_answers.suites),
    MEMORY: ("Memory", run_detail_memory.memory),
    REPRODUCE: ("To reproduce", run_detail_files.reproduce),
    RAW: ("Raw data", run_detail_files.downloads),
}
_KEYS = {title: key for key, (title, _) in _SECTIONS.items()}


def asked() -> str:
    """The section that the address names; "" where the run's state decides."""
    named = address.value(address.SECTION)
    return named if named in _SECTIONS else ""


def sections(detail: RunDetail) -> None:
    if detail.run.status == "queued":
        st.markdown("**What it is to be started with**")
        run_detail_files.planned(detail)
        return
    box = address.box(address.SECTION)
    shown = {key: section for key, section in _SECTIONS.items() if key != MEMORY or detail.memory is not None}
    st.session_state[box] = _SECTIONS[asked() if asked() in shown else default(detail)][0]
    tabs = st.tabs([title for title, _ in shown.values()], key=box, on_change=_picked)
    for tab, (_, draw) in zip(tabs, shown.values(), strict=True):
        if tab.open:
            with tab:
                draw(detail)


def default(detail: RunDetail) -> str:
    """Load levels; of a run that ended before it had any, what it was started with and its log."""
    ended = detail.run.status in ("failed", "cancelled")
    return REPRODUCE if ended and not detail.levels else LEVELS


def _picked() -> None:
    address.put(address.SECTION, _KEYS[st.session_state[address.box(address.SECTION)]])
