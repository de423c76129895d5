"""The chart of the memory stage: where a candidate stops as prompts and concurrency grow. Pure functions."""

from __future__ import annotations

from typing import Any, Literal

import altair as alt
import pandas as pd

from kitedash.domain.memory import BATCH_LIMIT, KV_CACHE, Room
from kitedash.domain.memory_ladder import MemoryOutcome, MemoryStep
from kitedash.services.memory_view import MemoryView
from kitedash.ui import theme

LABELS: dict[MemoryOutcome, str] = {
    MemoryOutcome.HELD: "all ran at once",
    MemoryOutcome.QUEUED: "some waited",
    MemoryOutcome.PREEMPTED: "preempted",
    MemoryOutcome.REJECTED: "refused",
    MemoryOutcome.OUT_OF_MEMORY: "out of memory",
    MemoryOutcome.DIED: "engine died",
    MemoryOutcome.FAILED: "failed",
    MemoryOutcome.TIMED_OUT: "timed out",
}
_SHAPES: dict[MemoryOutcome, str] = {
    MemoryOutcome.HELD: "circle",
    MemoryOutcome.QUEUED: "diamond",
    MemoryOutcome.PREEMPTED: "square",
    MemoryOutcome.REJECTED: "cross",
    MemoryOutcome.OUT_OF_MEMORY: "triangle-down",
    MemoryOutcome.DIED: "triangle-left",
    MemoryOutcome.FAILED: "triangle-right",
    MemoryOutcome.TIMED_OUT: "triangle-up",
}
_ROOM_ABOVE = 2.0  # of the tallest that was tried: further up a limit says nothing of the points


def memory_chart(view: MemoryView, ink: theme.Ink) -> alt.LayerChart:
    """Prompt tokens against requests at once, both log: a mark a step, and the predicted limits as lines."""
    assert view.room is not None
    room = view.room
    low, high = _prompt_span(view)
    top = _ROOM_ABOVE * max(step.concurrency for step in view.steps)
    x = alt.X(
        "prompt:Q",
        title="Prompt tokens of each request (log)",
        scale=alt.Scale(type="log", base=2, domain=[low, high], nice=False),
        axis=alt.Axis(values=_doublings(low, high), format=",d", grid=True),
    )
    y = alt.Y(
        "at_once:Q",
        title="Requests at once (log)",
        scale=alt.Scale(type="log", base=2, domain=[0.75, top], nice=False),
        axis=alt.Axis(values=_doublings(1, top), format=",d", grid=True),
    )
    names = [LABELS[outcome] for outcome in LABELS if any(step.outcome is outcome for step in view.steps)]
    kinds = [outcome for outcome in LABELS if LABELS[outcome] in names]
    legend = alt.Legend(
        orient="top", title=None, columns=len(names), labelLimit=240, symbolSize=110, symbolStrokeWidth=0
    )
    marks = (
        alt.Chart(pd.DataFrame([_row(step) for step in view.steps]))
        .mark_point(filled=True, size=110, opacity=1, stroke=ink.background, strokeWidth=0.8)
        .encode(
            x,
            y,
            shape=alt.Shape(
                "Outcome:N", scale=alt.Scale(domain=names, range=[_SHAPES[kind] for kind in kinds]), legend=legend
            ),
            color=alt.Color(
                "Outcome:N", scale=alt.Scale(domain=names, range=[_colour(kind, ink) for kind in kinds]), legend=legend
            ),
            tooltip=["Prompt:N", "Answer:N", "At once:N", "Outcome:N", "KV cache used:N", "Preemptions:N", "Why:N"],
        )
    )
    output_tokens = min(step.output_tokens for step in view.steps)
    lines = [
        *_kv_line(room, output_tokens, low, high, top, x, y, ink),
        *_batch_line(room, high, top, x, y, ink),
        *_longest_line(room, low, high, top, x, y, ink),
    ]
    chart: alt.LayerChart = alt.layer(*lines, marks).properties(height=380).configure_view(stroke=None)
    return chart


def describe_memory(view: MemoryView) -> str:
    """The chart in words, for whoever can't see it."""
    said = []
    for limit in view.lengths:
        beyond = "" if limit.beyond is None else f", at {limit.beyond.concurrency:,} {LABELS[limit.beyond.outcome]}"
        predicted = "" if limit.predicted is None else f" (predicted {limit.predicted:,})"
        said.append(f"{limit.prompt_tokens:,} prompt tokens: {limit.most:,} ran at once{predicted}{beyond}")
    return "Requests at once against prompt tokens. " + "; ".join(said) + "."


def _row(step: MemoryStep) -> dict[str, Any]:
    share = step.kv_share_max
    return {
        "prompt": step.prompt_tokens,
        "at_once": step.concurrency,
        "Outcome": LABELS[step.outcome],
        "Prompt": f"{step.prompt_tokens:,} tokens",
        "Answer": f"{step.output_tokens:,} tokens",
        "At once": f"{step.concurrency:,}"
        if step.running_max is None
        else f"{step.running_max:,.0f} of {step.concurrency:,}",
        "KV cache used": "–" if share is None else f"{share:.0%}",
        "Preemptions": "–" if step.preemptions is None else f"{step.preemptions:,.0f}",
        "Why": step.reason,
    }


def _colour(outcome: MemoryOutcome, ink: theme.Ink) -> str:
    if outcome is MemoryOutcome.HELD:
        return ink.good
    if outcome in (MemoryOutcome.QUEUED, MemoryOutcome.PREEMPTED):
        return ink.pass_rate_range[0]
    return ink.muted if outcome is MemoryOutcome.REJECTED else ink.rule


def _prompt_span(view: MemoryView) -> tuple[float, float]:
    assert view.room is not None
    tried = [step.prompt_tokens for step in view.steps]
    return min(tried) / 1.3, max(*tried, min(view.room.max_model_len, 4 * max(tried))) * 1.3


def _doublings(low: float, high: float) -> list[int]:
    found, value = [], 1
    while value <= high:
        if value >= low:
            found.append(value)
        value *= 2
    return found


def _kv_line(
    room: Room, output_tokens: int, low: float, high: float, top: float, x: alt.X, y: alt.Y, ink: theme.Ink
) -> list[alt.Chart]:
    """Where all of the KV cache is used: tokens / (prompt + answer), whole blocks left aside."""
    if room.kv_tokens is None:
        return []
    tokens = (room.kv_tokens - room.block_size) * room.replicas
    ends = min(high, float(room.max_model_len))
    prompts = [low * (ends / low) ** (i / 60) for i in range(61)]
    rows = [{"prompt": prompt, "at_once": tokens / (prompt + output_tokens)} for prompt in prompts]
    rows = [row for row in rows if 0.75 <= row["at_once"] <= top]
    if not rows:
        return []
    source = "predicted" if room.kv_tokens_predicted is not None else "by its reported size"
    line = alt.Chart(pd.DataFrame(rows)).mark_line(color=ink.picked, strokeWidth=2, clip=True)
    label = _label({**rows[len(rows) // 2], "text": f"{KV_CACHE} full, {source}"}, ink.picked, x, y, dx=8, dy=-10)
    return [line.encode(x, y, order="prompt:Q"), label]


def _batch_line(room: Room, high: float, top: float, x: alt.X, y: alt.Y, ink: theme.Ink) -> list[alt.Chart]:
    limit = room.by_batch_limit
    if limit is None or limit > top:
        return []
    rule = alt.Chart(pd.DataFrame([{"at_once": limit}])).mark_rule(color=ink.text, strokeDash=[6, 4], strokeWidth=1.4)
    row = {"prompt": high, "at_once": limit, "text": f"{BATCH_LIMIT} {limit:,}"}
    return [rule.encode(y), _label(row, ink.text, x, y, dx=-4, dy=-8, align="right")]


def _longest_line(
    room: Room, low: float, high: float, top: float, x: alt.X, y: alt.Y, ink: theme.Ink
) -> list[alt.Chart]:
    if not low < room.max_model_len < high:
        return []
    data = pd.DataFrame([{"prompt": room.max_model_len}])
    rule = alt.Chart(data).mark_rule(color=ink.muted, strokeDash=[2, 3], strokeWidth=1.4).encode(x)
    row = {"prompt": room.max_model_len, "at_once": top, "text": f"longest request {room.max_model_len:,}"}
    return [rule, _label(row, ink.muted, x, y, dx=-6, dy=10, align="right")]


def _label(
    row: dict[str, Any], colour: str, x: alt.X, y: alt.Y, *, dx: int, dy: int, align: Literal["left", "right"] = "left"
) -> alt.Chart:
    mark = alt.Chart(pd.DataFrame([row])).mark_text(color=colour, fontSize=11, align=align, dx=dx, dy=dy)
    chart: alt.Chart = mark.encode(x, y, text="text:N")
    return chart
