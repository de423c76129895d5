"""KiteDash in the browser: `streamlit run app.py` (or `kitedash dashboard`). Navigation only."""

from __future__ import annotations

import streamlit as st

from kitedash.ui import guard

st.set_page_config(page_title="KiteDash", page_icon=":material/trending_down:", layout="wide")

TRADEOFF = st.Page(
    "pages/tradeoff.py",
    title="Trade-off",
    icon=":material/scatter_plot:",
    url_path="tradeoff",
    help="Latency, cost and quality of an experiment's candidates against the three targets.",
)
LAUNCH = st.Page(
    "pages/launch.py",
    title="Launch",
    icon=":material/rocket_launch:",
    url_path="launch",
    help="Describe candidates, see what will run and for how long, and queue it.",
)
RUNS = st.Page(
    "pages/runs.py",
    title="Runs",
    icon=":material/list_alt:",
    url_path="runs",
    help="What is queued, running, finished or failed, stage by stage, with the engine's log.",
)
RUN = st.Page("pages/run.py", title="Run", url_path="run", visibility="hidden")
DECIDE = st.Page(
    "pages/decide.py",
    title="Decide",
    icon=":material/how_to_vote:",
    url_path="decide",
    help="Pick a candidate, see what it gives up, write why, and accept it as a numbered record.",
)
RECORDS = st.Page(
    "pages/records.py",
    title="Records",
    icon=":material/gavel:",
    url_path="records",
    help="What was decided, on which evidence; exports that can be checked later.",
)


def home() -> None:
    """Streamlit gives its default page no address of its own; so that every page has one, the default only leads on."""
    st.switch_page(TRADEOFF, query_params=st.query_params.to_dict())


guard.opened_through_navigation()
st.navigation(
    [st.Page(home, title="KiteDash", default=True, visibility="hidden"), TRADEOFF, LAUNCH, RUNS, RUN, DECIDE, RECORDS],
    position="top",
).run()
