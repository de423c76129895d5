"""Traffic, load plan, suites and targets: four groups of fields below the candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import streamlit as st
from pydantic import BaseModel
from streamlit.delta_generator import DeltaGenerator

from kitedash.domain.experiment import ExperimentSpec, Guardrails, LoadPlan, MemoryPlan, Targets, Workload
from kitedash.domain.form_fields import SuiteRow
from kitedash.services.launch_page import KnownSuite, LaunchPage
from kitedash.ui import address
from kitedash.ui.components import launch_fields as fields
from kitedash.ui.components import launch_state
from kitedash.ui.definitions import DEFINITIONS
from kitedash.ui.escape import markdown

_MODELS: Final[Mapping[str, type[BaseModel]]] = {
    "workload": Workload,
    "load": LoadPlan,
    "targets": Targets,
    "guardrails": Guardrails,
    "memory": MemoryPlan,
}
_TRAFFIC = (
    ("workload.users", "workload.requests_per_user_per_day", "workload.peak_factor", "workload.spare_replicas"),
    ("workload.input_tokens", "workload.shared_prefix_tokens", "workload.output_tokens", "workload.arrivals"),
)
_MORE_TRAFFIC = (
    ("workload.input_tokens_p90", "workload.output_tokens_p90", "workload.burstiness", "workload.timestamp_first"),
)
_MORE_LOAD = (("load.client_processes",),)
_MEMORY = (("memory.most_prompt_tokens", "memory.most_concurrency", "memory.output_tokens"),)
_CHOICES: Final[Mapping[str, Sequence[str]]] = {
    "workload.arrivals": ["poisson", "constant", "gamma"],
    "workload.timestamp_first": ["false", "true"],
}
_LOAD = (
    ("load.rates_per_s", "load.blocks", "load.block_duration_s"),
    ("load.warm_up_s", "load.request_timeout_s", "load.seed", "repeats"),
)
_TARGETS = (
    ("targets.ttft_p90_ms", "targets.cost_per_1000_requests_usd", "targets.pass_rate"),
    ("guardrails.tpot_p90_ms", "guardrails.error_rate"),
)
_DEFINED = {
    "targets.ttft_p90_ms": DEFINITIONS["P90 TTFT"],
    "targets.cost_per_1000_requests_usd": DEFINITIONS["Deployed cost"],
    "targets.pass_rate": DEFINITIONS["Pass rate"],
    "guardrails.tpot_p90_ms": DEFINITIONS["P90 TPOT"],
    "guardrails.error_rate": DEFINITIONS["Error rate"],
}


def groups(page: LaunchPage, refused: fields.Refused) -> None:
    """Two by two, each with its refusals below its fields."""
    left, right = st.columns(2)
    with left.container(border=True, height="stretch"):
        st.markdown("**Traffic**: what the deployment must carry")
        _grid(_TRAFFIC, refused)
        with st.expander("More about the traffic"):
            _grid(_MORE_TRAFFIC, refused)
    with right.container(border=True, height="stretch"):
        st.markdown("**Load plan**: at which rates it is measured, for how long")
        _grid(_LOAD, refused, widths={0: (2, 1, 1)})
        with st.expander("More about the load"):
            _noise_floor(refused)
            _grid(_MORE_LOAD, refused, widths={0: (1, 2)})
            _memory(refused)
    left, right = st.columns(2)
    with left.container(border=True, height="stretch"):
        st.markdown("**Suites**: the questions that every candidate is asked", help=DEFINITIONS["Quality verdict"])
        _suites(page, refused)
    with right.container(border=True, height="stretch"):
        st.markdown("**Targets and guardrails**: written down before the first measurement")
        _grid(_TARGETS, refused, widths={1: (1, 1, 1)})


def _grid(
    rows: Sequence[Sequence[str]], refused: fields.Refused, *, widths: Mapping[int, Sequence[int]] | None = None
) -> None:
    for number, paths in enumerate(rows):
        for place, path in zip(st.columns((widths or {}).get(number, len(paths))), paths, strict=False):
            if path in _CHOICES:
                fields.choice(place, path, _CHOICES[path], refused, explanation=_description(path), required=True)
            else:
                placeholder = "1, 2, 4" if path == "load.rates_per_s" else ""
                fields.text(place, path, refused, explanation=_description(path), placeholder=placeholder)
    fields.refusals(refused, [path for paths in rows for path in paths])
    fields.refusals(refused, [path.partition(".")[0] for path in rows[0][:1] if "." in path])


def _description(path: str) -> str:
    """The schema's own words, or the definition of the metric."""
    if path in _DEFINED:
        return _DEFINED[path]
    group, _, name = path.partition(".")
    described = _MODELS[group].model_fields[name] if name else ExperimentSpec.model_fields[path]
    said = described.description or ""
    return said[:1].upper() + said[1:] + "."


def _noise_floor(refused: fields.Refused) -> None:
    box = address.launch_box("noise_floor")
    launch_state.show(box, launch_state.form().noise_floor != "false")
    st.checkbox(
        "Measure the baseline once more at the end: the noise floor",
        key=box,
        help=DEFINITIONS["Noise floor"],
        on_change=_switched_noise_floor,
        args=(box,),
    )
    fields.refusals(refused, ["noise_floor"])


def _memory(refused: fields.Refused) -> None:
    box = address.launch_box("memory_tried")
    tried = launch_state.form().memory.tried == "true"
    launch_state.show(box, tried)
    st.checkbox(
        "Try how much fits into memory: the memory stage",
        key=box,
        help=DEFINITIONS["Memory stage"],
        on_change=_switched_memory,
        args=(box,),
    )
    if tried:
        _grid(_MEMORY, refused)


def _switched_memory(box: str) -> None:
    form = launch_state.form()
    tried = "true" if st.session_state[box] else "false"
    launch_state.edit(replace(form, memory=replace(form.memory, tried=tried)))


def _switched_noise_floor(box: str) -> None:
    launch_state.edit(replace(launch_state.form(), noise_floor="true" if st.session_state[box] else "false"))


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
