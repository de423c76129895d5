"""Run: one candidate's server, load and answers, down to the single request."""

from __future__ import annotations

from datetime import UTC, datetime

import streamlit as st

from kitedash.domain.errors import KiteDashError, NotFound
from kitedash.services import run_page
from kitedash.services.run_page import RunDetail
from kitedash.ui import address, guard
from kitedash.ui.components import experiment, run_detail, run_detail_sections
from kitedash.ui.escape import markdown

guard.enter("viewer")


def draw() -> None:
    run_id, chosen = address.picked_together(address.RUN, address.EXPERIMENT)
    try:
        detail = run_page.page(
            run_id,
            chosen,
            limits=address.asked_limits(),
            with_answers=run_detail_sections.asked() == run_detail_sections.ANSWERS,
            suite=address.value(address.SUITE),
            item_id=address.value(address.ITEM),
        )
    except NotFound:
        if run_id:
            run_detail.missing(run_id)
        else:
            experiment.missing(chosen or "")
        return
    except KiteDashError as error:
        st.error(markdown(str(error)), icon=":material/error:")
        return
    if detail is None:
        run_detail.nothing_chosen()
    else:
        address.pick(address.RUN, detail.run.id)
        address.pick(address.EXPERIMENT, detail.run.experiment_id)
        show(detail)


def show(detail: RunDetail) -> None:
    now = datetime.now(UTC)
    run_detail.head(detail, now)
    run_detail.state(detail, now)
    run_detail.numbers(detail)
    run_detail_sections.sections(detail)
    run_detail.watch(detail)


draw()
