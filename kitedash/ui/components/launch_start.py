"""Where a launch begins: a template, an earlier experiment or an uploaded file; and what the experiment is called."""

from __future__ import annotations

import streamlit as st

from kitedash.services.launch_page import LaunchPage, Start
from kitedash.ui import address, formats
from kitedash.ui.components import glossary, launch_state
from kitedash.ui.components import launch_fields as fields
from kitedash.ui.components.launch_state import LaunchState
from kitedash.ui.escape import printable

START_BOX = address.launch_box("start")
FILE_BOX = address.launch_box("file")
VIEW_BOX = address.launch_box("view")
_KINDS = {"nothing": "Nothing", "template": "Template", "experiment": "Experiment", "file": "File"}


def row(page: LaunchPage, state: LaunchState) -> None:
    """One row: what to begin from, the way back, the definitions, and whether the form or its file is shown."""
    chosen, upload, back, definitions, view = st.columns([4.7, 1.6, 1.55, 1.5, 1.45], vertical_alignment="bottom")
    titles = _titles(page, state.start)
    launch_state.show(START_BOX, _option(state.start))
    chosen.selectbox(
        "Begin from",
        [*titles],
        format_func=lambda option: titles.get(option, option),
        key=START_BOX,
        on_change=_chosen,
        help="A template is a file of the folder experiments/. An earlier experiment is cloned, with all its settings.",
    )
    with upload.popover("Upload YAML", icon=":material/upload_file:", width="stretch"):
        st.file_uploader("An experiment file", type=["yaml", "yml"], key=FILE_BOX, on_change=_uploaded)
    if state.before is not None:
        back.button(
            "Previous form",
            icon=":material/undo:",
            type="tertiary",
            on_click=launch_state.go_back,
            help="The form as it was before you began from something else.",
        )
    with definitions:
        glossary.popover("launch")
    launch_state.show(VIEW_BOX, state.view)
    view.segmented_control(
        "Shown as",
        ["Form", "YAML"],
        required=True,
        key=VIEW_BOX,
        on_change=_viewed,
        label_visibility="collapsed",
        width="stretch",
    )


def heading(refused: fields.Refused) -> None:
    """Name, model and purpose."""
    name, model, description = st.columns([2, 2.6, 5])
    fields.text(name, "name", refused, explanation="Letters, digits, spaces and . _ -")
    fields.text(
        model,
        "model",
        refused,
        explanation="The default model's name, a folder inside the configured roots, or a hub id: Qwen/Qwen3-0.6B.",
    )
    fields.text(description, "description", refused, explanation="Which question the results are to answer.")
    fields.refusals(refused, ("name", "model", "description"))


def _titles(page: LaunchPage, start: Start) -> dict[str, str]:
    """Every option with its title, ready to be shown."""
    found = {_option(Start()): "Nothing: an empty form"}
    for template in page.templates:
        said = template.description or template.refusal
        found[_option(Start("template", template.name))] = f"Template {template.name}: {formats.shorten(said, 90)}"
    for one in page.earlier:
        title = f"Experiment {one.name} · {formats.moment(one.created_at)} · {one.id[:8]}"
        found[_option(Start("experiment", one.id))] = title
    found.setdefault(_option(start), f"{_KINDS[start.kind]} {start.name}")
    return {option: printable(" ".join(title.split())) for option, title in found.items()}


def _option(start: Start) -> str:
    return f"{start.kind}:{start.name}"


def _chosen() -> None:
    kind, _, name = str(st.session_state[START_BOX]).partition(":")
    if kind in ("nothing", "template", "experiment"):
        launch_state.begin(Start(kind, name))  # type: ignore[arg-type]  # one of the three kinds


def _uploaded() -> None:
    uploaded = st.session_state.get(FILE_BOX)
    if uploaded is not None:
        launch_state.take_file(uploaded.name, uploaded.getvalue())


def _viewed() -> None:
    launch_state.set_view("YAML" if st.session_state[VIEW_BOX] == "YAML" else "Form")
