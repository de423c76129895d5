"""What the buttons of the records page do; what they find stays in the session until the next check."""

from __future__ import annotations

from typing import Final

import streamlit as st

from kitedash.domain import record_check
from kitedash.domain.errors import KiteDashError
from kitedash.services import records, records_page
from kitedash.services.actor import Actor
from kitedash.services.records import Finding
from kitedash.ui import address

MAX_EXPORT_MB: Final = record_check.MAX_BYTES // 1_000_000
MAX_EXPORT_BYTES: Final = record_check.MAX_BYTES


def findings() -> tuple[Finding, ...] | None:
    """Of the last check; None before the first one."""
    found: tuple[Finding, ...] | None = st.session_state.get(address.FINDINGS)
    return found


def verify_stored() -> None:
    with st.spinner("Recomputing every hash"):
        st.session_state[address.FINDINGS] = records.verify_stored(anew=False)


def verify_exported() -> None:
    """The file in the upload box. Its size is checked here too: the browser's own check can be left out."""
    upload = st.session_state[address.EXPORT_BOX]
    if upload is None:
        st.session_state.pop(address.FINDINGS, None)
        return
    if upload.size > MAX_EXPORT_BYTES:
        sentence = f"The file is larger than {MAX_EXPORT_MB} MB: no export of a record is."
        st.session_state[address.FINDINGS] = (Finding(upload.name, False, sentence),)
    else:
        st.session_state[address.FINDINGS] = (records.verify_export(upload.name, upload.getvalue()),)


def supersede(actor: Actor, number: int) -> None:
    """Opens a draft that starts from the record."""
    try:
        draft = records_page.supersede(actor, number)
    except KiteDashError as error:
        st.session_state[address.FINDINGS] = (Finding(f"record {number}", False, str(error)),)
        return
    address.go_to("pages/decide.py", **{address.EXPERIMENT: draft.experiment_id, address.DRAFT: draft.id})
