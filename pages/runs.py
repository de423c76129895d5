"""Runs: what is queued, running, finished or failed, stage by stage."""

from __future__ import annotations

from datetime import UTC, datetime

import streamlit as st

from kitedash.domain.errors import KiteDashError, NotFound
from kitedash.services import runs_page
from kitedash.services.runs_page import RunsPage
from kitedash.ui import address, guard
from kitedash.ui.components import experiment, runs
from kitedash.ui.escape import markdown

PAGE = "runs"
guard.enter("viewer")


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
    view = page.view
    address.set_polling(PAGE, any(run.status in runs.ACTIVE for run in view.runs))
    if view.experiment_id is None:
        experiment.nothing_stored()
    else:
        address.pick(address.EXPERIMENT, view.experiment_id)
        experiment.picker(view.experiments, view.experiment_id)
        runs.banners(view)
        show(page)


def show(page: RunsPage) -> None:
    now = datetime.now(UTC)
    runs.summary(page.view.runs)
    if page.chosen is not None:
        runs.run_table(page.view.runs, now)
        runs.chooser(page.view.runs, page.chosen)
        runs.details(page.chosen, now)
    runs.workers(page.view.workers, now)


st.fragment(draw, run_every=2 if address.polling(PAGE) else None)()
