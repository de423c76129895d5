"""Decide: pick a candidate, see what it gives up, write why, and accept it as a numbered record."""

from __future__ import annotations

import streamlit as st

from kitedash.domain.errors import KiteDashError, NotFound
from kitedash.services import decide_page
from kitedash.services.decide_page import DecidePage
from kitedash.ui import address, decision_actions, decision_form, guard
from kitedash.ui.components import decision, decision_writing, experiment, gives_up, glossary
from kitedash.ui.escape import markdown

actor = guard.enter("viewer")
address.follow()


def draw() -> None:
    chosen, candidate, draft = address.picked_together(address.EXPERIMENT, address.CANDIDATE, address.DRAFT)
    limits = address.target_changes(chosen)
    try:
        page = decide_page.page(chosen, candidate, draft, limits=limits, reading=decision_form.is_reviewed(draft))
    except NotFound:
        if draft:
            decision.draft_missing(draft)
        else:
            experiment.missing(chosen or "")
        return
    except KiteDashError as error:
        st.error(markdown(str(error)), icon=":material/error:")
        return
    if page.view is None:
        experiment.nothing_stored()
        return
    address.pick(address.EXPERIMENT, page.view.experiment_id)
    head, definitions = st.columns([5, 1.2], vertical_alignment="center")
    with head:
        experiment.picker(page.experiments, page.view.experiment_id)
    with definitions:
        glossary.popover("decide")
    show(page)


def show(page: DecidePage) -> None:
    assert page.view is not None
    if page.draft is None:
        address.forget(address.DRAFT)
    else:
        address.pick(address.DRAFT, page.draft.id)
        if page.draft.accepted_number is not None:
            decision.accepted_already(page.draft)
            return
    if page.candidate is None:
        decision.nothing_measured(page.view)
        return
    address.pick(address.CANDIDATE, page.candidate.name)
    form = decision_form.opened(page)
    what = decision_actions.deciding(actor, page, form)
    refusal = decision_actions.refusal(actor)
    if form.reviewing and page.reading is not None:
        decision_writing.review(page, form, what, refusal)
        return
    decision.head(page)
    decision.recommendation(page)
    decision.numbers(page.view, page.candidate)
    decision.unmeasured(page)
    gives_up.gives_up(page.candidate.name, page.against, page.view)
    decision_writing.writing(page, form, what, refusal)


draw()
