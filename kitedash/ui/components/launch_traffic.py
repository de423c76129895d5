"""The launch form's traffic: one kind of requests, a mix of several, or a recorded trace."""

from __future__ import annotations

import streamlit as st

from kitedash.domain.errors import KiteDashError
from kitedash.domain.form_fields import ExperimentForm
from kitedash.domain.form_traffic import with_kind, with_trace, without_kind
from kitedash.domain.trace import Unit
from kitedash.services.actor import Actor
from kitedash.services.launch_page import LaunchPage
from kitedash.services.traces import import_trace
from kitedash.ui import address
from kitedash.ui.components import launch_fields as fields
from kitedash.ui.components import launch_state
from kitedash.ui.components.launch_grid import grid
from kitedash.ui.escape import markdown, printable

_DAY = (("workload.users", "workload.requests_per_user_per_day", "workload.peak_factor", "workload.spare_replicas"),)
_SIZES = (("workload.input_tokens", "workload.shared_prefix_tokens", "workload.output_tokens", "workload.arrivals"),)
_MORE = (
    ("workload.input_tokens_p90", "workload.output_tokens_p90", "workload.burstiness", "workload.timestamp_first"),
    ("workload.kind", "workload.turns", "workload.think_time_s"),
)
_OF_A_KIND = (
    ("name", "kind", "weight", "turns", "think_time_s", "timestamp_first"),
    ("input_tokens", "input_tokens_p90", "shared_prefix_tokens", "output_tokens", "output_tokens_p90"),
)
_BOXES = ("trace", "trace_file", "trace_name", "trace_unit", "trace_sort")
_TRACE, _FILE, _NAME, _UNIT, _SORT = (address.launch_box(name) for name in _BOXES)
_SAID = "launch_trace_said"
_NO_TRACE = "none"


def group(page: LaunchPage, refused: fields.Refused, actor: Actor) -> None:
    st.markdown("**Traffic**: what the deployment must carry")
    grid(_DAY, refused)
    form = page.form
    if form.mix:
        grid((("workload.arrivals", "workload.burstiness"),), refused, widths={0: (1, 1, 2)})
        st.caption(f"Its requests are of the kinds below, {len(form.mix)} in all.")
    elif form.workload.trace:
        grid((("workload.shared_prefix_tokens", "workload.kind"),), refused, widths={0: (1, 1, 2)})
        st.caption(f"Its requests are those of the recorded trace {markdown(form.workload.trace)}.")
    else:
        grid(_SIZES, refused)
    with st.expander("More about the traffic", key=address.launch_box("more_traffic")):
        if not form.mix and not form.workload.trace:
            grid(_MORE, refused, widths={1: (1, 1, 1, 1)})
        if not form.mix:
            _add_button("A mix of several kinds of requests")
        _trace(page, refused, actor)


def kinds(form: ExperimentForm, refused: fields.Refused) -> None:
    """The kinds of a mix, one frame each; nothing where there is no mix."""
    if not form.mix:
        return
    with st.container(border=True):
        st.markdown("**Mix**: the kinds of requests, each with a prefix of its own")
        for index in range(len(form.mix)):
            with st.container(border=True):
                _kind(index, refused)
        fields.refusals(refused, ["mix"])
        _add_button("Add a kind of requests")


def _kind(index: int, refused: fields.Refused) -> None:
    fields_of_it, remove = st.columns([12, 0.5])
    with fields_of_it:
        rows = tuple(tuple(f"mix[{index}].{name}" for name in names) for names in _OF_A_KIND)
        grid(rows, refused, widths={0: (2, 1.2, 1, 1, 1, 1.2)})
    remove.button(
        "",
        icon=":material/delete:",
        type="tertiary",
        key=address.launch_box(f"mix_{index}_remove"),
        help="Remove this kind of requests",
        on_click=_remove,
        args=(index,),
    )


def _add_button(label: str) -> None:
    st.button(label, icon=":material/add:", type="tertiary", key=address.launch_box("mix_add"), on_click=_add)


def _trace(page: LaunchPage, refused: fields.Refused, actor: Actor) -> None:
    chosen, upload = st.columns([3, 1], vertical_alignment="bottom")
    names = {head.name: f"{head.name}: {head.n_requests:,} requests, {head.rate_per_s:.3g}/s" for head in page.traces}
    current = page.form.workload.trace
    launch_state.show(_TRACE, current or _NO_TRACE)
    chosen.selectbox(
        fields.marked(fields.LABELS["workload.trace"], refused.get("workload.trace")),
        fields.with_current([_NO_TRACE, *names], current),
        format_func=lambda name: printable(names.get(str(name), str(name))),
        key=_TRACE,
        on_change=_chosen,
        help="Recorded requests that are replayed at the recorded times, or at the rates of the load plan.",
    )
    with upload.popover("Import", icon=":material/upload_file:", width="stretch"):
        st.text_input("Name of the trace", key=_NAME, max_chars=80)
        st.file_uploader(
            "CSV or JSON Lines: arrival, input tokens, output tokens",
            type=["csv", "jsonl"],
            key=_FILE,
            max_upload_size=20,
        )
        st.checkbox("Arrivals are in milliseconds", key=_UNIT, help="Else in seconds, or times with a date.")
        st.checkbox("Sort the requests by arrival", key=_SORT)
        st.button(
            "Import the trace",
            on_click=_import,
            args=(actor,),
            disabled=bool(page.not_allowed),
            help=page.not_allowed or None,
        )
        if said := st.session_state.get(_SAID):
            fields.sentence(markdown(said))
    fields.refusals(refused, ["workload.trace"])


def _add() -> None:
    launch_state.edit(with_kind(launch_state.form()))


def _remove(index: int) -> None:
    launch_state.edit(without_kind(launch_state.form(), index))


def _chosen() -> None:
    name = str(st.session_state[_TRACE])
    launch_state.edit(with_trace(launch_state.form(), "" if name == _NO_TRACE else name))


def _import(actor: Actor) -> None:
    uploaded, name = st.session_state.get(_FILE), str(st.session_state.get(_NAME) or "").strip()
    if uploaded is None:
        st.session_state[_SAID] = "Choose a file first."
        return
    unit: Unit = "ms" if st.session_state[_UNIT] else "s"
    sort = bool(st.session_state[_SORT])
    try:
        import_trace(actor, name, uploaded.getvalue(), source=uploaded.name, unit=unit, sort=sort)
    except KiteDashError as error:
        st.session_state[_SAID] = str(error)
        return
    st.session_state[_SAID] = ""
    launch_state.edit(with_trace(launch_state.form(), name))
