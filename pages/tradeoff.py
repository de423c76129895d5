"""Trade-off: which configuration to ship, and what is given up for it."""

from __future__ import annotations

import streamlit as st

from kitedash.domain.errors import KiteDashError, NotFound
from kitedash.services import tradeoff_page
from kitedash.services.views import TradeoffView
from kitedash.ui import address, guard
from kitedash.ui.components import candidates, chart, experiment, targets, verdict
from kitedash.ui.escape import markdown

PAGE = "tradeoff"
guard.enter("viewer")


def draw() -> None:
    chosen = address.picked(address.EXPERIMENT)
    changes = address.target_changes(chosen)
    try:
        found = tradeoff_page.page(
            chosen,
            ttft_p90_ms=changes.ttft_p90_ms,
            cost_per_1000_requests_usd=changes.cost_per_1000_requests_usd,
            pass_rate=changes.pass_rate,
        )
    except NotFound:
        experiment.missing(chosen or "")
        return
    except KiteDashError as error:
        st.error(markdown(str(error)), icon=":material/error:")
        return
    view = found.view
    address.set_polling(PAGE, view is not None and view.runs_active > 0)
    if view is None:
        experiment.nothing_stored()
    else:
        address.pick(address.EXPERIMENT, view.experiment_id)
        address.keep_targets_of(view.experiment_id, view.spec.targets)
        head, definitions = st.columns([5, 1.2], vertical_alignment="center")
        with head:
            experiment.picker(found.experiments, view.experiment_id)
        with definitions:
            verdict.definitions_popover()
        show(view)


def show(view: TradeoffView) -> None:
    verdict.answer(view)
    verdict.context(view)
    chart.tradeoff_chart(view, targets.inputs(view))
    verdict.failures(view)
    candidates.candidate_table(view)
    candidates.more_tables(view)


st.fragment(draw, run_every=2 if address.polling(PAGE) else None)()
