"""What is typed about a decision, as the session keeps it."""

from __future__ import annotations

import json

import pytest
from streamlit.testing.v1 import AppTest

pytestmark = pytest.mark.ui


def test_a_reason_for_a_candidate_whose_name_ends_like_the_forms_own_entry_is_kept() -> None:
    def script() -> None:
        import streamlit as st

        from kitedash.ui import address, decision_form

        decision_form.keep(decision_form.Form("d", 1, {}, "1"))
        for name in ("solid-state", "state", "int8"):
            st.session_state[address.decision_key("d", f"reason.{name}")] = f"not {name}"
        st.json(decision_form.content("d")["rejected"])
        st.json(sorted(decision_form.fields("d")))

    at = AppTest.from_function(script).run()
    assert not at.exception
    reasons, fields = (json.loads(found.value) for found in at.json)
    assert reasons == {name: f"not {name}" for name in ("solid-state", "state", "int8")}
    assert fields == ["reason.int8", "reason.solid-state", "reason.state"]
