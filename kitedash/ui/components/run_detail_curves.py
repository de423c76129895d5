"""The distributions of a run's latencies, one at a time, drawn once for what is stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from kitedash.domain.quantile_curve import MOST_POINTS
from kitedash.domain.results import LevelStatus
from kitedash.services.distributions import LevelCurves, distributions
from kitedash.services.run_page import RunDetail
from kitedash.ui import address, formats, run_charts, theme


def curves(detail: RunDetail) -> None:
    """The distribution of one latency at a time; all three would crowd the page."""
    if not any(block.status is not LevelStatus.INVALID for block in detail.blocks):
        st.caption("The requests of no valid block are stored, so there is no distribution to draw.")
        return
    box = address.box(address.LATENCY)
    names = [*run_charts.METRICS]
    asked = address.value(address.LATENCY)
    st.session_state[box] = asked if asked in names else names[0]
    chosen = st.segmented_control(
        "Latency",
        names,
        format_func=lambda name: f"{name}: {run_charts.METRIC_NAMES[name].lower()}",
        required=True,
        key=box,
        on_change=_write,
        args=(address.LATENCY, names[0]),
        label_visibility="collapsed",
    )
    view, metric = detail.view, chosen or names[0]
    limits = {
        "TTFT": (view.targets.ttft_p90_ms, f"P90 target {formats.ms(view.targets.ttft_p90_ms)}"),
        "TPOT": (view.guardrails.tpot_p90_ms, f"P90 guardrail {formats.ms(view.guardrails.tpot_p90_ms)}"),
    }
    limit_ms, text = limits.get(metric, (None, ""))
    spec, alt, caption = _built(detail.run.id, _version(detail), metric, limit_ms, text, theme.ink())
    if spec is None:
        st.caption("No request in the valid blocks has this latency.")
        return
    st.vega_lite_chart(spec, alt=alt)
    st.caption(caption)


@st.cache_data(ttl=3_600, max_entries=60, show_spinner=False)
def _built(
    run_id: str, version: str, metric: str, limit_ms: float | None, limit_text: str, ink: theme.Ink
) -> tuple[dict[str, Any] | None, str, str]:
    """The Vega-Lite specification, its alternative text and the caption. `version` changes with what is stored."""
    found = _curves(run_id, version)
    if not any(run_charts.curve_of(level, metric).values for level in found):
        return None, "", ""
    chart = run_charts.curves_chart(found, metric, limit_ms, limit_text, ink)
    far = run_charts.is_far(found, metric, limit_ms)
    words = run_charts.describe_curves(found, metric, "" if far else limit_text)
    caption = _caption(found, metric)
    return (
        chart.to_dict(),
        words,
        f"The {limit_text} is too far from the curves to be drawn. {caption}" if far else caption,
    )


@st.cache_data(ttl=3_600, max_entries=20, show_spinner=False)
def _curves(run_id: str, version: str) -> tuple[LevelCurves, ...]:
    return distributions(run_id)


def _version(detail: RunDetail) -> str:
    """A level's status, which dashes its curve, is stored after its last block."""
    return f"{detail.blocks_version}.{len(detail.levels)}"


def _caption(found: Sequence[LevelCurves], metric: str) -> str:
    said = [
        "Every request of the valid blocks counts, after the warm-up; marked is the P90. "
        f"At most {MOST_POINTS} points a curve are drawn."
    ]
    if any(level.status is LevelStatus.OVERLOADED for level in found):
        said.append("A dashed curve is of an overloaded rate.")
    if metric == "TPOT":
        said.append("Failed requests have no TPOT and are left out here.")
    for level in found:
        curve = run_charts.curve_of(level, metric)
        if curve.n_failed:
            rate, n = formats.rate(level.rate_per_s), curve.n
            end = formats.share((n - curve.n_failed) / n)
            said.append(f"The curve of {rate} ends at {end}: {curve.n_failed:,} of {n:,} requests failed.")
    waiting = [formats.rate(level.rate_per_s) for level in found if level.status is None]
    if waiting:
        said.append(f"Still being measured: {', '.join(waiting)}.")
    return " ".join(said)


def _write(key: str, default: str) -> None:
    address.put(key, st.session_state[address.box(key)] or default, default)
