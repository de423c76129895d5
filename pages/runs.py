"""Runs: what is queued, running, finished or failed, stage by stage, and what can be done about it."""

from __future__ import annotations

from datetime import UTC, datetime

import streamlit as st

from kitedash.domain.errors import KiteDashError, NotFound
from kitedash.services import runs_page
from kitedash.services.runs_page import RunsPage
from kitedash.ui import address, guard
from kitedash.ui.components import experiment, glossary, run_actions, runs
from kitedash.ui.escape import markdown

PAGE = "runs"
ACTIVE_S, IDLE_S = 2, 10  # how often the page is drawn anew, and whether it should be is asked
actor = guard.enter("viewer")


def draw() -> None:
    chosen = address.picked(address.EXPERIMENT)
    try:
        page = runs_page.page(chosen, address.picked(address.RUN))
    except NotFound:
        experiment.missing(chosen or "")
        return
    except KiteDashError as error:
        st.error(markdown(str(error)), icon=":material/error:")
        return
    address.set_polling(PAGE, any(run.status in runs.ACTIVE for run in page.view.runs))
    if page.view.experiment_id is None:
        experiment.nothing_stored()
    else:
        address.pick(address.EXPERIMENT, page.view.experiment_id)
        head, definitions = st.columns([5, 1.2], vertical_alignment="center")
        with head:
            experiment.picker(page.view.experiments, page.view.experiment_id)
        with definitions:
            glossary.popover("runs")
        runs.banners(page)
        show(page)
    if not address.polling(PAGE):
        st.fragment(look_again, run_every=IDLE_S)(page.view.experiment_id, page.token)


def show(page: RunsPage) -> None:
    now = datetime.now(UTC)
    with st.container(horizontal=True, vertical_alignment="center"):
        runs.summary(page.view)
        run_actions.of_experiment(actor, page.view)
    said = runs.troubles(page.view.runs)
    if page.chosen is not None:
        runs.run_table(page.view.runs, now)
        with st.container(horizontal=True, vertical_alignment="bottom"):
            runs.chooser(page.view.runs, page.chosen)
            run_actions.of_run(actor, page.chosen)
        run_actions.refusals(page.chosen.id, page.chosen.experiment_id)
        runs.details(page.chosen, now, said)
    runs.workers(page.view.workers, now)


def look_again(experiment_id: str | None, token: str) -> None:
    if runs_page.change_token(experiment_id) != token:
        st.rerun()


st.fragment(draw, run_every=ACTIVE_S if address.polling(PAGE) else None)()
