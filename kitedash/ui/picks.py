"""Picking a candidate by a click on the chart or on a row of the table.

Both are widgets that keep a selection of their own. What is picked stands in the address (or follows from a preset), so
after every run the two must agree with it: `take` turns a new selection into a pick before the page is read, and
`chart_key` and `table_key` give a widget whose selection says something else a new key, with which it starts anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import streamlit as st

from kitedash.ui import address

POINT: Final = "point"  # the name of the chart's selection
NUMBER: Final = "number"  # what it selects by: the candidate's number, from 1
_CHART, _TABLE = "_chart", "_table"
_SEEN: Final = "_seen"
_ALL: Final = "_all_names"  # in the experiment's order, as last drawn
_ROWS: Final = "_row_names"  # of the table's rows, as last drawn


def take() -> None:
    """Called before the page is read: a selection that has changed since the last run becomes the pick."""
    for widget, selected in ((_CHART, _selected_point()), (_TABLE, _selected_row())):
        if selected != st.session_state.get(widget + _SEEN):
            st.session_state[widget + _SEEN] = selected
            if selected is not None:
                address.pick_candidate(selected)


def chart_key(names: Sequence[str], picked: str | None) -> str:
    """The key to draw the chart with; `names` are all candidates of the experiment."""
    st.session_state[_ALL] = tuple(names)
    if _selected_point() not in (None, picked):
        _renew(_CHART)
        st.session_state[_CHART + _SEEN] = None
    return _key(_CHART)


def table_key(rows: Sequence[str], picked: str | None) -> str:
    """The key to draw the table with; `rows` are the candidates of its rows. Draw it with the picked one selected."""
    shown = picked if picked in rows else None
    if st.session_state.get(_ROWS) != tuple(rows) or _selected_row() != shown:
        _renew(_TABLE)
        st.session_state[_ROWS] = tuple(rows)
        st.session_state[_TABLE + _SEEN] = shown
    return _key(_TABLE)


def _key(widget: str) -> str:
    return f"{widget}_{st.session_state.get(f'{widget}_times', 0)}"


def _renew(widget: str) -> None:
    st.session_state[f"{widget}_times"] = st.session_state.get(f"{widget}_times", 0) + 1


def _selected_point() -> str | None:
    points = _selection(_CHART).get(POINT) or ()
    number = points[0].get(NUMBER) if points else None
    return _name_at(_ALL, number - 1 if isinstance(number, int) else None)


def _selected_row() -> str | None:
    rows = _selection(_TABLE).get("rows") or ()
    return _name_at(_ROWS, rows[0] if rows else None)


def _selection(widget: str) -> Mapping[str, Any]:
    state = st.session_state.get(_key(widget)) or {}
    found: Mapping[str, Any] = state.get("selection") or {}
    return found


def _name_at(names_key: str, index: int | None) -> str | None:
    names: tuple[str, ...] = st.session_state.get(names_key, ())
    return names[index] if index is not None and 0 <= index < len(names) else None
