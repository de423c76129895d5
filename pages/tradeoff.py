"""Trade-off: which configuration to ship, and what is given up for it."""

from __future__ import annotations

import streamlit as st

from kitedash.domain.errors import KiteDashError, NotFound
from kitedash.services import tradeoff_page
from kitedash.services.tradeoff_page import TradeoffPage
from kitedash.services.views import TradeoffView
from kitedash.ui import address, guard, picks
from kitedash.ui.components import (
    candidates,
    chart,
    comparison,
    experiment,
    export,
    filters,
    glossary,
    presets,
    targets,
    verdict,
    watch,
)
from kitedash.ui.escape import markdown

guard.enter("viewer")


def draw() -> None:
    address.restore_view()
    picks.take()
    chosen = address.picked(address.EXPERIMENT)
    try:
        found = tradeoff_page.page(
            chosen,
            limits=address.target_changes(chosen),
            candidate=address.value(address.CANDIDATE) or None,
            preset=address.value(address.PRESET) or None,
            against=address.value(address.AGAINST) or None,
        )
    except NotFound:
        experiment.missing(chosen or "")
        return
    except KiteDashError as error:
        st.error(markdown(str(error)), icon=":material/error:")
        return
    if found.view is None:
        experiment.nothing_stored()
    else:
        address.pick(address.EXPERIMENT, found.view.experiment_id)
        address.keep_view(found.view.experiment_id)
        show(found, found.view)
    watch.changes(found)


def show(found: TradeoffPage, view: TradeoffView) -> None:
    filtered = filters.current()
    shown = filters.shown(view, filtered, found.number_formats)
    picked = found.picked.candidate.name if found.picked is not None else None
    head, data, definitions = st.columns([5, 1, 1.3], vertical_alignment="center")
    with head:
        experiment.picker(found.experiments, view.experiment_id)
    with data:
        export.data_menu(view)
    with definitions:
        glossary.popover("tradeoff")
    verdict.answer(view)
    verdict.context(view)
    targets.inputs(view)
    with st.container(horizontal=True, vertical_alignment="center"):
        presets.row(found)
        filters.popover(found, filtered)
        scale = targets.cost_scale()
    filters.hidden_line(view, filtered, shown)
    verdict.unknown(found.unknown)
    plot, beside = st.columns([2.5, 1])
    with beside:
        presets.sentence(found)
        if found.picked is not None:
            comparison.card(view, found.picked, hidden=found.picked.candidate.name not in shown)
    with plot:
        chart.tradeoff_chart(view, scale, shown, picked)
    verdict.failures(view)
    if found.picked is not None and found.picked.comparison is not None:
        comparison.details(found.picked.comparison)
    candidates.candidate_table(view, shown, picked)
    candidates.more_tables(view, shown)


draw()
