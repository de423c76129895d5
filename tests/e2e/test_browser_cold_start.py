"""A fresh server whose very first request is a deep link: the page must come through app.py and the guard.

Streamlit serves a folder `pages/` by itself until app.py has called `st.navigation` once in the process. Without the
guard these tests fail: the page then runs on its own, under Streamlit's own sidebar of files.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from setup.steps import browser_path
from tests.e2e.browser import dashboard, open_browser, settle

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(browser_path() is None, reason="no chromium is installed (Debian: apt-get install chromium)"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as opened:
        yield opened


MENU = ["Trade-off", "Launch", "Runs", "Decide", "Records"]
ASKS_FOR_THE_EXPERIMENT = ("runs", "tradeoff", "decide", "run", "")


def test_several_tabs_may_be_the_first_requests_of_a_fresh_server(browser: Browser, tmp_path: Path) -> None:
    """As when the dashboard is started again: every open tab comes back at once."""
    with dashboard({"KITEDASH_DATA_DIR": str(tmp_path), "KITEDASH_DATABASE_URL": ""}) as url:
        tabs = [browser.new_page() for _ in range(5)]
        for tab in tabs:
            tab.goto(f"{url}/tradeoff?experiment=none-such", wait_until="commit")
        for tab in tabs:
            tab.get_by_text("No experiment none-such is stored here.").wait_for(timeout=60_000)
            tab.close()


@pytest.mark.parametrize("path", [*ASKS_FOR_THE_EXPERIMENT, "launch", "records"])
def test_the_first_request_of_a_fresh_server_goes_through_the_navigation(
    path: str, browser: Browser, tmp_path: Path
) -> None:
    with dashboard({"KITEDASH_DATA_DIR": str(tmp_path), "KITEDASH_DATABASE_URL": ""}) as url:
        page = browser.new_page()
        page.goto(f"{url}/{path}?experiment=none-such")
        page.wait_for_selector("[data-testid=stTopNavLink]", timeout=60_000)  # app.py's navigation is on top
        settle(page)
        titles = [link.split()[-1] for link in page.locator("[data-testid=stTopNavLink]").all_inner_texts()]
        assert titles == MENU
        assert page.locator("[data-testid=stSidebarNav]").count() == 0  # the files of pages/, as Streamlit lists them
        assert page.locator("[data-testid=stException]").count() == 0
        assert page.url.startswith(f"{url}/{path or 'tradeoff'}")
        assert "experiment=none-such" in page.url
        if path in ASKS_FOR_THE_EXPERIMENT:
            page.get_by_text("No experiment none-such is stored here.").wait_for(timeout=20_000)
        page.close()
