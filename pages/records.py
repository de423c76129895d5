"""Records: what was decided, on which evidence; exports, and the check that nothing was changed since."""

from __future__ import annotations

import streamlit as st

from kitedash.domain.errors import KiteDashError, NotFound
from kitedash.services import records_page
from kitedash.ui import address, decision_actions, guard, record_actions
from kitedash.ui.components import record, records
from kitedash.ui.escape import markdown

actor = guard.enter("viewer")
address.follow()


def draw() -> None:
    try:
        page = records_page.page(address.picked(address.RECORD))
    except NotFound as error:
        records.record_missing(str(error))
        return
    except KiteDashError as error:
        st.error(markdown(str(error)), icon=":material/error:")
        return
    if page.chosen is None:
        records.nothing_decided(page)
        return
    address.pick(address.RECORD, str(page.chosen.number))
    records.record_list(page)
    records.open_drafts(page.drafts)
    records.verification(record_actions.findings())
    records.head(page, actor, decision_actions.refusal(actor))
    if page.document is None:
        records.unreadable(page)
    else:
        record.body(page.document)
    if page.view is not None:
        records.raw(page.view)


draw()
