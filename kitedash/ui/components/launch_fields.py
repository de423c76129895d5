"""Inputs of the launch form: each shows one field, writes it back, and says below it what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from kitedash.domain.argument_text import LONGEST
from kitedash.domain.form_checks import Refusal
from kitedash.domain.form_fields import value_at
from kitedash.domain.workload import RequestClass
from kitedash.ui import address
from kitedash.ui.components import launch_state
from kitedash.ui.escape import markdown

Refused = Mapping[str, Refusal]

LABELS: Final[Mapping[str, str]] = {
    "name": "Name",
    "description": "What it is to decide",
    "model": "Model",
    "devices": "Devices",
    "environment": "Environment",
    "baseline": "Baseline",
    "repeats": "Repeats",
    "noise_floor": "Noise floor",
    "candidates": "Candidates",
    "matrix": "Matrix",
    "suites": "Suites",
    "workload.users": "Users a day",
    "workload.requests_per_user_per_day": "Requests a user",
    "workload.peak_factor": "Peak factor",
    "workload.input_tokens": "Input tokens",
    "workload.shared_prefix_tokens": "Shared prefix",
    "workload.output_tokens": "Output tokens",
    "workload.arrivals": "Arrivals",
    "workload.spare_replicas": "Spare replicas",
    "workload.input_tokens_p90": "Input, P90",
    "workload.output_tokens_p90": "Output, P90",
    "workload.timestamp_first": "Time stamp",
    "workload.burstiness": "Burstiness",
    "workload.kind": "Endpoint",
    "workload.turns": "Turns a session",
    "workload.think_time_s": "Think time, s",
    "workload.trace": "Recorded trace",
    "mix": "Mix",
    "load.rates_per_s": "Rates, requests/s",
    "load.blocks": "Blocks a rate",
    "load.block_duration_s": "Block, s",
    "load.warm_up_s": "Warm-up, s",
    "load.ramp_s": "Ramp, s",
    "load.request_timeout_s": "Time-out, s",
    "load.seed": "Seed",
    "load.client_processes": "Client processes",
    "load.search": "Rate search",
    "load.search_precision": "Precision",
    "load.search_most_blocks": "Most blocks",
    "memory.most_prompt_tokens": "Longest prompt",
    "memory.most_concurrency": "Most at once",
    "memory.output_tokens": "Output tokens",
    "targets.ttft_p90_ms": "P90 TTFT ≤ ms",
    "targets.cost_per_1000_requests_usd": "Cost ≤ USD/1,000",
    "targets.pass_rate": "Pass rate ≥ %",
    "guardrails.tpot_p90_ms": "P90 TPOT ≤ ms",
    "guardrails.error_rate": "Errors ≤ %",
}
KIND_COLUMNS: Final[Mapping[str, str]] = {
    "name": "Name",
    "weight": "Weight",
} | {
    path.removeprefix("workload."): label
    for path, label in LABELS.items()
    if path.startswith("workload.") and path.removeprefix("workload.") in RequestClass.model_fields
}
COLUMNS: Final[Mapping[str, str]] = {
    "name": "name",
    "number_format": "number format",
    "max_num_seqs": "batch limit",
    "prefix_caching": "prefix caching",
    "further": "further arguments",
    "cpu_further": "arguments on a CPU",
    "environment": "environment",
    "model": "model",
    "devices": "devices",
}


def text(
    place: DeltaGenerator, path: str, refused: Refused, *, explanation: str, label: str = "", placeholder: str = ""
) -> None:
    """A line of text, or a number as text: what is typed stays, right or wrong."""
    box = address.launch_box(path)
    launch_state.shown(box, path)
    place.text_input(
        marked(label or short_label(path), refused.get(path)),
        key=box,
        max_chars=LONGEST,
        help=explanation,
        placeholder=placeholder or None,
        on_change=launch_state.typed,
        args=(box, path),
    )


def choice(
    place: DeltaGenerator,
    path: str,
    options: Sequence[str],
    refused: Refused,
    *,
    explanation: str,
    label: str = "",
    required: bool = False,
) -> None:
    """One of a few. What a file says beyond them is shown too. Unless `required`, it can be taken away again."""
    box = address.launch_box(path)
    value = value_at(launch_state.form(), path)
    launch_state.show(box, value or None)
    place.selectbox(
        marked(label or short_label(path), refused.get(path)),
        with_current(options, value),
        index=0 if required else None,
        placeholder="choose",
        key=box,
        help=explanation,
        on_change=launch_state.typed,
        args=(box, path),
    )


def with_current(options: Sequence[str], value: str) -> list[str]:
    return [*options] if value in options or not value else [*options, value]


def marked(label: str, refusal: Refusal | None) -> str:
    """A refused field is told by its sentence below it, and coloured; what is still to come is not pressed for."""
    return label if refusal is None or refusal.pending else f":red[**{label}**]"


def refusals(refused: Refused, paths: Sequence[str]) -> None:
    """The sentences for a group of fields, below it."""
    for path in paths:
        refusal = refused.get(path)
        if refusal is not None and not refusal.pending:
            sentence(f"**{markdown(label_of(path))}** {markdown(refusal.sentence)}")


def sentence(said: str) -> None:
    """`said` is Markdown, escaped by the caller. Small, but not as pale as a caption."""
    st.markdown(f":small[:red[:material/error: {said}]]")


def short_label(path: str) -> str:
    """Above a field; in a kind's own frame the column is enough."""
    return KIND_COLUMNS[path.partition("].")[2]] if path.startswith("mix[") else LABELS[path]


def label_of(path: str) -> str:
    """A field as a sentence may name it: "candidate 2, batch limit"."""
    if path in LABELS:
        return LABELS[path]
    head, _, column = path.partition("].")
    rows, _, index = head.rstrip("]").partition("[")
    if rows == "candidates" and index.isdigit():
        return f"Candidate {int(index) + 1}, {COLUMNS.get(column, column)}"
    if rows == "mix" and index.isdigit():
        return (
            f"Kind {int(index) + 1}, {KIND_COLUMNS.get(column, column).lower()}" if column else f"Kind {int(index) + 1}"
        )
    if rows in ("suites", "exclude") and index.isdigit():
        return f"{'Suite' if rows == 'suites' else 'Exclude'} {int(index) + 1}" + (
            ", margin" if column == "margin" else ""
        )
    return path.partition(".")[2] or path
