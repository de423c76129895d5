"""What choosing one candidate gives up against each other member of the front, and against the baseline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd
import streamlit as st

from kitedash.domain import wording
from kitedash.domain.comparison import Difference
from kitedash.services.compare import ComparisonView
from kitedash.services.views import TradeoffView
from kitedash.ui import formats, theme
from kitedash.ui.components.comparison import change_words
from kitedash.ui.definitions import DEFINITIONS
from kitedash.ui.escape import markdown

_POINTS = "pass rate"  # the dimension whose change is in points; the others are relative
_HEADS = {
    "P90 TTFT": "P90 TTFT [95 %]",
    "deployed cost": "Deployed cost [95 %]",
    "pass rate": "Pass rate [90 %, paired]",
}


def gives_up(name: str, against: Sequence[ComparisonView], view: TradeoffView) -> None:
    """One sentence, a row for each of the others, and the same in sentences with both numbers."""
    st.subheader("What it gives up", help=DEFINITIONS["Front"])
    if not against:
        st.caption(
            "No other candidate is on the front, and this one is the baseline: there is nothing to give up so far."
        )
        return
    st.markdown(summary(name, against))
    st.table(rows(against, view), border="horizontal", alt=f"{name} against the front and the baseline")
    st.caption(
        f"{theme.OUTCOME_SIGN['better']}, {theme.OUTCOME_SIGN['worse']}: the chosen candidate against the one in the "
        "row. Established: the whole interval is on one side of no change. "
        f"{theme.OUTCOME_SIGN['noise']}: no more than the noise floor."
    )
    with st.expander("In sentences, with both numbers", icon=":material/notes:"):
        for one in against:
            st.markdown(f"**Against {markdown(one.other)}**")
            st.markdown("".join(f"- {markdown(found.sentence)}\n" for found in one.differences))


def summary(name: str, against: Sequence[ComparisonView]) -> str:
    """The losses that are established, and how many more are only seen."""
    losses = [(one, found) for one in against for found in one.differences if found.outcome == "worse"]
    sure = [f"{found.dimension} against {one.other} ({amount(found)})" for one, found in losses if found.established]
    unsure = len(losses) - len(sure)
    more = f" {unsure} further {'loss is' if unsure == 1 else 'losses are'} not established." if unsure else ""
    if sure:
        return f"**{markdown(name)} gives up {markdown(wording.listed(sure))}.**{more}"
    return f"**No loss of {markdown(name)} is established.**{more}"


def rows(against: Sequence[ComparisonView], view: TradeoffView) -> pd.DataFrame:
    """One row each, the other's name as the index. Cells are Markdown."""
    roles = {
        candidate.name: [
            word for word, holds in (("front", candidate.on_front), ("baseline", candidate.is_baseline)) if holds
        ]
        for candidate in view.candidates
    }
    table = [
        {
            "Against": f"**{markdown(one.other)}** ({', '.join(roles.get(one.other, ()))})",
            **cells(one.differences),
        }
        for one in against
    ]
    return pd.DataFrame(table).set_index("Against")


def cells(differences: Iterable[Difference]) -> dict[str, str]:
    """Column -> what stands in it, as Markdown."""
    return {_HEADS.get(found.dimension, found.dimension): markdown(change_words(found)) for found in differences}


def amount(found: Difference) -> str:
    """Such as `12.3 % higher`, or `3.3 points lower` of the pass rate."""
    if found.change is None or found.change.value is None:
        return formats.MISSING
    unit = "points" if found.dimension == _POINTS else "%"
    return f"{100 * abs(found.change.value):.1f} {unit} {'higher' if found.change.value > 0 else 'lower'}"
