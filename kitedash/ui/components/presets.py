"""The row of presets: three questions whose answer is a candidate."""

from __future__ import annotations

import streamlit as st

from kitedash.domain.presets import LABELS
from kitedash.services.tradeoff_page import TradeoffPage
from kitedash.ui import address
from kitedash.ui.escape import markdown

_HELP = (
    "Each picks among the candidates that miss no target and fail no suite, and says what that rests on. It only "
    "highlights: no candidate is hidden, and the recommendation stays what it is."
)


def row(found: TradeoffPage) -> None:
    """Draws the presets; one chosen stands in the address until a point or a row is picked."""
    st.session_state[address.box(address.PRESET)] = _in_force(found)
    st.segmented_control(
        "Pick",
        [preset.key for preset in found.presets],
        format_func=lambda key: LABELS[key],
        key=address.box(address.PRESET),
        on_change=_chosen,
        label_visibility="collapsed",
        help=_HELP,
    )


def sentence(found: TradeoffPage) -> None:
    """What the preset in force picked and what that rests on, or why it picks none; nothing where none was chosen."""
    if found.asked_preset is not None:
        sign = ":material/verified:" if found.asked_preset.established else ":material/help:"
        st.caption(f"{sign} {markdown(found.asked_preset.sentence)}")


def _in_force(found: TradeoffPage) -> str | None:
    if found.asked_preset is not None:
        return found.asked_preset.key
    picked = found.picked
    cheapest = found.presets[0] if found.presets else None
    if (
        picked is not None
        and picked.is_default
        and cheapest is not None
        and cheapest.candidate == picked.candidate.name
    ):
        return cheapest.key
    return None


def _chosen() -> None:
    address.pick_preset(st.session_state[address.box(address.PRESET)] or "")
