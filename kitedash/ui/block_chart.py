"""The blocks of each rate side by side: what a rate's P90 rests on. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

from kitedash.domain.results import LevelStatus
from kitedash.services.attainment import LevelAttainment
from kitedash.ui import formats, theme

_FAR = 3.0  # times the slowest block: a target further off would press the blocks together
_DOTS, _LEVEL = "A block's P90", "P90 of all blocks, 95 %"


def drawn(levels: Sequence[LevelAttainment]) -> list[LevelAttainment]:
    """Overloaded rates have no latency, so no blocks to compare."""
    return [level for level in levels if level.status is not LevelStatus.OVERLOADED and _points(level)]


def is_far(levels: Sequence[LevelAttainment], target_ms: float) -> bool:
    """Whether the target is so far off that it is not drawn."""
    return target_ms > _FAR * max(ms for level in drawn(levels) for _, ms, _ in _points(level))


def blocks_chart(levels: Sequence[LevelAttainment], target_ms: float, ink: theme.Ink) -> alt.LayerChart:
    """One row a rate: a dot for each block's own P90, below them the rate's P90 with its interval."""
    shown = drawn(levels)
    rates = [formats.rate(level.rate_per_s) for level in shown]
    y = alt.Y("Rate:N", sort=rates, title="Offered rate", scale=alt.Scale(domain=rates, padding=0.4))
    x = alt.X(
        "ms:Q",
        title="P90 TTFT in ms",
        scale=alt.Scale(zero=False, nice=True),
        axis=alt.Axis(format=",.0f", tickCount=8),
    )
    colour = alt.Color(
        "What:N",
        scale=alt.Scale(domain=[_DOTS, _LEVEL], range=[ink.muted, ink.pass_rate_range[2]]),
        legend=alt.Legend(orient="top", title=None, labelLimit=300, symbolType="circle"),
    )
    dots = alt.Chart(pd.DataFrame([row for level in shown for row in _dot_rows(level)]))
    layers: list[alt.Chart] = [
        dots.mark_point(filled=False, size=70, opacity=0.9, strokeWidth=1.6, yOffset=-9).encode(
            x, y, colour, tooltip=["Rate:N", "Block:Q", "P90:N", "Requests:Q", "Failed:Q"]
        )
    ]
    spans = [row for level in shown for row in _span_rows(level)]
    if spans:
        bare = alt.Chart(pd.DataFrame(spans))
        layers.append(bare.mark_rule(strokeWidth=3, opacity=0.6, yOffset=9).encode(x, y, colour, x2="end:Q"))
    values = [row for level in shown for row in _value_rows(level)]
    if values:
        mark = alt.Chart(pd.DataFrame(values)).mark_point(filled=True, shape="diamond", size=90, opacity=1, yOffset=9)
        layers.append(mark.encode(x, y, colour, tooltip=["Rate:N", "P90:N"]))
    if not is_far(levels, target_ms):
        target = alt.Chart(pd.DataFrame([{"ms": target_ms}])).mark_rule(color=ink.rule, strokeDash=[6, 4])
        layers.append(target.encode(x))
    chart: alt.LayerChart = alt.layer(*layers).properties(height=85 + 52 * len(shown)).configure_view(stroke=None)
    return chart


def describe_blocks(levels: Sequence[LevelAttainment]) -> str:
    """The chart in words, for whoever can't see it."""
    said = []
    for level in drawn(levels):
        blocks = ", ".join(formats.number(ms) for _, ms, _ in _points(level))
        whole = formats.with_interval(level.ttft_p90_ms, formats.ms)
        said.append(f"{formats.rate(level.rate_per_s)}: {blocks} ms; all blocks {whole}")
    return f"P90 TTFT of each block beside that of all blocks of the rate. {'. '.join(said)}."


def _points(level: LevelAttainment) -> list[tuple[int, float, int]]:
    """Number, P90 and requests of the blocks whose P90 is not a failed request."""
    return [(number, point.ttft_p90_ms, point.n) for number, point in level.points if point.ttft_p90_ms is not None]


def _dot_rows(level: LevelAttainment) -> list[dict[str, Any]]:
    failed = {number: point.n_failed for number, point in level.points}
    return [
        {
            "Rate": formats.rate(level.rate_per_s),
            "What": _DOTS,
            "Block": number,
            "ms": ms,
            "P90": formats.ms(ms),
            "Requests": n,
            "Failed": failed[number],
        }
        for number, ms, n in _points(level)
    ]


def _span_rows(level: LevelAttainment) -> list[dict[str, Any]]:
    low, high = level.ttft_p90_ms.low, level.ttft_p90_ms.high
    if low is None or high is None:
        return []
    return [{"Rate": formats.rate(level.rate_per_s), "What": _LEVEL, "ms": low, "end": high}]


def _value_rows(level: LevelAttainment) -> list[dict[str, Any]]:
    if level.ttft_p90_ms.value is None:
        return []
    whole = formats.with_interval(level.ttft_p90_ms, formats.ms)
    rate = formats.rate(level.rate_per_s)
    return [{"Rate": rate, "What": _LEVEL, "ms": level.ttft_p90_ms.value, "P90": whole}]
