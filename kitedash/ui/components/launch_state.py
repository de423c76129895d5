"""The launch form as the session keeps it: on going to another page and back nothing typed is lost.

Inputs only show it. Each writes what was typed into the form by its callback, before the page is drawn again; an input
is set from the form only where the two differ, so that what is being typed elsewhere meanwhile is left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal
from uuid import uuid4

import streamlit as st

from kitedash.domain.errors import InvalidInput
from kitedash.domain.experiment import ExperimentSpec
from kitedash.domain.experiment_file import parse_experiment
from kitedash.domain.experiment_form import form_of
from kitedash.domain.form_fields import ExperimentForm, value_at, with_value
from kitedash.services.launch_page import Start
from kitedash.services.templates import read_upload, uploaded_text
from kitedash.ui import address

View = Literal["Form", "YAML"]


def _new_key() -> str:
    return uuid4().hex


@dataclass(frozen=True)
class LaunchState:
    """`form` is None until the page has made one from `start`; `begun` is that one, before anything was typed. `before`
    is the form to go back to. `row_ids` tell the candidates' rows apart while rows
    come and go. `launch_key` lets a form that is sent twice launch once; after `launched` (an experiment's id) an edit,
    or the wish to launch again, makes a new one. `yaml_text` is an edited file that is not the form yet."""

    start: Start = field(default_factory=Start)
    base: ExperimentSpec | None = None
    form: ExperimentForm | None = None
    begun: ExperimentForm | None = None
    row_ids: tuple[str, ...] = ()
    launch_key: str = field(default_factory=_new_key)
    pressed: bool = False
    launched: str = ""
    before: LaunchState | None = None
    view: View = "Form"
    yaml_text: str | None = None
    yaml_error: str = ""
    yaml_taken: str = ""  # the file that the form was last made from
    leave_out: bool = False


def current() -> LaunchState:
    """As it was left. A link that names an experiment to clone begins anew, unless the form began with it."""
    state = get()
    if clone := address.value(address.CLONE):
        asked = Start("experiment", clone, address.value(address.CANDIDATE))
        if asked != state.start:
            state = _begun(state, asked)
    return _keep(state)


def opened(form: ExperimentForm) -> LaunchState:
    """Called once the page has the form: rows get their ids."""
    state = get()
    ids = state.row_ids if state.form is not None else ()
    missing = len(form.candidates) - len(ids)
    begun = form if state.form is None else state.begun
    return _keep(replace(state, form=form, begun=begun, row_ids=(*ids, *(_new_key()[:8] for _ in range(missing)))))


def get() -> LaunchState:
    state: LaunchState | None = st.session_state.get(address.LAUNCH)
    return state or _keep(LaunchState())


def form() -> ExperimentForm:
    return get().form or ExperimentForm()


def edit(form: ExperimentForm, row_ids: tuple[str, ...] | None = None) -> None:
    """Another form; an edited one is another launch."""
    state = get()
    key = _new_key() if state.launched else state.launch_key
    ids = state.row_ids if row_ids is None else row_ids
    _keep(replace(state, form=form, row_ids=ids, launch_key=key, launched=""))


def begin(start: Start, base: ExperimentSpec | None = None) -> None:
    """A new form. What was typed can be had back."""
    address.put(address.CLONE, start.name if start.kind == "experiment" else "")
    address.put(address.CANDIDATE, start.candidate if start.kind == "experiment" else "")
    _keep(_begun(get(), start, base))


def begin_anew() -> LaunchState:
    """An empty form, where what was asked for is not there; a form that was under way can be had back."""
    before = _to_go_back_to(get())
    if before is not None and before.start == get().start:
        before = replace(before, start=Start())
    address.put(address.CLONE, "")
    address.put(address.CANDIDATE, "")
    return _keep(LaunchState(before=before))


def go_back() -> None:
    """The form as it was before another was begun."""
    if (before := get().before) is not None:
        start = before.start
        address.put(address.CLONE, start.name if start.kind == "experiment" else "")
        address.put(address.CANDIDATE, start.candidate if start.kind == "experiment" else "")
        _keep(before)


def press() -> None:
    """Called by the button: the page launches once it has the form with all that was typed. A second click while the
    first one launches changes nothing."""
    if not get().launched:
        _keep(replace(get(), pressed=True))


def answer_press() -> None:
    """Called before the launch: whatever becomes of it, only another click launches again."""
    _keep(replace(get(), pressed=False))


def launched(experiment_id: str) -> None:
    _keep(replace(get(), launched=experiment_id, pressed=False))


def launch_again() -> None:
    """The same form is to be launched a second time, on purpose."""
    _keep(replace(get(), launched="", launch_key=_new_key()))


def set_view(view: View) -> None:
    _keep(replace(get(), view=view))


def set_leave_out(wanted: bool) -> None:
    _keep(replace(get(), leave_out=wanted))


def take_yaml(text: str) -> None:
    """An edited file becomes the form, or is kept as it is with what is wrong with it. Called with what is in the text
    box: that it has changed may be told only after the click, when both come at once."""
    try:
        spec = parse_experiment(text)
    except InvalidInput as error:
        _keep(replace(get(), yaml_text=text, yaml_error=str(error)))
        return
    _take(spec, text)


def keep_yaml(text: str) -> None:
    """An edited file as it is typed; whether it is an experiment shows when it is put into the form."""
    if get().yaml_text is None and text == get().yaml_taken:
        return  # the click that put it into the form came first
    try:
        parse_experiment(text)
    except InvalidInput as error:
        _keep(replace(get(), yaml_text=text, yaml_error=str(error)))
    else:
        _keep(replace(get(), yaml_text=text, yaml_error=""))


def edit_yaml(text: str) -> None:
    """The form's file is to be edited."""
    _keep(replace(get(), yaml_taken=""))
    keep_yaml(text)


def drop_yaml() -> None:
    _keep(replace(get(), yaml_text=None, yaml_error=""))


def take_file(name: str, content: bytes) -> None:
    """An uploaded file is what the form begins from; one that is refused is shown as it is, to be mended there."""
    try:
        spec = read_upload(name, content)
    except InvalidInput as error:
        try:
            text = uploaded_text(name, content)
        except InvalidInput:
            text = None
        _keep(replace(get(), yaml_text=text, yaml_error=str(error), view="YAML"))
        return
    begin(Start("file", name), spec)


def typed(box: str, path: str) -> None:
    """Called when an input has changed: its text goes into the form."""
    edit(with_value(form(), path, str(st.session_state[box] or "")))


def typed_in_row(box: str, row_id: str, column: str) -> None:
    ids = get().row_ids
    if row_id in ids:
        typed(box, f"candidates[{ids.index(row_id)}].{column}")


def show(box: str, text: str | bool | None) -> None:
    """Called before an input is drawn: it shows what the form holds."""
    if box not in st.session_state or st.session_state[box] != text:
        st.session_state[box] = text


def shown(box: str, path: str) -> str:
    text = value_at(form(), path)
    show(box, text)
    return text


def on_row(row_id: str, change: Callable[[ExperimentForm, int], ExperimentForm]) -> None:
    """A change of the form that concerns one candidate; a new row right below it gets an id of its own."""
    ids = get().row_ids
    if row_id not in ids:
        return
    index = ids.index(row_id)
    changed = change(form(), index)
    grown = len(changed.candidates) - len(ids)
    if grown > 0:
        ids = (*ids[: index + 1], _new_key()[:8], *ids[index + 1 :])
    elif grown < 0:
        ids = (*ids[:index], *ids[index + 1 :])
    edit(changed, ids)


def _take(spec: ExperimentSpec, text: str) -> None:
    state = get()
    changed = form_of(spec)
    key = _new_key() if state.launched and changed != state.form else state.launch_key
    ids = tuple(_new_key()[:8] for _ in changed.candidates)
    filled = replace(state, form=changed, row_ids=ids, launch_key=key, launched="", view="Form")
    _keep(replace(filled, yaml_text=None, yaml_error="", yaml_taken=text))


def _begun(state: LaunchState, start: Start, base: ExperimentSpec | None = None) -> LaunchState:
    return LaunchState(start=start, base=base, before=_to_go_back_to(state))


def _to_go_back_to(state: LaunchState) -> LaunchState | None:
    """This form where something was typed; of one that is as it began the form before it."""
    is_untouched = state.form in (None, ExperimentForm(), state.begun) and state.yaml_text is None
    return state.before if is_untouched else replace(state, before=None)


def _keep(state: LaunchState) -> LaunchState:
    st.session_state[address.LAUNCH] = state
    return state
