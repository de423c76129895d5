"""The first line of every page: nothing is read or drawn before it has let the request through."""

from __future__ import annotations

import streamlit as st
from streamlit.runtime.pages_manager import PagesManager

from kitedash.domain.errors import NotAllowed
from kitedash.services.actor import LOCAL, Actor, Role, require
from kitedash.ui.escape import markdown

_MARK = "_navigation_ran"
_SENT_BACK = "_sent_back"


def opened_through_navigation() -> None:
    """Called by app.py only: marks this session as one that has gone through the navigation."""
    st.session_state[_MARK] = True


def enter(role: Role = "viewer") -> Actor:
    """Lets a page go on for an actor who holds `role`, and stops the run for everyone else.

    Streamlit serves files of a folder `pages/` by itself until app.py has run once in the process. A fresh server
    whose first request is a deep link would thus run a page without app.py. The run then starts again through app.py.
    So it does, once, where the session's mark is missing: with several tabs open on a server that is started again,
    one may have left that mode while another had already begun in it.
    """
    if PagesManager.uses_pages_directory:
        _leave_pages_mode()
        st.rerun()
    if not st.session_state.get(_MARK):
        if not st.session_state.get(_SENT_BACK):
            st.session_state[_SENT_BACK] = True
            st.rerun()
        st.error("This page opens only through the dashboard's navigation.", icon=":material/block:")
        st.stop()
    actor = current_user()
    try:
        require(actor, role, "open this page")
    except NotAllowed as error:
        st.error(markdown(str(error)), icon=":material/block:")
        st.stop()
    return actor


def current_user() -> Actor:
    """Who asks. On one machine without a login that is the local user."""
    return LOCAL


def _leave_pages_mode() -> None:
    # Private to Streamlit, which is pinned; tests/e2e/test_browser_cold_start.py fails when it stops working.
    PagesManager.uses_pages_directory = False
