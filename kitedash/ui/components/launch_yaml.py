"""The form as an experiment file: to be read, copied, downloaded, edited and put back into the form."""

from __future__ import annotations

import re

import streamlit as st

from kitedash.services.launch_page import LaunchPage
from kitedash.ui import address
from kitedash.ui.components import launch_fields as fields
from kitedash.ui.components import launch_state
from kitedash.ui.components.launch_state import LaunchState
from kitedash.ui.escape import markdown

EDIT_BOX = address.launch_box("yaml_edit")
TEXT_BOX = address.launch_box("yaml_text")


def controls(page: LaunchPage, state: LaunchState) -> None:
    """The row of buttons. It stands above everything whose height changes while one types: leaving the text by a click
    on a button draws the page anew, and a button that moves away under the mouse is not clicked."""
    editing = state.yaml_text is not None
    what, apply, discard, download = st.columns([5, 1.6, 1.5, 1.7], vertical_alignment="center")
    what.caption("The same experiment as the form's. Comments in an edited file are not kept.")
    if editing:
        apply.button("Put into form", icon=":material/check:", type="primary", width="stretch", on_click=_apply)
        discard.button("Discard edits", width="stretch", on_click=launch_state.drop_yaml)
    else:
        discard.button("Edit", icon=":material/edit:", width="stretch", on_click=_edit, args=(page.yaml,))
    download.download_button(
        "Download",
        page.yaml if state.yaml_text is None else state.yaml_text,
        file_name=file_name(page.form.name),
        mime="application/yaml",
        icon=":material/download:",
        on_click="ignore",
        width="stretch",
    )


def text(page: LaunchPage, state: LaunchState) -> None:
    """To be read and copied, or edited. Edits that are refused stay as they were typed, with the reason below."""
    if state.yaml_text is not None:
        launch_state.show(TEXT_BOX, state.yaml_text)
        st.text_area("Experiment file", key=TEXT_BOX, height=560, label_visibility="collapsed", on_change=_typed)
    elif page.yaml:
        st.code(page.yaml, language="yaml", height=560)
    else:
        st.caption("The form can't be written as a file while arguments in it are not name=value.")
    if state.yaml_error:
        fields.sentence(markdown(state.yaml_error))


def file_name(name: str) -> str:
    return f"{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-') or 'experiment'}.yaml"


def _edit(text: str) -> None:
    launch_state.edit_yaml(text)


def _typed() -> None:
    launch_state.keep_yaml(str(st.session_state[TEXT_BOX]))


def _apply() -> None:
    launch_state.take_yaml(str(st.session_state.get(TEXT_BOX) or ""))
