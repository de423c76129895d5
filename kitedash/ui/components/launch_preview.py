"""What would run, always in sight: how much, where, how long, what is in the way; and the one button that launches."""

from __future__ import annotations

from datetime import timedelta

import pandas as pd
import streamlit as st

from kitedash.domain.command import shell_line
from kitedash.domain.errors import KiteDashError
from kitedash.services.actor import Actor
from kitedash.services.database_error import database_sentence
from kitedash.services.launch import launch
from kitedash.services.launch_page import LaunchPage
from kitedash.services.launch_preview import CandidatePreview, LaunchPreview, Minutes
from kitedash.ui import address, formats
from kitedash.ui.components import launch_fields as fields
from kitedash.ui.components import launch_state
from kitedash.ui.components.launch_state import LaunchState
from kitedash.ui.escape import markdown, printable

LAUNCH_BOX = address.launch_box("go")
COMMAND_BOX = address.launch_box("command_of")
LEAVE_OUT_BOX = address.launch_box("leave_out")
_AT_ONCE_MIN = 0.1  # a wait below it is none: minutes
_SHOWN = 2  # refusals told in full: all of them stand at their fields


def strip(page: LaunchPage, state: LaunchState, actor: Actor) -> None:
    """The summary with the button beside it; below it, on demand, the commands and what changed."""
    with st.container(border=True):
        said, button = st.columns([5, 1.15], vertical_alignment="center")
        with said:
            if page.preview is not None:
                _summary(page.preview)
            else:
                _still_needed(page)
            _warnings(page, state)
        with button:
            _button(page, state, actor)
        if page.preview is not None:
            with st.container(horizontal=True):
                with st.popover("Commands and environment", icon=":material/code:", type="tertiary"):
                    _commands(page.preview)
                _changes(page)


def minutes(found: Minutes | None, at_least: float) -> str:
    """Such as "about 25 min (18 to 40 min)", or what is known at least."""
    if found is not None:
        return formats.time_range(found)
    return f"at least {formats.minutes(at_least) if at_least >= 1 else formats.duration(timedelta(minutes=at_least))}"


def _summary(found: LaunchPreview) -> None:
    counted = _count(len(found.candidates), "candidate")
    where = f" on {markdown(found.device_name)}" if found.device_name else ""
    counted_runs = _count(found.runs, "run") + (" (1 for the noise floor)" if found.noise_floor else "")
    st.markdown(
        f"**{counted} · {counted_runs} · {minutes(found.minutes, found.at_least_minutes)}**{where}, {_devices(found)}"
    )
    st.caption(f"{_blocks(found)}{_start(found)}{markdown(found.basis)}")


def _blocks(found: LaunchPreview) -> str:
    """How many blocks a run measures at most; "" where nothing is searched."""
    if not found.further_blocks:
        return ""
    return f"At most {found.load_blocks} load blocks a run, {found.further_blocks} of them for the rate search. "


def _start(found: LaunchPreview) -> str:
    """When its first run begins; "" where no live worker serves it, which is a warning of its own."""
    before = f"{_count(found.waiting_runs, 'run')} in the queue before it" if found.waiting_runs else ""
    if not all(candidate.served for candidate in found.candidates):
        return f"{before}. " if before else ""
    if found.wait is None:
        return f"{before or 'Every slot is busy'}; for how long is not known. "
    if found.wait.high < _AT_ONCE_MIN:
        return f"{before}. " if before else "A live worker takes it at once. "
    return f"{before or 'Every slot is busy'}: {minutes(found.wait, 0)} until its first run begins. "


def _devices(found: LaunchPreview) -> str:
    if found.device_kind == "cpu":
        return "one at a time on the processor"
    sizes = sorted({candidate.devices for candidate in found.candidates})
    return f"{' or '.join(map(str, sizes))} GPU{'' if sizes == [1] else 's'} a run"


def _still_needed(page: LaunchPage) -> None:
    """What is refused, as at the fields, and in one line what is still to come."""
    wrong = [refusal for refusal in page.refusals if not refusal.pending]
    for refusal in wrong[:_SHOWN]:
        name = f"**{markdown(fields.label_of(refusal.field))}** " if refusal.field else ""
        fields.sentence(name + markdown(refusal.sentence))
    if rest := wrong[_SHOWN:]:
        names = " · ".join(markdown(fields.label_of(refusal.field)) for refusal in rest)
        fields.sentence(f"**Also to be mended:** {names}")
    pending = [refusal for refusal in page.refusals if refusal.pending]
    if pending:
        names = " · ".join(markdown(fields.label_of(refusal.field)) for refusal in pending)
        st.markdown(f"**Still needed:** {names}")
    if pending and not wrong:
        st.caption("What would run, where and for how long is shown here once the form is complete.")


def _warnings(page: LaunchPage, state: LaunchState) -> None:
    found = page.preview
    for warning in found.warnings if found is not None else ():
        st.markdown(f":orange[:material/warning: {markdown(warning)}]")
    refused = [candidate for candidate in found.candidates if candidate.refusal] if found is not None else []
    for candidate in refused:
        fields.sentence(f"**{markdown(candidate.name)}** {markdown(candidate.refusal)}")
    if refused and not page.all_refused:
        launch_state.show(LEAVE_OUT_BOX, state.leave_out)
        st.checkbox(
            "Launch the others, and store what is refused as failed with its reason",
            key=LEAVE_OUT_BOX,
            on_change=lambda: launch_state.set_leave_out(bool(st.session_state[LEAVE_OUT_BOX])),
        )
    if state.yaml_text is not None:
        said = markdown(state.yaml_error) if state.yaml_error else "apply or discard them there."
        st.markdown(f":orange[:material/edit_note: Edits under YAML are not in the form yet:] {said}")


def _button(page: LaunchPage, state: LaunchState, actor: Actor) -> None:
    """One launch a form: sent twice, it leads to the same experiment."""
    if state.launched:
        st.page_link("pages/runs.py", label="Launched: see its runs", query_params={address.EXPERIMENT: state.launched})
        st.button("Launch again", on_click=launch_state.launch_again, width="stretch")
        return
    why_not = _why_not(page, state)
    st.button(
        "Launch",
        key=LAUNCH_BOX,
        type="primary",
        icon=":material/rocket_launch:",
        width="stretch",
        disabled=bool(why_not),
        help=markdown(why_not) if why_not else "Stores the experiment and queues its runs; workers measure them.",
        on_click=launch_state.press,
    )
    if page.not_allowed:
        st.caption(f":material/lock: {markdown(page.not_allowed)}")
    if state.pressed:
        _launch(page, state, actor, why_not)


def _launch(page: LaunchPage, state: LaunchState, actor: Actor, why_not: str) -> None:
    launch_state.answer_press()
    if page.spec is None or why_not:
        return
    try:
        experiment_id = launch(page.spec, actor, launch_key=state.launch_key, leave_out=state.leave_out)
    except Exception as error:
        if not (sentence := str(error) if isinstance(error, KiteDashError) else database_sentence(error)):
            raise
        st.error(markdown(sentence), icon=":material/error:")
        return
    launch_state.launched(experiment_id)
    st.switch_page("pages/runs.py", query_params={address.EXPERIMENT: experiment_id})


def _why_not(page: LaunchPage, state: LaunchState) -> str:
    """Why the button is off; "" where it is on."""
    if page.not_allowed:
        return page.not_allowed
    if page.preview is None:
        return "The form is not complete yet: what is missing or refused stands at the left."
    if page.all_refused:
        return "None of the candidates can run on these devices."
    if any(candidate.refusal for candidate in page.preview.candidates) and not state.leave_out:
        return "Some candidates can't run on these devices: change or remove them, or tick that the others be launched."
    if state.yaml_text is not None:
        return "Edits under YAML are not in the form yet: apply or discard them first."
    return ""


def _commands(found: LaunchPreview) -> None:
    by_name = {candidate.name: candidate for candidate in found.candidates}
    if st.session_state.get(COMMAND_BOX) not in by_name:
        launch_state.show(COMMAND_BOX, next(iter(by_name)))
    chosen = by_name[
        st.selectbox(
            "Candidate",
            [*by_name],
            key=COMMAND_BOX,
            format_func=lambda name: f"{name} (baseline)" if by_name[name].is_baseline else name,
            label_visibility="collapsed",
        )
    ]
    one_run = minutes(chosen.minutes, chosen.at_least_minutes)
    worker = "served by a live worker" if chosen.served else "which no live worker serves"
    st.caption(f"One run takes {one_run}. Queue {markdown(chosen.queue)}, {worker}.")
    st.code(printable(command_of(chosen)), language="bash", wrap_lines=True, width=760)


def command_of(candidate: CandidatePreview) -> str:
    """As it would be typed into a shell; what is known only when it starts stands in <angle brackets>."""
    return shell_line(candidate.argv, candidate.environment, placeholders=True)


def _changes(page: LaunchPage) -> None:
    """What differs from what the form began with."""
    if not page.changes:
        return
    title = f"{_count(len(page.changes), 'change')} against {page.changed_from}"
    with st.popover(markdown(title), icon=":material/difference:", type="tertiary"):
        rows = [
            (printable(one.path), printable(one.before) or "–", printable(one.after) or "–") for one in page.changes
        ]
        frame = pd.DataFrame(rows, columns=pd.Index(["What", "Before", "Now"]))
        st.dataframe(frame, hide_index=True, width=720, alt="What differs from the experiment that the form began with")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
