"""The memory stage of a run: what was predicted, what the engine reports, and where it was seen to stop."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from kitedash.domain.memory import Room
from kitedash.services.memory_view import LengthLimit, MemoryView
from kitedash.services.run_page import RunDetail
from kitedash.ui import formats, memory_chart, theme
from kitedash.ui.definitions import DEFINITIONS
from kitedash.ui.escape import markdown, printable

_Number = st.column_config.NumberColumn
_Text = st.column_config.TextColumn


def memory(detail: RunDetail) -> None:
    """The chart with its limits, the numbers behind it, and each prompt length."""
    view = detail.memory
    if view is None or view.room is None:
        st.caption("No step of the memory stage is stored yet: it comes last in a run.")
        return
    st.markdown(markdown(sentence(view)))
    chart = memory_chart.memory_chart(view, theme.ink())
    st.vega_lite_chart(chart.to_dict(), alt=memory_chart.describe_memory(view))
    st.caption(
        "A mark a step: so many requests at once, sharing nothing. Lines: where all of the KV cache is taken "
        "(KV tokens / tokens of a request), the batch limit, and the engine's longest request."
    )
    st.markdown("**Predicted, reported and seen**")
    st.dataframe(
        number_rows(view),
        hide_index=True,
        placeholder=formats.MISSING,
        alt="KV bytes a token, KV tokens, longest prompt and requests at once: predicted, reported and seen",
        column_config={"Number": _Text(width=260), "What it is": _Text(width=420)},
    )
    if view.room.no_prediction:
        st.caption(markdown(f"No prediction of the KV bytes: {view.room.no_prediction}."))
    st.markdown("**By prompt length**")
    st.dataframe(
        length_rows(view),
        hide_index=True,
        placeholder=formats.MISSING,
        alt="Prompt lengths with the requests that ran at once, as predicted and as seen",
        column_config={
            "Prompt": _Number("Prompt tokens", format="%,d", width=95),
            "Answer": _Number("Answer tokens", format="%,d", width=98, help=DEFINITIONS["Answer of a memory step"]),
            "Predicted": _Number(format="%,d", width=75, help=DEFINITIONS["Requests at once"]),
            "Binds": _Text("Predicted by", width=105),
            "Seen": _Number("Ran at once", format="%,d", width=88, help=DEFINITIONS["Requests at once"]),
            "Beyond": _Text("Beyond that", width=150),
            "Why": _Text(width="large"),
        },
    )


def sentence(view: MemoryView) -> str:
    """What stops this candidate at the workload's own size of a request."""
    own = view.own
    if own is None:
        return f"Requests of the workload's size, {view.request_tokens:,} tokens, were not tried."
    said = f"Of requests of the workload's size, {view.request_tokens:,} tokens, {own.most:,} ran at once"
    if own.beyond is not None:
        outcome = memory_chart.LABELS[own.beyond.outcome]
        return f"{said}; of {own.beyond.concurrency:,}: {outcome}, {own.beyond.reason.rstrip('.')}."
    if (death := view.death) is not None:
        label = memory_chart.LABELS[death.outcome]
        return (
            f"{said}. More were not tried: with {death.concurrency:,} at once of {death.prompt_tokens:,} prompt tokens "
            f"the engine ended ({label}: {death.reason.rstrip('.')})."
        )
    return f"{said}, the most that was tried."


def number_rows(view: MemoryView) -> pd.DataFrame:
    room, own = view.room, view.own
    assert room is not None
    return pd.DataFrame(
        [
            {
                "Number": "KV bytes per token, a device",
                "Predicted": _bytes(room.bytes_per_token_predicted),
                "Reported": _bytes(room.bytes_per_token_reported),
                "Seen": None,
                "What it is": _ratio(room),
            },
            {
                "Number": "KV tokens",
                "Predicted": _count(room.kv_tokens_predicted),
                "Reported": _count(room.kv_tokens_reported),
                "Seen": None,
                "What it is": "tokens that the KV cache of one replica holds",
            },
            {
                "Number": "Longest prompt, tokens",
                "Predicted": None,
                "Reported": _count(room.max_model_len),
                "Seen": _count(view.longest_seen),
                "What it is": "reported: with its answer; seen: the longest of which a request ran",
            },
            {
                "Number": f"Requests at once of {view.request_tokens:,} tokens",
                "Predicted": _count(own.predicted if own else None),
                "Reported": None,
                "Seen": _count(own.most if own else None),
                "What it is": f"the workload's size, sharing nothing; predicted by the {own.binds}"
                if own and own.binds
                else "the workload's size, sharing nothing",
            },
        ]
    )


def length_rows(view: MemoryView) -> pd.DataFrame:
    return pd.DataFrame([_length_row(limit) for limit in view.lengths])


def _length_row(limit: LengthLimit) -> dict[str, object]:
    beyond = limit.beyond
    return {
        "Prompt": limit.prompt_tokens,
        "Answer": limit.output_tokens,
        "Predicted": limit.predicted,
        "Binds": limit.binds,
        "Seen": limit.most,
        "Beyond": None if beyond is None else f"{beyond.concurrency:,}: {memory_chart.LABELS[beyond.outcome]}",
        "Why": "as many as were tried" if beyond is None else printable(beyond.reason),
    }


def _ratio(room: Room) -> str:
    if room.bytes_ratio is None:
        return "not comparable: " + ("no prediction" if room.no_prediction else "the engine names no size of its cache")
    return f"reported / predicted {room.bytes_ratio:.3f}"


def _bytes(value: float | None) -> str | None:
    return None if value is None else f"{value:,.0f} B"


def _count(value: int | None) -> str | None:
    return None if value is None else f"{value:,}"
