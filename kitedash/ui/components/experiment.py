"""The head that pages about an experiment share: which one is shown, and what to do when there is none."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from kitedash.services.views import ExperimentItem
from kitedash.ui import address, formats
from kitedash.ui.escape import markdown


def picker(experiments: Sequence[ExperimentItem], current: str) -> None:
    """A box with the experiments, newest first; picking one writes it to the address."""
    items = {item.id: item for item in experiments}
    st.session_state[address.EXPERIMENT_BOX] = current
    st.selectbox(
        "Experiment",
        [*items] if current in items else [current, *items],
        format_func=lambda key: _title(items[key]) if key in items else key,
        key=address.EXPERIMENT_BOX,
        on_change=_picked,
        label_visibility="collapsed",
    )


def missing(experiment_id: str) -> None:
    st.error(f"No experiment {markdown(experiment_id)} is stored here.", icon=":material/link_off:")
    st.button("Show the newest experiment", on_click=address.forget, args=(address.EXPERIMENT,))


def nothing_stored() -> None:
    """The state of a fresh installation: says how to get a first result."""
    st.info("No experiment has been started yet.", icon=":material/rocket_launch:")
    st.page_link("pages/launch.py", label="Describe one and launch it", icon=":material/rocket_launch:")
    st.markdown(
        "Or start one in a terminal, in the project's folder:\n\n"
        "- `make quickstart` measures several settings of a small model on this machine and prints the table, or\n"
        "- `kitedash launch FILE` starts an experiment file (see `experiments/`), with `kitedash worker` running.\n\n"
        "The runs page follows it from the start, and the trade-off page as results come in."
    )


def _picked() -> None:
    address.switch_experiment(st.session_state[address.EXPERIMENT_BOX])


def _title(item: ExperimentItem) -> str:
    parts = [f"{item.finished} of {item.runs} runs done"]
    if item.active:
        parts.append(f"{item.active} to go")
    if item.failed:
        parts.append(f"{item.failed} failed")
    return f"{item.name} · {formats.moment(item.created_at)} · {', '.join(parts)} · {item.id[:8]}"
