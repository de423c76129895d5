"""Traffic, load plan, suites and targets: four groups of fields below the candidates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from kitedash.domain.form_fields import ExperimentForm, SuiteRow
from kitedash.services.actor import Actor
from kitedash.services.launch_page import KnownSuite, LaunchPage
from kitedash.ui import address
from kitedash.ui.components import launch_fields as fields
from kitedash.ui.components import launch_state, launch_traffic
from kitedash.ui.components.launch_grid import grid
from kitedash.ui.definitions import DEFINITIONS
from kitedash.ui.escape import markdown

_SEARCH = (("load.search_precision", "load.search_most_blocks"),)
_MORE_LOAD = (("load.ramp_s", "load.client_processes"),)
_MEMORY = (("memory.most_prompt_tokens", "memory.most_concurrency", "memory.output_tokens"),)
_LOAD = (
    ("load.rates_per_s", "load.blocks", "load.block_duration_s"),
    ("load.warm_up_s", "load.request_timeout_s", "load.seed", "repeats"),
)
_TARGETS = (
    ("targets.ttft_p90_ms", "targets.cost_per_1000_requests_usd", "targets.pass_rate"),
    ("guardrails.tpot_p90_ms", "guardrails.error_rate"),
)


def groups(page: LaunchPage, refused: fields.Refused, actor: Actor) -> None:
    """Two by two, each with its refusals below its fields."""
    left, right = st.columns(2)
    with left.container(border=True, height="stretch"):
        launch_traffic.group(page, refused, actor)
    with right.container(border=True, height="stretch"):
        st.markdown("**Load plan**: at which rates it is measured, for how long")
        grid(_LOAD, refused, widths={0: (2, 1, 1)})
        with st.expander("More about the load"):
            grid(_MORE_LOAD, refused, widths={0: (1, 1, 1)})
            _more_load(page.form, refused)
    launch_traffic.kinds(page.form, refused)
    left, right = st.columns(2)
    with left.container(border=True, height="stretch"):
        st.markdown("**Suites**: the questions that every candidate is asked", help=DEFINITIONS["Quality verdict"])
        _suites(page, refused)
    with right.container(border=True, height="stretch"):
        st.markdown("**Targets and guardrails**: written down before the first measurement")
        grid(_TARGETS, refused, widths={1: (1, 1, 1)})


def _more_load(form: ExperimentForm, refused: fields.Refused) -> None:
    """What is measured beside the listed rates, each to be taken or left."""
    _box(
        "noise_floor",
        "Measure the baseline once more at the end: the noise floor",
        DEFINITIONS["Noise floor"],
        form.noise_floor,
        lambda form, taken: replace(form, noise_floor=taken),
    )
    fields.refusals(refused, ["noise_floor"])
    if _box(
        "search",
        "Search the highest rate held between and beyond these rates",
        DEFINITIONS["Rate search"],
        form.load.search,
        lambda form, taken: replace(form, load=replace(form.load, search=taken)),
    ):
        grid(_SEARCH, refused, widths={0: (1, 1, 1)})
    if _box(
        "memory_tried",
        "Try how much fits into memory: the memory stage",
        DEFINITIONS["Memory stage"],
        form.memory.tried,
        lambda form, taken: replace(form, memory=replace(form.memory, tried=taken)),
    ):
        grid(_MEMORY, refused)


def _box(
    key: str, label: str, definition: str, taken: str, take: Callable[[ExperimentForm, str], ExperimentForm]
) -> bool:
    """A check box of the form, whose field is "true" or "false"; whether it is ticked."""
    box = address.launch_box(key)
    launch_state.show(box, taken == "true")
    st.checkbox(label, key=box, help=definition, on_change=_ticked, args=(box, take))
    return taken == "true"


def _ticked(box: str, take: Callable[[ExperimentForm, str], ExperimentForm]) -> None:
    launch_state.edit(take(launch_state.form(), "true" if st.session_state[box] else "false"))


def _suites(page: LaunchPage, refused: fields.Refused) -> None:
    """Each known suite to be taken or left, with its margin; one that is not known is shown to be left."""
    there = {suite.name: index for index, suite in enumerate(page.form.suites)}
    known = {suite.name: suite for suite in page.suites}
    unknown = [KnownSuite(name, "not installed here", "", 0, 0) for name in there if name not in known]
    for suite in (*page.suites, *unknown):
        title, margin = st.columns([3, 1], vertical_alignment="bottom")
        box = address.launch_box(f"suite_{suite.name}")
        launch_state.show(box, suite.name in there)
        title.toggle(
            f"**{markdown(suite.name)}**, {suite.n_items:,} items" if suite.n_items else markdown(suite.name),
            key=box,
            on_change=_switched,
            args=(box, suite.name),
            help=f"{markdown(suite.title)}. Needs a max-model-len of {suite.context_tokens:,} or more.",
        )
        if suite.name in there:
            _margin(margin, there[suite.name], refused)
    fields.refusals(
        refused,
        ["suites", *(f"suites[{i}]{part}" for i in there.values() for part in ("", ".name", ".margin"))],
    )


def _margin(place: DeltaGenerator, index: int, refused: fields.Refused) -> None:
    fields.text(
        place,
        f"suites[{index}].margin",
        refused,
        label="Margin, points",
        explanation=DEFINITIONS["Margin"],
    )


def _switched(box: str, name: str) -> None:
    form = launch_state.form()
    kept = tuple(suite for suite in form.suites if suite.name != name)
    launch_state.edit(replace(form, suites=(*kept, SuiteRow(name)) if st.session_state[box] else kept))
