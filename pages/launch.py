"""Launch: describe candidates, see what would run and for how long, and queue it."""

from __future__ import annotations

import streamlit as st

from kitedash.domain.errors import KiteDashError
from kitedash.services import launch_page
from kitedash.ui import guard
from kitedash.ui.components import (
    launch_arguments,
    launch_candidates,
    launch_groups,
    launch_preview,
    launch_start,
    launch_state,
    launch_yaml,
)
from kitedash.ui.escape import markdown

actor = guard.enter("viewer")
state = launch_state.current()
try:
    page = launch_page.page(actor, state.start, state.form, state.base)
except KiteDashError as error:
    st.error(markdown(str(error)), icon=":material/error:")
    state = launch_state.begin_anew()
    page = launch_page.page(actor, state.start)
state = launch_state.opened(page.form)
refused = {refusal.field: refusal for refusal in page.refusals}

launch_start.row(page, state)
if state.view == "YAML":
    launch_yaml.controls(page, state)
    launch_preview.strip(page, state, actor)
    launch_yaml.text(page, state)
else:
    launch_start.heading(refused)
    launch_preview.strip(page, state, actor)
    launch_candidates.rows(page, refused)
    launch_arguments.shared(page, refused)
    launch_arguments.matrix(page, refused)
    launch_groups.groups(page, refused, actor)
