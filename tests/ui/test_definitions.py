"""Each metric's definition is one click away: every page has the list, and every term and column in it is defined."""

from __future__ import annotations

import re

import pytest
from streamlit.testing.v1 import AppTest

from kitedash.ui import run_charts
from kitedash.ui.components import candidates
from kitedash.ui.definitions import DEFINITIONS, ON_PAGE, TOPICS
from tests.ui.conftest import ROOT, opened
from tests.ui.deciding import decided
from tests.ui.seed import Seeded

pytestmark = pytest.mark.ui
PAGES = sorted(path.stem for path in (ROOT / "pages").glob("*.py"))


def listed(at: AppTest) -> dict[str, str]:
    """Term -> meaning, as the page's list of definitions shows them."""
    (found,) = [block for block in at.get("popover") if block.proto.popover.label == "Definitions"]
    text = "\n".join(str(element.value) for element in found.markdown)
    return dict(re.findall(r"^- \*\*(.+?)\*\*: (.+)$", text, re.MULTILINE))


@pytest.mark.parametrize("page", PAGES)
def test_every_page_has_the_terms_of_its_topics(own_database: Seeded, page: str) -> None:
    if page == "records":
        decided(own_database.many)
    shown = listed(opened(page, {"experiment": own_database.many} if page != "launch" else {}))
    assert shown.items() <= DEFINITIONS.items()
    assert set(shown) == {term for topic in ON_PAGE[page] for term in TOPICS[topic]}


def test_every_topic_is_on_some_page_and_no_term_in_two() -> None:
    assert {topic for topics in ON_PAGE.values() for topic in topics} == set(TOPICS)
    assert len(DEFINITIONS) == sum(map(len, TOPICS.values()))


def test_the_parts_of_a_request_and_the_columns_below_the_candidates_are_defined() -> None:
    terms = {
        *run_charts.PART_NAMES.values(),
        *(term for _, term in (*candidates._RATE_TERMS, *candidates._SUITE_TERMS)),
    }
    assert terms <= set(DEFINITIONS)
    parts = {*run_charts.PART_NAMES.values(), "Stall", "Cause of a slow request"}
    assert parts == set(TOPICS["Parts of a request"])


def test_the_columns_that_are_explained_are_there(own_database: Seeded) -> None:
    tables = [table.value for table in opened("tradeoff", {"experiment": own_database.many}).dataframe]
    (rates,) = [table for table in tables if "Most running" in table]
    (suites,) = [table for table in tables if "Margin (points)" in table]
    assert {column for column, _ in candidates._RATE_TERMS} <= set(rates)
    assert {column for column, _ in candidates._SUITE_TERMS} <= set(suites)
