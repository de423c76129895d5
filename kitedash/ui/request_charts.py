"""Charts of single requests: the parts over time, one request on one axis, and the server meanwhile. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from kitedash.domain.request_parts import PARTS, TimeBin
from kitedash.services.request_parts import RequestDetail
from kitedash.ui import formats, theme
from kitedash.ui.run_charts import PART_NAMES, part_colours

_LEFT = 96  # px of every timeline's axis, so that their seconds stand under each other
_MOST_TICKS = 1_200  # output chunks that are drawn: more have less than a pixel each
_ROOM = 0.72  # of the axis: behind it a label stands before its bar
_FAILED = "No answer"
_DECODE = PART_NAMES["decode"].partition(" (")[0]


def over_time_chart(bins: Sequence[TimeBin], ink: theme.Ink) -> alt.LayerChart:
    """Mean parts up to the first token, stacked, by when the requests were due; failed requests marked above."""
    names = [PART_NAMES[part] for part in PARTS if part != "decode"]
    rows = [row for one in bins for row in _stacked(one)]
    x = alt.X("start:Q", title="s from the start of a block", scale=_seconds(bins[0].start_s, bins[-1].end_s))
    bars = (
        alt.Chart(pd.DataFrame(rows))
        .mark_rect(stroke=ink.background, strokeWidth=0.5)
        .encode(
            x,
            alt.Y("low:Q", title="Mean TTFT in ms", axis=alt.Axis(format=",.0f", tickCount=5)),
            x2="end:Q",
            y2="high:Q",
            color=alt.Color(
                "Part:N",
                sort=names,
                scale=alt.Scale(domain=names, range=list(part_colours(ink)[: len(names)])),
                legend=alt.Legend(orient="top", title=None, columns=len(names), symbolType="square", labelLimit=240),
            ),
            tooltip=["Due:N", "Part:N", "Time:N", "Lost in stalls:N", "Requests:Q"],
        )
    )
    layers: list[alt.Chart] = [bars]
    failed = [
        {"at": (one.start_s + one.end_s) / 2, "Failed": f"✗ {one.n_failed}", "Due": f"{one.start_s:.1f} s"}
        for one in bins
        if one.n_failed
    ]
    if failed:
        marks = alt.Chart(pd.DataFrame(failed)).mark_text(color=ink.rule, fontSize=11, fontWeight="bold")
        layers.append(marks.encode(alt.X("at:Q"), y=alt.value(8), text="Failed:N"))
    chart: alt.LayerChart = alt.layer(*layers).properties(height=240).configure_view(stroke=None)
    return chart


def _stacked(one: TimeBin) -> list[dict[str, Any]]:
    rows, low = [], 0.0
    for part, ms in one.parts_ms.items():
        if part != "decode":
            high = low + max(0.0, ms)  # the residual may be a hair below zero
            rows.append(
                {
                    "start": one.start_s,
                    "end": one.end_s,
                    "low": low,
                    "high": high,
                    "Part": PART_NAMES[part],
                    "Time": formats.ms(ms),
                    "Requests": one.n,
                    "Lost in stalls": formats.ms(one.stall_ms),
                    "Due": f"{one.start_s:.1f} to {one.end_s:.1f} s",
                }
            )
            low = high
    return rows


def describe_over_time(bins: Sequence[TimeBin]) -> str:
    said = [
        f"{one.start_s:.3g} to {one.end_s:.3g} s: "
        + (", ".join(f"{PART_NAMES[part]} {formats.ms(ms)}" for part, ms in one.parts_ms.items()) or "none known")
        + (f", {one.n_failed} failed" if one.n_failed else "")
        for one in bins
    ]
    return f"Mean parts of the requests by when they were due. {'; '.join(said)}."


def waterfall_chart(detail: RequestDetail, ink: theme.Ink) -> alt.LayerChart:
    """One request from when it was due: a bar a part, its output chunks as ticks, its stalls marked."""
    bars = waterfall_rows(detail)
    names = [row["Part"] for row in bars]
    end = max([row["end"] for row in bars] or [1.0]) or 1.0
    colours = dict(zip(map(_short, PARTS), part_colours(ink), strict=True)) | {_FAILED: ink.rule}
    x = alt.X(
        "start:Q",
        title="ms from when the request was due",
        scale=alt.Scale(domain=[0, end * 1.02], nice=False),
        axis=alt.Axis(format=",.0f", tickCount=8),
    )
    y = alt.Y("Part:N", sort=names, title=None, scale=alt.Scale(domain=names, paddingInner=0.35, paddingOuter=0.2))
    data = pd.DataFrame(bars, columns=["Part", "start", "end", "Label", "Time"])
    colour = alt.Color("Part:N", scale=alt.Scale(domain=names, range=[colours[name] for name in names]), legend=None)
    layers: list[alt.Chart] = [
        alt.Chart(data).mark_bar().encode(x, y, colour, x2="end:Q", tooltip=["Part:N", "Time:N"])
    ]
    layers += _stalls(detail, x, y, ink)
    layers += _ticks(detail, x, y, ink)
    for right in (True, False):
        some = data[(data["end"] <= _ROOM * end) == right]
        if len(some):
            bare = alt.Chart(some)
            text = (
                bare.mark_text(align="left", dx=6, color=ink.text, fontSize=12)
                if right
                else bare.mark_text(align="right", dx=-6, color=ink.text, fontSize=12)
            )
            layers.append(text.encode(alt.X("end:Q" if right else "start:Q"), y, text="Label:N"))
    chart: alt.LayerChart = alt.layer(*layers).properties(height=64 + 40 * len(bars)).configure_view(stroke=None)
    return chart


def waterfall_rows(detail: RequestDetail) -> list[dict[str, Any]]:
    """The known parts end to end; of a failed request then what it waited in vain."""
    rows, start = [], 0.0
    for part in PARTS:
        if part not in detail.parts_ms:
            continue
        ms = detail.parts_ms[part]
        end = start + max(0.0, ms)  # the residual may be a hair below zero
        rows.append(_bar(_short(part), start, end, formats.ms(ms), _note(detail, part)))
        start = end
    if detail.row.error:
        ended = max(start, (detail.ended_s - detail.row.due_s) * 1e3)
        rows.append(_bar(_FAILED, start, ended, formats.ms(ended - start), "until it failed"))
    return rows


def _short(part: str) -> str:
    return _DECODE if part == "decode" else PART_NAMES[part]


def _bar(name: str, start: float, end: float, time: str, note: str) -> dict[str, Any]:
    return {"Part": name, "start": start, "end": end, "Time": time, "Label": f"{time}{f': {note}' if note else ''}"}


def _note(detail: RequestDetail, part: str) -> str:
    row = detail.row
    if part == "prefill" and np.isfinite(row.tokens_in) and np.isfinite(row.tokens_cached):
        return f"{row.tokens_in - row.tokens_cached:,.0f} tokens computed, {row.tokens_cached:,.0f} cached"
    if part == "decode":
        tokens = f"{row.tokens_out:,.0f} tokens" if np.isfinite(row.tokens_out) else ""
        count = len(detail.stalls)
        stalls = f"{count} {'stall' if count == 1 else 'stalls'}, {formats.ms(row.stalled_ms)} lost" if count else ""
        return ", ".join(part for part in (tokens, stalls) if part)
    return ""


def _ticks(detail: RequestDetail, x: alt.X, y: alt.Y, ink: theme.Ink) -> list[alt.Chart]:
    """Output chunks, where the decode is a bar to stand on."""
    if "decode" not in detail.parts_ms or not np.isfinite(detail.row.ttft_ms):
        return []
    moments = np.array([0.0, *detail.chunk_ms]) + detail.row.ttft_ms
    moments = moments[:: max(1, len(moments) // _MOST_TICKS)]
    data = pd.DataFrame({"start": moments, "Part": _DECODE})
    return [alt.Chart(data).mark_tick(color=ink.background, thickness=1, opacity=0.8).encode(x, y)]


def _stalls(detail: RequestDetail, x: alt.X, y: alt.Y, ink: theme.Ink) -> list[alt.Chart]:
    if not detail.stalls or not np.isfinite(detail.row.ttft_ms):
        return []
    rows = [
        {
            "start": detail.row.ttft_ms + stall.start_ms,
            "end": detail.row.ttft_ms + stall.start_ms + stall.ms,
            "Part": _DECODE,
            "Stall": formats.ms(stall.ms),
        }
        for stall in detail.stalls
    ]
    mark = alt.Chart(pd.DataFrame(rows)).mark_bar(color=ink.rule)
    return [mark.encode(x, y, x2="end:Q", tooltip=["Stall:N"])]


def describe_waterfall(detail: RequestDetail) -> str:
    said = [f"{row['Part']} {row['Label']}" for row in waterfall_rows(detail)]
    stalls = [f"{formats.ms(stall.ms)} long" for stall in detail.stalls]
    marked = f" Stalls: {', '.join(stalls)}." if stalls else ""
    return f"One request from when it was due, part after part. {'; '.join(said)}.{marked}"


def server_charts(detail: RequestDetail, ink: theme.Ink) -> list[tuple[alt.LayerChart, str]]:
    """The server over the block's seconds, with the request's own shaded: requests; shares in %; preemptions, where
    there were any. Each with its description."""
    assert detail.server is not None
    frame = server_rows(detail.server)
    last = max(detail.duration_s, float(frame["t_s"].max()) if len(frame) else 0.0, detail.ended_s)
    panels = [("Requests", "count", ["Running", "Waiting"]), ("Share in use", "%", list(_SHARES))]
    if float(frame["Preemptions"].sum()) > 0:
        panels.append(("Preempted", "per second", ["Preemptions"]))
    found = []
    for place, (title, unit, names) in enumerate(panels):
        there = [name for name in names if name in frame and frame[name].notna().any()]
        if there:
            bottom = place == len(panels) - 1
            found.append(
                (_panel(detail, frame, f"{title} ({unit})", there, last, ink, bottom), _words(frame, title, there))
            )
    return found


_SHARES = {
    "KV cache": "kv_cache_share",
    "Prefix hits": "",
    "GPU": "gpu_use",
    "All cores": "machine_cpu_share",
}


def server_rows(server: pd.DataFrame) -> pd.DataFrame:
    """One row a sample, counters as what they rose by since the row before, shares in %, GPUs as their mean."""
    rows = pd.DataFrame({"t_s": server["t_s"], "Running": server["running"], "Waiting": server["waiting"]})
    queries, hits = server["prefix_cache_queries"].diff(), server["prefix_cache_hits"].diff()
    rows["Prefix hits"] = 100 * (hits / queries).where(queries > 0)
    rows["KV cache"] = 100 * server["kv_cache_share"]
    rows["All cores"] = 100 * server["machine_cpu_share"]
    gpu = pd.Series([_mean_of(values) for values in server["gpu_use"]], index=server.index, dtype=float)
    if gpu.notna().any():
        rows["GPU"] = 100 * gpu
        del rows["All cores"]  # a line too many, where the GPU is what computes
    rows["Preemptions"] = server["preemptions"].diff().fillna(0.0)
    return rows


def _mean_of(values: Any) -> float:
    if values is None or isinstance(values, float):
        return float("nan")
    known = [float(value) for value in values if value is not None and np.isfinite(value)]
    return float(np.mean(known)) if known else float("nan")


def _panel(
    detail: RequestDetail,
    frame: pd.DataFrame,
    title: str,
    names: list[str],
    last: float,
    ink: theme.Ink,
    bottom: bool,
) -> alt.LayerChart:
    long = frame.melt("t_s", names, "What", "value").dropna()
    x = alt.X(
        "t_s:Q",
        title="s from the start of the block; shaded: this request, from due to its end" if bottom else None,
        scale=_seconds(min(0.0, float(frame["t_s"].min())), last),
        axis=alt.Axis(labels=bottom, tickCount=10),
    )
    scale = alt.Scale(domain=[0, 100]) if title.endswith("(%)") else alt.Scale(domainMin=0, nice=True)
    axis = alt.Axis(minExtent=_LEFT - 40, maxExtent=_LEFT - 40, tickCount=4, format=",.0f", tickMinStep=1)
    y = alt.Y("value:Q", title=title, scale=scale, axis=axis)
    colours = _colours(ink)
    colour = alt.Color(
        "What:N",
        sort=names,
        scale=alt.Scale(domain=names, range=[colours[name] for name in names]),
        legend=alt.Legend(orient="top", title=None, symbolType="stroke", offset=2),
    )
    dash = alt.StrokeDash(
        "What:N", sort=names, scale=alt.Scale(domain=names, range=[_DASH[name] for name in names]), legend=None
    )
    own = pd.DataFrame([{"t_s": detail.row.due_s, "end": max(detail.ended_s, detail.row.due_s + last / 300)}])
    shade = alt.Chart(own).mark_rect(color=ink.picked, opacity=0.22).encode(x, x2="end:Q")
    line = alt.Chart(long).mark_line(interpolate="step-before" if "second" in title else "linear", strokeWidth=2)
    lines = line.encode(x, y, colour, dash, tooltip=["What:N", alt.Tooltip("t_s:Q", format=".1f"), "value:Q"])
    chart: alt.LayerChart = alt.layer(shade, lines).properties(height=150 + 40 * bottom).configure_view(stroke=None)
    return chart


_DASH: dict[str, list[int]] = {
    "Running": [1, 0],
    "Waiting": [6, 3],
    "KV cache": [1, 0],
    "Prefix hits": [6, 3],
    "All cores": [2, 2],
    "GPU": [2, 2],
    "Preemptions": [1, 0],
}


def _colours(ink: theme.Ink) -> dict[str, str]:
    low, middle, high = ink.pass_rate_range
    names = ("Running", "Waiting", "KV cache", "Prefix hits", "All cores", "GPU", "Preemptions")
    return dict(zip(names, (high, low, high, middle, low, low, ink.rule), strict=True))


def _words(frame: pd.DataFrame, title: str, names: Sequence[str]) -> str:
    said = [
        f"{name} {formats.number(float(frame[name].min()))} to {formats.number(float(frame[name].max()))}"
        for name in names
    ]
    return f"{title} of the server over the seconds of the block: {', '.join(said)}."


def _seconds(low: float, high: float) -> alt.Scale:
    return alt.Scale(domain=[low, high], nice=False)
