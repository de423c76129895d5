"""The answer on top of the trade-off page, and what it rests on."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from kitedash.domain.recommend import RecommendationKind
from kitedash.services.views import TradeoffView
from kitedash.ui.definitions import DEFINITIONS
from kitedash.ui.escape import markdown

_SHOWN = 1  # of what would settle it: the chart has to stay in the first screenful


def answer(view: TradeoffView) -> None:
    """The recommendation, or the leading candidate with what is not established and what would settle it."""
    found = view.recommendation
    settles = " · ".join(markdown(text) for text in found.settles[:_SHOWN])
    text = f"**{markdown(found.sentence)}**" + (f"  \nWhat would settle it: {settles}" if settles else "")
    if found.established:
        st.success(text, icon=":material/verified:")
    elif found.kind is not RecommendationKind.NOTHING_MEASURED:
        st.warning(text, icon=":material/help:")
    else:
        st.info(text, icon=":material/info:")
    if rest := found.settles[_SHOWN:]:
        with st.expander(f"{len(rest)} more that would settle it"):
            st.markdown("".join(f"- {markdown(item)}\n" for item in rest))


def context(view: TradeoffView) -> None:
    """On what it was measured, what of that holds elsewhere, and what is still to come: one line, to save height."""
    names = sorted({c.facts.device_name for c in view.candidates if c.facts is not None and c.facts.device_name})
    where = f"Measured on {markdown(', '.join(names))}" if names else "Measured"
    parts = []
    if view.device_kind == "cpu":
        parts.append(f"{where}, a CPU: format speeds don't carry over to a GPU; quality differences do.")
    elif view.device_kind:
        parts.append(f"{where}.")
    if view.runs_active:
        runs = "run is" if view.runs_active == 1 else "runs are"
        parts.append(f":material/sync: {view.runs_active} {runs} queued or under way; refreshed every 2 s.")
    lines = ["  ".join(parts), *_noise(view)]
    if any(lines):
        compared = len(view.candidates) > 1
        st.caption("  \n".join(filter(None, lines)), help=DEFINITIONS["Noise floor"] if compared else None)
    for note in view.notes:
        st.caption(f":material/info: {markdown(note)}")


def _noise(view: TradeoffView) -> list[str]:
    """How far apart two measurements of one thing lie, where there are two things to compare."""
    if len(view.candidates) < 2:
        return []
    moved = [f":material/warning: {markdown(view.noise.moved)}"] if view.noise.moved else []
    return [markdown(view.noise.sentence), *moved]


def unknown(names: Sequence[str]) -> None:
    """A link may name a candidate of another experiment, or one that was never there."""
    for name in names:
        st.warning(f"This experiment has no candidate {markdown(name)}.", icon=":material/link_off:")


def failures(view: TradeoffView) -> None:
    """A failed candidate never disappears: its reason stands here, and it has a row in the table."""
    failed = [c for c in view.candidates if c.error]
    shown = failed if len(failed) <= 2 else []
    for candidate in shown:
        st.error(f"**{markdown(candidate.name)}** failed: {markdown(candidate.error)}", icon=":material/error:")
    if failed and not shown:
        st.error(f"{len(failed)} candidates failed.", icon=":material/error:")
        with st.expander("Why they failed", expanded=len(failed) == len(view.candidates)):
            for candidate in failed:
                st.markdown(f"- **{markdown(candidate.name)}**: {markdown(candidate.error)}")
