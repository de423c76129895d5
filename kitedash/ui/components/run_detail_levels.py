"""The load of a run: its levels, and why any is not a result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from kitedash.domain.results import BlockResult, Check, Estimate, LevelStatus
from kitedash.domain.run_plan import LOAD
from kitedash.services.run_page import RunDetail
from kitedash.ui import address, formats, theme
from kitedash.ui.definitions import DEFINITIONS
from kitedash.ui.escape import markdown, printable

_Number = st.column_config.NumberColumn
_Text = st.column_config.TextColumn
_LATENCIES = {
    "P50 TTFT": "ttft_p50_ms",
    "P90 TTFT": "ttft_p90_ms",
    "P99 TTFT": "ttft_p99_ms",
    "P50 TPOT": "tpot_p50_ms",
    "P90 TPOT": "tpot_p90_ms",
    "P99 TPOT": "tpot_p99_ms",
    "P90 E2E": "e2e_p90_ms",
}


def level_tables(detail: RunDetail) -> None:
    """Latencies of every rate with their intervals; what was offered, answered and cached; what failed a check."""
    if not detail.levels:
        _no_levels(detail)
        return
    _searched(detail)
    st.markdown("**Latency in ms, with the 95 % interval**")
    st.dataframe(
        latency_rows(detail),
        hide_index=True,
        placeholder=formats.MISSING,
        alt="Load levels with percentiles of TTFT, TPOT and end-to-end latency",
        column_config={
            "Rate": _Text(width=56, pinned=True, help="Offered rate, requests per second."),
            "Status": _Text(width=105, pinned=True, help=DEFINITIONS["Load level"]),
            **{name: _Text(help=DEFINITIONS[_term(name)]) for name in _LATENCIES},
        },
    )
    st.markdown("**Load**")
    st.dataframe(
        load_rows(detail),
        hide_index=True,
        placeholder=formats.MISSING,
        alt="Load levels with requests, failures, delivered rate and cache hits",
        column_config={
            "Rate": _Text(width=56, pinned=True),
            "Chosen": _Text("Chosen by", width=85, help=DEFINITIONS["Rate search"]),
            "Held": _Text(width=95, help=DEFINITIONS["Highest rate held"]),
            "Requests": _Number(format="%,d", width=80, help="After the warm-up, over the valid blocks."),
            "Failed": _Number(format="%,d", width=62, help=DEFINITIONS["Error rate"]),
            "Blocks": _Text(width=70, help="Valid blocks, of all that were measured."),
            "Delivered": _Number("Delivered (/s)", format="%.2f", width=105, help=DEFINITIONS["Delivered rate"]),
            "Tokens": _Number("Output tokens/s", format="%,.0f", width=115, help=DEFINITIONS["Output tokens/s"]),
            "Hits": _Number("Prefix hits (%)", format="%.1f", width=105, help=DEFINITIONS["Prefix hits"]),
            "Running": _Number("Most running", format="%,.0f", width=105, help=DEFINITIONS["Most running"]),
        },
    )
    _reasons(detail)
    _checks(detail.blocks)


def _searched(detail: RunDetail) -> None:
    """What the search for the highest rate held has found so far, under the targets that the page shows."""
    found = detail.search
    if found is None:
        return
    goes_on = detail.run.status == "running" and any(
        stage.name == LOAD and stage.finished_at is None for stage in detail.run.stages
    )
    status = "goes on" if goes_on else found.status.value
    further = "1 further rate" if found.rates == 1 else f"{found.rates} further rates"
    st.markdown(
        f"**Rate search: {status}.** {markdown(found.sentence)} :gray[{further}, {found.requests:,} requests in all.]",
        help=DEFINITIONS["Rate search"],
    )


def _chosen_by(detail: RunDetail, rate_per_s: float) -> str:
    return "the plan" if rate_per_s in detail.spec.load.rates_per_s else "the search"


def latency_rows(detail: RunDetail) -> pd.DataFrame:
    rows = []
    for level in detail.levels:
        s = level.summary
        row = {"Rate": formats.rate(s.rate_per_s), "Status": theme.sign(theme.LEVEL_SIGN, s.status)}
        rows.append(row | {name: _cell(getattr(s, field)) for name, field in _LATENCIES.items()})
    return pd.DataFrame(rows)


def load_rows(detail: RunDetail) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for level in detail.levels:
        s = level.summary
        measured = sum(block.rate_per_s == s.rate_per_s for block in detail.blocks) or s.blocks
        rows.append(
            {
                "Rate": formats.rate(s.rate_per_s),
                **({} if detail.search is None else {"Chosen": _chosen_by(detail, s.rate_per_s)}),
                "Held": "✓ held" if level.held else "✗ not held",
                "Requests": s.n_requests,
                "Failed": s.n_failed,
                "Blocks": f"{s.blocks} of {measured}",
                "Delivered": s.delivered_rate_per_s,
                "Tokens": s.output_tokens_per_s,
                "Hits": None if s.prefix_hit_rate is None else 100 * s.prefix_hit_rate,
                "Running": s.running_max,
            }
        )
    return pd.DataFrame(rows)


def check_rows(blocks: Sequence[BlockResult], *, only_failed: bool) -> pd.DataFrame:
    """One row a check of a block, with how far from its bounds it was."""
    rows = [
        {
            "Rate": formats.rate(block.rate_per_s),
            "Block": block.block,
            "Status": theme.sign(theme.LEVEL_SIGN, block.status),
            "Check": printable(check.name),
            "": "✓ passed" if check.passed else "✗ failed",
            "Value": formats.number(check.value),
            "Allowed": _allowed(check),
            "In words": printable(check.sentence),
        }
        for block in blocks
        for check in block.checks
        if not (only_failed and check.passed)
    ]
    return pd.DataFrame(rows)


def _no_levels(detail: RunDetail) -> None:
    waiting = detail.run.status in ("queued", "running")
    st.caption(
        "No load level is stored yet: each appears when its last block has been measured."
        if waiting
        else "No load level was measured."
    )


def _reasons(detail: RunDetail) -> None:
    """Why a rate is not held, and which blocks were left out: in full, which no cell of a table has room for."""
    lines: list[str] = []
    for level in detail.levels:
        held, other = level.held_reason, level.summary.reason
        for said, reason in ((" not held", held), ("", "" if held.endswith(other) else other)):
            if reason:
                lines.append(f"- **{formats.rate(level.summary.rate_per_s)}**{said}: {markdown(reason)}")
    if lines:
        st.markdown("\n".join(lines))


def _checks(blocks: Sequence[BlockResult]) -> None:
    """Failed checks stand open: they are why a block is no result."""
    if not blocks:
        return
    total = sum(len(block.checks) for block in blocks)
    failed = sum(not check.passed for block in blocks for check in block.checks)
    invalid = any(block.status is LevelStatus.INVALID for block in blocks)
    title = f"Checks of the blocks ({failed} of {total:,} failed)"
    with st.expander(title, icon=":material/rule:", expanded=invalid):
        box = address.box(address.ALL_CHECKS)
        st.session_state[box] = address.value(address.ALL_CHECKS) == "all"
        every = st.toggle("Show the passed ones too", key=box, on_change=_write_checks)
        if failed and not invalid:
            st.caption("An overloaded block may fail a check that overload itself explains; the block still counts.")
        if every or failed:
            st.dataframe(
                check_rows(blocks, only_failed=not every),
                hide_index=True,
                alt="Checks of the blocks with their values and bounds",
                column_config={"Check": _Text(width=260), "In words": _Text(width=360)},
            )
        else:
            st.caption("None failed.")


def _write_checks() -> None:
    address.put(address.ALL_CHECKS, "all" if st.session_state[address.box(address.ALL_CHECKS)] else "")


def _allowed(check: Check) -> str:
    if check.low is not None and check.high is not None:
        if check.low == check.high:
            return formats.number(check.low)
        return f"{formats.number(check.low)} to {formats.number(check.high)}"
    if check.low is not None:
        return f"≥ {formats.number(check.low)}"
    return formats.MISSING if check.high is None else f"≤ {formats.number(check.high)}"


def _term(column: str) -> str:
    return "P90 TTFT" if "TTFT" in column else "P90 TPOT" if "TPOT" in column else "End-to-end latency"


def _cell(estimate: Estimate) -> str:
    """`312 [290 to 340]`, in ms."""
    if estimate.value is None:
        return estimate.note or formats.MISSING
    short = "too few" if "too few" in estimate.note and estimate.low is None and estimate.high is None else ""
    return f"{formats.number(estimate.value)} [{short or formats.interval(estimate, formats.number)}]"
