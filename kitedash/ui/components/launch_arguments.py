"""Engine arguments of the launch form: what all candidates share, the matrix, and the list of what is allowed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from kitedash.domain.argument_text import LONGEST
from kitedash.domain.engine_args import ALLOWED, canonical_name
from kitedash.domain.environment import ALLOWED_ENVIRONMENT
from kitedash.domain.form_fields import ArgumentRow
from kitedash.services.launch_page import LaunchPage
from kitedash.ui import address
from kitedash.ui.components import launch_fields as fields
from kitedash.ui.components import launch_state
from kitedash.ui.escape import markdown

_PER_ROW = 5  # arguments side by side
DEVICES = "Left out, it follows from the parallel sizes: tensor x pipeline x data."
_ENVIRONMENT = "NAME=value, parted by commas or lines. Allowed:\n\n" + "\n".join(
    f"- `{rule.name}`: {rule.allowed} ({rule.description})" for rule in ALLOWED_ENVIRONMENT.values()
)
_BASELINE = "The candidate that the others are held to: every quality verdict compares with it."


def shared(page: LaunchPage, refused: fields.Refused) -> None:
    """Engine arguments, environment and devices of every candidate."""
    form = page.form
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown("**Shared by all candidates**", width="content")
        filled = sum(map(bool, (form.environment, form.devices)))
        with st.popover(f"More ({filled})" if filled else "More", type="tertiary"):
            fields.text(st.container(), "devices", refused, explanation=DEVICES, placeholder="1")
            box = address.launch_box("environment")
            launch_state.shown(box, "environment")
            environment("Environment", box, launch_state.typed, (box, "environment"))
    _arguments("engine_args", form.engine_args, refused)
    fields.refusals(refused, [*(f"engine_args.{row.name}" for row in page.form.engine_args), "environment", "devices"])


def matrix(page: LaunchPage, refused: fields.Refused) -> None:
    """Lists of values whose every combination is a candidate, and combinations to leave out."""
    form = page.form
    with st.expander("Matrix: every combination a candidate", icon=":material/grid_on:", expanded=bool(form.matrix)):
        _arguments("matrix", form.matrix, refused, lists=True)
        names = [f"matrix.{row.name}" for row in form.matrix]
        excludes = [f"exclude[{index}]" for index in range(len(form.exclude))]
        for path in excludes:
            fields.text(
                st.container(),
                path,
                refused,
                label="Leave out all combinations with",
                explanation="name=value, parted by commas.",
            )
        if form.matrix:
            st.button("Leave out combinations", icon=":material/add:", type="tertiary", on_click=_add_exclude)
            made = [one.name for one in page.preview.candidates][len(form.candidates) :] if page.preview else []
            if made:
                st.caption(f"It makes {len(made)}: {'; '.join(map(markdown, made))}.")
            if made or form.baseline not in [row.name for row in form.candidates]:
                names_of_all = [*(row.name for row in form.candidates if row.name), *made]
                place = st.container(width=420)
                fields.choice(place, "baseline", names_of_all, refused, explanation=_BASELINE, required=True)
        fields.refusals(refused, [*names, "matrix", *excludes, "exclude"])


def environment(label: str, box: str, on_change: Callable[..., None], args: tuple[str, ...]) -> None:
    st.text_area(
        label,
        key=box,
        height=90,
        max_chars=LONGEST,
        placeholder="OMP_NUM_THREADS=2",
        help=_ENVIRONMENT,
        on_change=on_change,
        args=args,
    )


def reference() -> None:
    frame = pd.DataFrame([(rule.name, rule.description, rule.allowed) for rule in ALLOWED.values()])
    frame.columns = pd.Index(["Argument", "What it is", "Allowed"])
    st.dataframe(
        frame, hide_index=True, width=760, height=420, alt="Engine arguments, what they may hold and what they do"
    )


def _arguments(group: str, found: Sequence[ArgumentRow], refused: fields.Refused, *, lists: bool = False) -> None:
    """One input an argument, and one that adds another. An argument whose value is taken away goes."""
    cells = [*found, None]
    for start in range(0, len(cells), _PER_ROW):
        for place, row in zip(st.columns(_PER_ROW), cells[start : start + _PER_ROW], strict=False):
            if row is None:
                _adder(place, group, [one.name for one in found], with_model=lists)
                continue
            rule = ALLOWED.get(canonical_name(row.name))
            path = f"{group}.{row.name}"
            allowed = f"{rule.description}: {rule.allowed}" if rule else "The model's name, a folder or a hub id."
            if rule and rule.kind in ("bool", "choice") and not lists:
                options = ["true", "false"] if rule.kind == "bool" else [*rule.choices]
                fields.choice(place, path, options, refused, explanation=allowed, label=row.name)
            else:
                values = "value, value" if lists else "a value"
                fields.text(place, path, refused, explanation=allowed, label=row.name, placeholder=values)


def _adder(place: DeltaGenerator, group: str, there: Sequence[str], *, with_model: bool) -> None:
    box = address.launch_box(f"{group}_add")
    launch_state.show(box, None)
    names = [name for name in (*(("model",) if with_model else ()), *ALLOWED) if name not in there]
    place.selectbox(
        "Add an argument",
        names,
        index=None,
        placeholder="choose",
        key=box,
        format_func=lambda name: f"{name}: {ALLOWED[name].description}" if name in ALLOWED else name,
        on_change=_add_argument,
        args=(box, group),
        help="Take the value out again, and the argument goes.",
    )


def _add_argument(box: str, group: str) -> None:
    name = st.session_state[box]
    form = launch_state.form()
    rows: tuple[ArgumentRow, ...] = getattr(form, group)
    if name and name not in [row.name for row in rows]:
        kept = tuple(row for row in rows if row.value.strip())
        changed = (*kept, ArgumentRow(name))
        launch_state.edit(replace(form, matrix=changed) if group == "matrix" else replace(form, engine_args=changed))


def _add_exclude() -> None:
    form = launch_state.form()
    kept = tuple(text for text in form.exclude if text.strip())
    launch_state.edit(replace(form, exclude=(*kept, "")))
