"""How many requests were as fast as asked, and what the blocks of a rate differ by, drawn once for what is stored."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from kitedash.domain.results import Estimate, LevelStatus
from kitedash.services.attainment import LevelAttainment, attainments
from kitedash.services.run_page import RunDetail
from kitedash.ui import block_chart, formats, theme
from kitedash.ui.definitions import DEFINITIONS

_Text = st.column_config.TextColumn
_E2E = {"P50 E2E (ms)": "e2e_p50_ms", "P99 E2E (ms)": "e2e_p99_ms"}


def attained(detail: RunDetail) -> None:
    """Attainment, goodput and end-to-end times of every rate; each block's own P90 beside the rate's."""
    if not any(block.status is not LevelStatus.INVALID for block in detail.blocks):
        st.caption("The requests of no valid block are stored, so there is nothing to count.")
        return
    ttft_ms, tpot_ms = detail.view.targets.ttft_p90_ms, detail.view.guardrails.tpot_p90_ms
    levels = _levels(detail.run.id, _version(detail), ttft_ms, tpot_ms)
    if not levels:
        st.caption("No request of a valid block was due after the warm-up.")
        return
    st.markdown(
        f"**Against the TTFT target of {formats.ms(ttft_ms)} and the TPOT guardrail of {formats.ms(tpot_ms)}**, "
        "with the 95 % interval. Failed requests count as late."
    )
    st.dataframe(
        attainment_rows(levels),
        hide_index=True,
        placeholder=formats.MISSING,
        alt="Load levels with attainment, goodput and end-to-end latency",
        column_config={
            "Rate": _Text(width=56, pinned=True),
            "Status": _Text(width=105, pinned=True, help=DEFINITIONS["Load level"]),
            "In time": _Text(help=DEFINITIONS["Attainment"]),
            "Requests": _Text(width=80, help="After the warm-up, over the valid blocks."),
            "Goodput (/s)": _Text(help=DEFINITIONS["Goodput"]),
            **{name: _Text(help=DEFINITIONS["End-to-end latency"]) for name in _E2E},
        },
    )
    if said := too_few(levels):
        st.caption(said)
    _blocks(levels, ttft_ms, sum(block.status is LevelStatus.INVALID for block in detail.blocks))


def attainment_rows(levels: Sequence[LevelAttainment]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "Rate": formats.rate(level.rate_per_s),
            "Status": _status(level),
            "In time": _cell(level.attainment, formats.share),
            "Requests": f"{level.attainment.n:,}",
            "Goodput (/s)": _cell(level.goodput_per_s, formats.number),
            **{name: _cell(getattr(level, field), formats.number) for name, field in _E2E.items()},
        }
        for level in levels
    )


def block_rows(levels: Sequence[LevelAttainment]) -> pd.DataFrame:
    """What the blocks of a rate differ by, in numbers."""
    return pd.DataFrame(
        {
            "Rate": formats.rate(level.rate_per_s),
            "Valid blocks": f"{len(level.points)} of {len(level.points) + level.invalid_blocks}",
            "P50 TTFT (ms)": _spread([point.ttft_p50_ms for _, point in level.points], formats.number),
            "P90 TTFT (ms)": _spread([point.ttft_p90_ms for _, point in level.points], formats.number),
            "In time": _spread([point.attainment for _, point in level.points], formats.share),
            "Variance between blocks": formats.share(level.between_share),
        }
        for level in levels
    )


def too_few(levels: Sequence[LevelAttainment]) -> str:
    """What can't be said yet, with about how many more requests would do."""
    names = {"In time": "attainment", **_E2E}
    lacking = [
        f"{formats.rate(level.rate_per_s)} {name.removesuffix(' (ms)')}, about {estimate.more:,}"
        for level in levels
        for name, field in names.items()
        if level.status is not LevelStatus.OVERLOADED and (estimate := getattr(level, field)).more
    ]
    return f"Too few; so many more requests would do: {'; '.join(lacking)}." if lacking else ""


def _blocks(levels: Sequence[LevelAttainment], target_ms: float, invalid: int) -> None:
    st.markdown("**What the blocks of a rate differ by**", help=DEFINITIONS["Variance between blocks"])
    if block_chart.drawn(levels):
        chart = block_chart.blocks_chart(levels, target_ms, theme.ink())
        st.vega_lite_chart(chart.to_dict(), alt=block_chart.describe_blocks(levels))
        st.caption(_caption(levels, target_ms, invalid))
    st.dataframe(
        block_rows(levels),
        hide_index=True,
        placeholder=formats.MISSING,
        alt="Smallest and largest P50, P90 and attainment of a rate's blocks, and the variance between them",
        column_config={
            "P50 TTFT (ms)": _Text(help="Of each block by itself: the smallest to the largest."),
            "P90 TTFT (ms)": _Text(help="Of each block by itself: the smallest to the largest."),
            "In time": _Text(help="Of each block by itself: the smallest to the largest."),
            "Variance between blocks": _Text(help=DEFINITIONS["Variance between blocks"]),
        },
    )


def _caption(levels: Sequence[LevelAttainment], target_ms: float, invalid: int) -> str:
    target = f"TTFT target of {formats.ms(target_ms)}"
    far = block_chart.is_far(levels, target_ms)
    said = [f"The {target} is too far to be drawn." if far else f"Dashed: the {target}."]
    if overloaded := [formats.rate(level.rate_per_s) for level in levels if level.status is LevelStatus.OVERLOADED]:
        said.append(f"Overloaded, so without a steady P90: {', '.join(overloaded)}.")
    whole = [(formats.rate(level.rate_per_s), level.ttft_p90_ms) for level in block_chart.drawn(levels)]
    if bare := [rate for rate, p90 in whole if p90.low is None or p90.high is None]:
        said.append(f"Without an interval of its P90: {', '.join(bare)}.")
    if invalid:
        said.append(f"Not drawn: {invalid} invalid block{'s' if invalid > 1 else ''}.")
    if lost := sum(point.ttft_p90_ms is None for level in levels for _, point in level.points):
        said.append(f"In {lost} block{'s' if lost > 1 else ''} the P90 is a failed request.")
    return " ".join(said)


def _spread(values: Sequence[float | None], write: formats.Writer) -> str:
    if any(value is None for value in values):
        known = [value for value in values if value is not None]
        return f"{write(min(known))} to failed" if known else "failed"
    known = [value for value in values if value is not None]
    return f"{write(min(known))} to {write(max(known))}"


def _cell(estimate: Estimate, write: formats.Writer) -> str:
    """`93.1 % [90.2 % to 95.3 %]`."""
    if estimate.value is None:
        return estimate.note or formats.MISSING
    short = "too few" if estimate.low is None and estimate.high is None else ""
    return f"{write(estimate.value)} [{short or formats.interval(estimate, write)}]"


def _status(level: LevelAttainment) -> str:
    return "… measuring" if level.status is None else theme.sign(theme.LEVEL_SIGN, level.status)


def _version(detail: RunDetail) -> str:
    """A level's status is stored after its last block."""
    return f"{detail.blocks_version}.{len(detail.levels)}"


@st.cache_data(ttl=3_600, max_entries=60, show_spinner=False)
def _levels(run_id: str, version: str, ttft_ms: float, tpot_ms: float) -> tuple[LevelAttainment, ...]:
    """`version` changes with what is stored."""
    return attainments(run_id, ttft_ms, tpot_ms)
