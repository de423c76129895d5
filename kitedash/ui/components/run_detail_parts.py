"""Where the time of requests goes: the parts of those around the P90, why they are slow, the parts over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from kitedash.domain.request_parts import PARTS
from kitedash.domain.results import LevelStatus, LevelSummary
from kitedash.services.request_parts import LevelParts, level_parts
from kitedash.services.run_page import RunDetail
from kitedash.ui import address, formats, request_charts, run_charts, theme
from kitedash.ui.definitions import DEFINITIONS
from kitedash.ui.escape import markdown

_Text = st.column_config.TextColumn


def parts(detail: RunDetail) -> None:
    """Where the time of the slower requests goes, rate by rate. Overloaded rates on an axis of their own."""
    known = [level.summary for level in detail.levels if set(PARTS) <= level.summary.parts_ms.keys()]
    known = [summary for summary in known if summary.status is not LevelStatus.INVALID]
    if not known:
        st.caption("No level has the engine's own timings yet, so the parts of its requests are not known.")
        return
    st.markdown(
        "Mean parts of the requests between the P85 and the P95 of TTFT: those around the P90. "
        "Percentiles of the parts would not add up to the percentile of the whole; means over the same requests do."
    )
    steady = [summary for summary in known if summary.status is LevelStatus.OK]
    overloaded = [summary for summary in known if summary.status is not LevelStatus.OK]
    if steady:
        _parts_chart(steady)
    if overloaded:
        st.markdown(
            "**Overloaded**, so no steady state: these waits grow with the length of a block. The axis is its own."
        )
        _parts_chart(overloaded)
    with st.expander("The same as a table", icon=":material/table:"):
        st.dataframe(
            part_rows(known),
            hide_index=True,
            alt="Mean parts of the requests around the P90 in ms, by rate",
            column_config={f"{name} (ms)": _Text(help=DEFINITIONS[name]) for name in run_charts.PART_NAMES.values()},
        )
    _explained(detail)


def part_rows(levels: Sequence[LevelSummary]) -> pd.DataFrame:
    rows = []
    for level in levels:
        cells = {f"{name} (ms)": formats.number(level.parts_ms[part]) for part, name in run_charts.PART_NAMES.items()}
        ttft = sum(level.parts_ms[part] for part in PARTS if part != "decode")
        rows.append(
            {"Rate": formats.rate(level.rate_per_s), "Status": theme.sign(theme.LEVEL_SIGN, level.status)}
            | cells
            | {"Their mean TTFT (ms)": formats.number(ttft)}
        )
    return pd.DataFrame(rows)


def _parts_chart(levels: Sequence[LevelSummary]) -> None:
    chart = run_charts.parts_chart(levels, theme.ink())
    st.vega_lite_chart(chart.to_dict(), alt=run_charts.describe_parts(levels))


def _explained(detail: RunDetail) -> None:
    """Why the requests around the P90 took so long, rate by rate, and the parts over the time of a block."""
    found = {level.rate_per_s: level for level in _levels(detail.run.id, detail.blocks_version)}
    if not found:
        return
    st.markdown("**Why they took so long**", help=DEFINITIONS["Cause of a slow request"])
    lines = [f"- **{formats.rate(rate)}** (n = {level.n:,}) {markdown(level.said)}" for rate, level in found.items()]
    st.markdown("\n".join(lines))
    for advice in dict.fromkeys(level.advice for level in found.values() if level.advice):
        of = [formats.rate(rate) for rate, level in found.items() if level.advice == advice]
        st.caption(f"To do, at {', '.join(of)}: {markdown(advice)}")
    st.markdown("**Over the time of a block**, all blocks of a rate together, by when a request was due")
    rate = rate_picker([*found], help_text="The rate whose requests are drawn.")
    spec, alt, caption = _over_time(detail.run.id, detail.blocks_version, rate, theme.ink())
    if spec is None:
        st.caption("No request of this rate has all its parts.")
        return
    st.vega_lite_chart(spec, alt=alt)
    st.caption(caption)


def rate_picker(rates: Sequence[float], *, help_text: str) -> float:
    """The rate in the address, else the highest: that is where the waits are."""
    box = address.box(address.RATE)
    by_text = {f"{rate:g}": rate for rate in rates}
    default = f"{rates[-1]:g}"
    asked = address.value(address.RATE)
    st.session_state[box] = asked if asked in by_text else default
    chosen = st.segmented_control(
        "Rate",
        [*by_text],
        format_func=lambda text: formats.rate(by_text[text]),
        required=True,
        key=box,
        on_change=_write,
        args=(address.RATE, default),
        help=help_text,
    )
    return by_text[chosen or default]


@st.cache_data(ttl=3_600, max_entries=20, show_spinner=False)
def _levels(run_id: str, version: str) -> tuple[LevelParts, ...]:
    """`version` changes with what is stored."""
    return level_parts(run_id)


@st.cache_data(ttl=3_600, max_entries=60, show_spinner=False)
def _over_time(run_id: str, version: str, rate: float, ink: theme.Ink) -> tuple[dict[str, Any] | None, str, str]:
    (level,) = (one for one in _levels(run_id, version) if one.rate_per_s == rate)
    if not any(one.parts_ms for one in level.over_time):
        return None, "", ""
    width = level.over_time[0].end_s - level.over_time[0].start_s
    failed = sum(one.n_failed for one in level.over_time)
    known = sum(one.n for one in level.over_time)
    said = f"Means over the {known:,} requests with all their parts, after the warm-up, in spans of {width:.3g} s."
    if failed:
        said += f" ✗ counts the {failed:,} failed ones, which are in no mean."
    chart = request_charts.over_time_chart(level.over_time, ink)
    return chart.to_dict(), request_charts.describe_over_time(level.over_time), said


def _write(key: str, default: str) -> None:
    address.put(key, st.session_state[address.box(key)] or default, default)
