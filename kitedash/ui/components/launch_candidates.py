"""The heart of the launch form: one row a candidate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from kitedash.domain.argument_text import LONGEST
from kitedash.domain.form_fields import (
    NUMBER_FORMATS,
    PREFIX_CHOICES,
    CandidateRow,
    ExperimentForm,
    with_copy,
    without,
)
from kitedash.services.launch_page import LaunchPage
from kitedash.ui import address
from kitedash.ui.components import launch_arguments, launch_state
from kitedash.ui.components import launch_fields as fields
from kitedash.ui.escape import markdown

WIDTHS = (0.85, 2.5, 1.55, 1.25, 1.35, 3.3, 0.95, 0.42, 0.42)
HEADS = (
    ("Baseline", ""),
    ("Candidate", "A name of its own."),
    ("Number format", "bfloat16, float16, float32: how weights are held. fp8, int8: KiteDash makes a checkpoint once."),
    ("Batch limit", "max-num-seqs: requests computed at once."),
    ("Prefix cache", "enable-prefix-caching: reuse the KV cache of a shared prompt head."),
    ("Further arguments", "name=value, parted by commas: `kv-cache-dtype=fp8, block-size=16`. All names: Arguments."),
    *((("", ""),) * 3),
)
SHARED = "shared"  # what stands in an empty column
_IN_MORE = ("model", "devices", "environment", "cpu_further")


def rows(page: LaunchPage, refused: fields.Refused) -> None:
    """Each candidate with what sets it apart, and below it why it is refused."""
    if page.form.candidates:
        _table(page, refused)
    else:
        st.caption("No candidate is written by hand: all come from the matrix below.")
    add, reference, _ = st.columns([1.6, 1.6, 6.8])
    add.button("Add a candidate", icon=":material/add:", type="tertiary", on_click=_add)
    with reference.popover("Arguments", icon=":material/menu_book:", type="tertiary"):
        launch_arguments.reference()
    fields.refusals(refused, ("candidates", "baseline"))


def _table(page: LaunchPage, refused: fields.Refused) -> None:
    with st.container(gap="xxsmall"):
        for column, (label, explanation) in zip(st.columns(WIDTHS), HEADS, strict=True):
            if label:
                column.caption(label, help=explanation or None)
        cannot_run = _cannot_run(page)
        for index, (row_id, row) in enumerate(zip(launch_state.get().row_ids, page.form.candidates, strict=True)):
            _row(index, row_id, row, page.form, refused)
            if index in cannot_run:
                fields.sentence(markdown(cannot_run[index]))


def _row(index: int, row_id: str, row: CandidateRow, form: ExperimentForm, refused: fields.Refused) -> None:
    where = f"candidates[{index}]"
    mark, name, number_format, batch, prefix, further, more, copy, remove = st.columns(
        WIDTHS, vertical_alignment="center"
    )
    is_baseline = bool(row.name) and row.name == form.baseline
    mark.button(
        "",
        icon=f":material/radio_button_{'checked' if is_baseline else 'unchecked'}:",
        key=address.launch_box(f"{row_id}_baseline"),
        type="tertiary",
        help="The baseline: the others are held to it" if is_baseline else "Make it the baseline",
        on_click=_make_baseline,
        args=(row_id,),
    )
    _cell(name, where, row_id, "name", row.name, refused, placeholder="a name")
    _cell_choice(number_format, where, row_id, "number_format", row.number_format, [*NUMBER_FORMATS], refused)
    _cell(batch, where, row_id, "max_num_seqs", row.max_num_seqs, refused, placeholder=SHARED)
    _cell_choice(prefix, where, row_id, "prefix_caching", row.prefix_caching, [*PREFIX_CHOICES], refused)
    _cell(further, where, row_id, "further", row.further, refused, placeholder="none")
    filled = sum(bool(getattr(row, column)) for column in _IN_MORE)
    with more.popover(f"More ({filled})" if filled else "More", type="tertiary", width="stretch"):
        _more(where, row_id, row, refused)
    for place, what, icon, explanation in (
        (copy, with_copy, "content_copy", "A copy of it, to change one thing"),
        (remove, without, "delete", "Remove it"),
    ):
        place.button(
            "",
            icon=f":material/{icon}:",
            key=address.launch_box(f"{row_id}_{icon}"),
            type="tertiary",
            help=explanation,
            on_click=launch_state.on_row,
            args=(row_id, what),
        )
    fields.refusals(refused, [f"{where}.{column}" for column in fields.COLUMNS])
    for column in fields.COLUMNS:
        refusal = refused.get(f"{where}.{column}")
        if refusal is not None and refusal.pending and getattr(row, column):
            st.caption(f":material/edit: {markdown(refusal.sentence)}")


def _more(where: str, row_id: str, row: CandidateRow, refused: fields.Refused) -> None:
    """What few candidates need."""
    for column, label, explanation in (
        ("model", "Another model than the experiment's", "A folder or a hub id."),
        ("devices", "Devices", launch_arguments.DEVICES),
        ("cpu_further", "Further arguments on a CPU", HEADS[5][1]),
    ):
        _cell(
            st.container(), where, row_id, column, getattr(row, column), refused, label=label, explanation=explanation
        )
    box = address.launch_box(f"{row_id}_environment")
    launch_state.show(box, row.environment)
    launch_arguments.environment(
        "Environment, over the shared one", box, launch_state.typed_in_row, (box, row_id, "environment")
    )


def _cell(
    place: DeltaGenerator,
    where: str,
    row_id: str,
    column: str,
    value: str,
    refused: fields.Refused,
    *,
    placeholder: str = "",
    label: str = "",
    explanation: str = "",
) -> None:
    box = address.launch_box(f"{row_id}_{column}")
    launch_state.show(box, value)
    refusal = refused.get(f"{where}.{column}")
    place.text_input(
        label or f"{where}: {fields.COLUMNS[column]}",
        key=box,
        max_chars=LONGEST,
        placeholder=placeholder or None,
        help=explanation or None,
        label_visibility="visible" if label else "collapsed",
        icon=":material/error:" if refusal is not None and not refusal.pending else None,
        on_change=launch_state.typed_in_row,
        args=(box, row_id, column),
    )


def _cell_choice(
    place: DeltaGenerator,
    where: str,
    row_id: str,
    column: str,
    value: str,
    options: Sequence[str],
    refused: fields.Refused,
) -> None:
    box = address.launch_box(f"{row_id}_{column}")
    launch_state.show(box, value or None)
    place.selectbox(
        f"{where}: {fields.COLUMNS[column]}",
        fields.with_current(options, value),
        index=None,
        placeholder=SHARED,
        key=box,
        label_visibility="collapsed",
        on_change=launch_state.typed_in_row,
        args=(box, row_id, column),
    )


def _add() -> None:
    form, ids = launch_state.form(), launch_state.get().row_ids
    launch_state.edit(replace(form, candidates=(*form.candidates, CandidateRow())), ids)


def _make_baseline(row_id: str) -> None:
    launch_state.on_row(row_id, lambda form, index: replace(form, baseline=form.candidates[index].name))


def _cannot_run(page: LaunchPage) -> dict[int, str]:
    """Row -> why the devices can't run it."""
    found = {}
    for index, candidate in enumerate(page.preview.candidates if page.preview else ()):
        if candidate.refusal and index < len(page.form.candidates):
            found[index] = candidate.refusal
    return found
