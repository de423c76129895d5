"""What can be done about runs: cancel one or all, retry one, begin another experiment from it, look at it closely."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from kitedash.domain.errors import KiteDashError
from kitedash.services.actor import Actor, lacks
from kitedash.services.cancel import Cancelled, cancel_experiment, cancel_run
from kitedash.services.retry import retry_run
from kitedash.services.views import RunsView, RunView
from kitedash.ui import address
from kitedash.ui.escape import markdown

ACTIVE = ("queued", "running")


def of_experiment(actor: Actor, view: RunsView) -> None:
    """Cancelling all that is not over, and the way to the results; drawn into the caller's row."""
    assert view.experiment_id is not None
    experiment_id, active = view.experiment_id, [run for run in view.runs if run.status in ACTIVE]
    stoppable = [run for run in active if not run.cancelling]
    if stoppable:
        _ask_first(
            experiment_id,
            label="Cancel all",
            question=f"Cancel {_counted(len(stoppable))} of this experiment? What they measured so far stays.",
            confirm=f"Yes, cancel {_counted(len(stoppable))}",
            refusal=lacks(actor, "engineer", "cancel runs"),
            do=lambda: _told(cancel_experiment(experiment_id, actor)),
        )
    st.page_link(
        "pages/tradeoff.py",
        label="Trade-off",
        icon=":material/scatter_plot:",
        query_params={address.EXPERIMENT: experiment_id},
    )


def of_run(actor: Actor, run: RunView) -> None:
    """Of the run that is shown in detail; drawn into the caller's row."""
    if run.status in ACTIVE:
        if run.cancelling:
            st.button("Stopping …", icon=":material/stop:", disabled=True, key=f"{address.RUN_ACTION}_stopping")
        else:
            _ask_first(
                run.id,
                label="Cancel this run",
                question=f"Cancel {markdown(run.candidate_name)}? What it measured so far stays.",
                confirm="Yes, cancel it",
                refusal=lacks(actor, "engineer", "cancel runs"),
                do=lambda: _told(cancel_run(run.id, actor)),
            )
    elif run.retried_by is None:
        refusal = lacks(actor, "engineer", "retry runs") or run.retry_refusal
        st.button(
            "Retry",
            icon=":material/replay:",
            key=f"{address.RUN_ACTION}_retry",
            disabled=bool(refusal),
            help=markdown(refusal) or "Queue the same candidate again; the new run takes this one's place.",
            on_click=_do,
            args=(run.id, lambda: _retried(run, actor)),
        )
    st.page_link(
        "pages/run.py",
        label="Results and raw data",
        icon=":material/monitoring:",
        query_params={address.EXPERIMENT: run.experiment_id, address.RUN: run.id},
    )
    st.page_link(
        "pages/launch.py",
        label="Clone with one change",
        icon=":material/content_copy:",
        help="Opens the launch form with this experiment's settings and this candidate to change.",
        query_params={address.CLONE: run.experiment_id, address.CANDIDATE: run.candidate_name},
    )


def refusals(*targets: str) -> None:
    """Why the last action was not done, if it was asked of one of these."""
    refused = st.session_state.get(address.REFUSED)
    if refused is not None and refused[0] in targets:
        st.error(markdown(refused[1]), icon=":material/block:")


def _ask_first(
    target: str, *, label: str, question: str, confirm: str, refusal: str, do: Callable[[], str | None]
) -> None:
    """A button that asks in its own place before anything is done."""
    key = f"{address.RUN_ACTION}_{'all' if 'all' in label else 'cancel'}"
    if st.session_state.get(address.CONFIRM) != target:
        st.button(
            label,
            icon=":material/stop_circle:",
            key=key,
            disabled=bool(refusal),
            help=markdown(refusal) or None,
            on_click=_ask,
            args=(target,),
        )
        return
    st.markdown(f":material/help: {question}")
    st.button(confirm, type="primary", key=f"{key}_yes", on_click=_do, args=(target, do))
    st.button("No, go on", key=f"{key}_no", on_click=_ask, args=(None,))


def _ask(target: str | None) -> None:
    st.session_state[address.CONFIRM] = target


def _do(target: str, action: Callable[[], str | None]) -> None:
    """Runs before the page is drawn anew, so that it shows the new state at once. What is refused is said there."""
    st.session_state[address.CONFIRM] = None
    st.session_state[address.REFUSED] = None
    try:
        said = action()
    except KiteDashError as error:
        st.session_state[address.REFUSED] = (target, str(error))
        return
    if said:
        st.toast(markdown(said), icon=":material/check:")


def _told(outcome: Cancelled) -> str:
    parts = []
    if outcome.ended:
        parts.append(f"{_counted(len(outcome.ended))} cancelled")
    if outcome.stopping:
        parts.append(f"{_counted(len(outcome.stopping))} told to stop, which takes seconds")
    if outcome.already_over and not parts:
        parts.append("nothing to cancel: it was over already")
    return f"{', '.join(parts)}."


def _retried(run: RunView, actor: Actor) -> str:
    address.pick(address.RUN, retry_run(run.id, actor))
    return f"{run.candidate_name} is queued again."


def _counted(runs: int) -> str:
    return "1 run" if runs == 1 else f"{runs} runs"
