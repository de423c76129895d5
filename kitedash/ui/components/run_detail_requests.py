"""Single requests of a run: the slowest of a rate or a block, and one of them in full with the server meanwhile."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from kitedash.domain.errors import NotFound
from kitedash.domain.results import BlockResult, LevelStatus
from kitedash.services.request_parts import (
    BYS,
    By,
    RequestDetail,
    RequestRow,
    SlowRequests,
    request_detail,
    slow_requests,
)
from kitedash.services.run_page import RunDetail
from kitedash.ui import address, formats, request_charts, theme
from kitedash.ui.components.run_detail_parts import rate_picker
from kitedash.ui.definitions import DEFINITIONS
from kitedash.ui.escape import markdown, printable

_Text = st.column_config.TextColumn
_BY: dict[str, By] = {by.replace(" ", "-"): by for by in BYS}
_BY_NAMES: dict[By, str] = {
    "first token": "until the first token",
    "last token": "until the last token",
    "stalls": "stalls",
}
_EVERY = ""


def requests(detail: RunDetail) -> None:
    """Pickers, the list, and the request that is picked."""
    if not detail.blocks:
        st.caption("No block is stored yet, so there is no request to look at.")
        return
    left, middle, right = st.columns([2, 1.5, 1.8])
    with left:
        rates = sorted({block.rate_per_s for block in detail.blocks})
        rate = rate_picker(rates, help_text="The rate whose requests are listed.")
    with middle:
        block = _block_picker([block for block in detail.blocks if block.rate_per_s == rate])
    with right:
        by = _by_picker()
    for one in detail.blocks:
        if (one.rate_per_s, one.block) == (rate, block) and one.status is LevelStatus.INVALID:
            st.caption(f"This block is invalid and counts nowhere: {markdown(one.reason)}")
    try:
        found = _slow(detail.run.id, detail.blocks_version, rate, block, by)
    except NotFound:
        st.caption("No block of this rate counts. Pick an invalid one to see its requests all the same.")
        return
    if not found.rows:
        none = "No request stalled." if by == "stalls" and found.n else "No request was due after the warm-up."
        st.caption(none)
        return
    st.dataframe(
        request_rows(found),
        hide_index=True,
        placeholder=formats.MISSING,
        alt="The slowest requests with their times, tokens and main cause",
        column_config={
            "TTFT (ms)": _Text(help=DEFINITIONS["P90 TTFT"]),
            "E2E (ms)": _Text(help=DEFINITIONS["End-to-end latency"]),
            "Stalls (ms)": _Text(help=DEFINITIONS["Stall"]),
            "Main cause": _Text(width=130, help=DEFINITIONS["Cause of a slow request"]),
        },
    )
    st.caption(
        f"The slowest {len(found.rows)} of {found.n:,} requests after the warm-up; failed ones are slowest of all."
    )
    row = _request_picker(found)
    _one(detail, rate, row, by)


def request_rows(found: SlowRequests) -> pd.DataFrame:
    rows = [
        {
            "Block": row.block,
            "Request": row.index,
            "Kind": printable(row.kind),
            "Due (s)": f"{row.due_s:.1f}",
            "TTFT (ms)": _time(row, row.ttft_ms),
            "E2E (ms)": _time(row, row.e2e_ms),
            "Stalls (ms)": formats.number(row.stalled_ms),
            "Prompt": _count(row.tokens_in),
            "Cached": _count(row.tokens_cached),
            "Output": _count(row.tokens_out),
            "Main cause": row.cause or "none stands out",
        }
        for row in found.rows
    ]
    table = pd.DataFrame(rows)
    return table.drop(columns="Kind") if len({row.kind for row in found.rows}) < 2 else table


def _block_picker(blocks: Sequence[BlockResult]) -> int | None:
    by_text = {str(block.block): block for block in blocks}
    box = address.box(address.BLOCK)
    asked = address.value(address.BLOCK)
    st.session_state[box] = asked if asked in by_text else _EVERY

    def title(text: str) -> str:
        if text == _EVERY:
            return "all valid blocks"
        status = by_text[text].status
        return f"block {text}" + ("" if status is LevelStatus.OK else f" · {theme.sign(theme.LEVEL_SIGN, status)}")

    chosen = st.selectbox(
        "Block", [_EVERY, *by_text], format_func=title, key=box, on_change=_write, args=(address.BLOCK, _EVERY)
    )
    return None if chosen == _EVERY else int(chosen)


def _by_picker() -> By:
    box, names = address.box(address.SLOWEST), [*_BY]
    asked = address.value(address.SLOWEST)
    st.session_state[box] = asked if asked in names else names[0]
    chosen = st.selectbox(
        "Slowest by",
        names,
        format_func=lambda name: _BY_NAMES[_BY[name]],
        key=box,
        on_change=_write,
        args=(address.SLOWEST, names[0]),
    )
    return _BY[chosen]


def _request_picker(found: SlowRequests) -> RequestRow:
    """The request in the address where it is in the list, else the slowest."""
    by_text = {f"{row.block}.{row.index}": row for row in found.rows}
    asked = address.value(address.REQUEST)
    default = next(iter(by_text))
    st.session_state[address.REQUEST_BOX] = asked if asked in by_text else default
    chosen = st.selectbox(
        "Request in full",
        [*by_text],
        format_func=lambda text: _title(by_text[text]),
        key=address.REQUEST_BOX,
        on_change=_write_request,
        args=(default,),
    )
    return by_text[chosen]


def _title(row: RequestRow) -> str:
    times = "failed" if row.error else f"TTFT {formats.ms(row.ttft_ms)}, E2E {formats.ms(row.e2e_ms)}"
    return f"block {row.block}, request {row.index}: {times}, {row.cause or 'nothing stands out'}"


def _one(detail: RunDetail, rate: float, row: RequestRow, by: By) -> None:
    shown = _request(detail.run.id, detail.blocks_version, rate, row.block, row.index, by, theme.ink())
    st.markdown(f"**Why it took so long:** {markdown(shown.said)}")
    st.vega_lite_chart(shown.waterfall, alt=shown.waterfall_alt)
    st.caption(shown.caption)
    st.markdown(f"**The server during block {row.block}**")
    if not shown.server:
        st.caption(shown.server_caption)
        return
    for spec, alt in shown.server:
        st.vega_lite_chart(spec, alt=alt)
    st.caption(shown.server_caption)


@dataclass(frozen=True)
class _Shown:
    """What is drawn of one request: specifications of charts, each with its description, and sentences."""

    said: str
    waterfall: dict[str, Any]
    waterfall_alt: str
    caption: str
    server: tuple[tuple[dict[str, Any], str], ...]
    server_caption: str


@st.cache_data(ttl=3_600, max_entries=40, show_spinner=False)
def _request(run_id: str, version: str, rate: float, block: int, index: int, by: By, ink: theme.Ink) -> _Shown:
    """`version` changes with what is stored."""
    detail = request_detail(run_id, rate, block, index, by)
    charts = [] if detail.server is None or detail.server.empty else request_charts.server_charts(detail, ink)
    return _Shown(
        said=detail.said,
        waterfall=request_charts.waterfall_chart(detail, ink).to_dict(),
        waterfall_alt=request_charts.describe_waterfall(detail),
        caption=_caption(detail),
        server=tuple((chart.to_dict(), words) for chart, words in charts),
        server_caption=_server_caption(detail),
    )


@st.cache_data(ttl=3_600, max_entries=60, show_spinner=False)
def _slow(run_id: str, version: str, rate: float, block: int | None, by: By) -> SlowRequests:
    return slow_requests(run_id, rate, block, by)


def _caption(detail: RequestDetail) -> str:
    row = detail.row
    said = [
        f"Due {row.due_s:.2f} s after the start of block {row.block}. Prompt {_count(row.tokens_in)} tokens, "
        f"{_count(row.tokens_cached)} of them cached; output {_count(row.tokens_out)}.",
        "The front end is what is left of the TTFT: part of it may come after the prefill.",
    ]
    if detail.chunk_ms:
        said.append("Each tick on the decode is a chunk of the answer; a red stretch is a stall.")
    elif not row.error:
        said.append("The moments of its single tokens are not stored.")
    return " ".join(said)


def _server_caption(detail: RequestDetail) -> str:
    if detail.server is None or detail.server.empty:
        return "No timeline is stored with this block: it was measured by an earlier version."
    server = detail.server
    said = ["Read once a second, on the clock of the requests; prefix hits and preemptions since the second before."]
    cores, rss = server["engine_cpu_cores"].mean(), server["engine_rss_gib"].max()
    if math.isfinite(cores):
        said.append(f"The engine's processes used {cores:.2f} cores (mean) and {rss:.2f} GiB at most.")
    for name, unit, what in (("gpu_power_w", "W", "GPU power, mean"), ("gpu_memory_gib", "GiB", "GPU memory, mean")):
        values = [value for row in server[name] if row is not None for value in row if value == value]
        if values:
            said.append(f"{what}: {formats.number(sum(values) / len(values))} {unit} each.")
    return " ".join(said)


def _time(row: RequestRow, ms: float) -> str:
    return "failed" if row.error else formats.number(ms)


def _count(value: float) -> str:
    return f"{value:,.0f}" if math.isfinite(value) else formats.MISSING


def _write(key: str, default: str) -> None:
    address.put(key, st.session_state[address.box(key)] or default, default)


def _write_request(default: str) -> None:
    address.put(address.REQUEST, st.session_state[address.REQUEST_BOX], default)
