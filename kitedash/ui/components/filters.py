"""Filters of the chart and of the table, which are filtered alike. The recommendation never changes by a filter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import streamlit as st

from kitedash.services.tradeoff_page import TradeoffPage
from kitedash.services.views import CandidateView, Status, TradeoffView
from kitedash.ui import address, theme
from kitedash.ui.definitions import DEFINITIONS
from kitedash.ui.escape import markdown, printable

_STATUSES = tuple(str(status) for status in (Status.MEETS, Status.UNCERTAIN, Status.MISSES, Status.PENDING))


@dataclass(frozen=True)
class Filters:
    """Empty means all. `text` is looked for in the name, whatever its case."""

    statuses: tuple[str, ...] = ()
    front_only: bool = False
    number_formats: tuple[str, ...] = ()
    text: str = ""

    def shows(self, candidate: CandidateView, number_formats: Mapping[str, str]) -> bool:
        return (
            (not self.statuses or candidate.status in self.statuses)
            and (not self.front_only or candidate.on_front)
            and (not self.number_formats or number_formats.get(candidate.name) in self.number_formats)
            and self.text.casefold() in candidate.name.casefold()
        )

    @property
    def words(self) -> str:
        """What is asked for, such as "meets or uncertain, on the front"."""
        parts = [
            " or ".join(self.statuses),
            "on the front" if self.front_only else "",
            " or ".join(self.number_formats),
        ]
        parts.append(f"“{self.text}” in the name" if self.text else "")
        return ", ".join(part for part in parts if part)


def current() -> Filters:
    """What the address says; statuses that do not exist are ignored."""
    return Filters(
        statuses=tuple(status for status in _STATUSES if status in address.listed(address.FILTER_STATUS)),
        front_only=address.value(address.FILTER_FRONT) == "1",
        number_formats=address.listed(address.FILTER_FORMAT),
        text=address.value(address.FILTER_TEXT).strip(),
    )


def shown(view: TradeoffView, filters: Filters, number_formats: Mapping[str, str]) -> tuple[str, ...]:
    """The names that the filters leave, in order."""
    return tuple(one.name for one in view.candidates if filters.shows(one, number_formats))


def popover(found: TradeoffPage, filters: Filters) -> None:
    """The inputs, behind a button that counts what is set."""
    active = sum(map(bool, (filters.statuses, filters.front_only, filters.number_formats, filters.text)))
    formats = tuple(dict.fromkeys(found.number_formats.values()))
    with st.popover(f"Filters ({active})" if active else "Filters", icon=":material/filter_alt:"):
        _set(address.FILTER_STATUS, list(filters.statuses))
        st.pills(
            "Target status",
            _STATUSES,
            selection_mode="multi",
            format_func=lambda status: theme.sign(theme.STATUS_SIGN, status),
            key=address.box(address.FILTER_STATUS),
            on_change=_write_list,
            args=(address.FILTER_STATUS,),
            help=DEFINITIONS["Target status"],
        )
        _set(address.FILTER_FORMAT, [one for one in formats if one in filters.number_formats])
        st.pills(
            "Number format of the weights",
            formats,
            selection_mode="multi",
            format_func=printable,
            key=address.box(address.FILTER_FORMAT),
            on_change=_write_list,
            args=(address.FILTER_FORMAT,),
        )
        _set(address.FILTER_FRONT, filters.front_only)
        st.toggle(
            "On the front only",
            key=address.box(address.FILTER_FRONT),
            on_change=_write_front,
            help=DEFINITIONS["Front"],
        )
        _set(address.FILTER_TEXT, filters.text)
        st.text_input(
            "Text in the name",
            max_chars=80,
            key=address.box(address.FILTER_TEXT),
            on_change=_write_text,
            placeholder="such as int8",
        )


def hidden_line(view: TradeoffView, filters: Filters, left: tuple[str, ...]) -> None:
    """How many candidates the filters hide, and the way to show all; nothing while none is hidden."""
    hidden = len(view.candidates) - len(left)
    if not filters.words:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(
            f":material/filter_alt: Shown: {markdown(filters.words)}. **{hidden} of {len(view.candidates)} candidates "
            "hidden**, in chart and table alike; the recommendation is among all.",
            width="content",
        )
        st.button("Show all", on_click=_clear, type="tertiary")


def _set(key: str, current_value: object) -> None:
    st.session_state[address.box(key)] = current_value


def _write_list(key: str) -> None:
    address.put(key, ",".join(st.session_state[address.box(key)]))


def _write_front() -> None:
    address.put(address.FILTER_FRONT, "1" if st.session_state[address.box(address.FILTER_FRONT)] else "")


def _write_text() -> None:
    address.put(address.FILTER_TEXT, (st.session_state[address.box(address.FILTER_TEXT)] or "").strip())


def _clear() -> None:
    for key in address.FILTER_KEYS:
        address.put(key, "")
