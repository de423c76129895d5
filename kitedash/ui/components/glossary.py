"""The definitions of the numbers that a page shows, one click away."""

from __future__ import annotations

from typing import Literal

import streamlit as st

from kitedash.ui.definitions import ON_PAGE, TOPICS


def popover(page: str, *, width: Literal["stretch", "content"] = "stretch") -> None:
    """A button that opens them, by topic; `page` names the file in pages/."""
    with st.popover("Definitions", icon=":material/menu_book:", width=width):
        for topic in ON_PAGE[page]:
            terms = "".join(f"- **{term}**: {meaning}\n" for term, meaning in TOPICS[topic].items())
            st.markdown(f"###### {topic}\n{terms}")
        st.caption("Formulas, units and sources: docs/metrics.md. What misleads, and why: docs/pitfalls.md.")
