"""What only a browser can show: the address, real Markdown, the first screenful, both themes."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, expect

from setup.steps import browser_path
from tests.e2e.browser import dashboard, open_browser, settle
from tests.ui.seed import Seeded, seed

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(browser_path() is None, reason="no chromium is installed (Debian: apt-get install chromium)"),
]

HOSTILE = (
    "**b** _i_ `c` $x^2$ $$y$$ :red[r] :blue-badge[x] :material/home: :tada: :streamlit: <b>h</b> "
    "<script>alert(1)</script> [l](http://evil.example) ![i](http://evil.example/i.png) http://evil.example "
    "www.evil.example me@evil.example -> <- <-> -- >= <= ~= ~~s~~ | # - 1. > &amp; &#58; \\ end"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Seeded]]:
    data_dir = tmp_path_factory.mktemp("data")
    seeded = seed(data_dir)
    with dashboard({"KITEDASH_DATA_DIR": str(data_dir), "KITEDASH_DATABASE_URL": ""}) as url:
        yield url, seeded


def test_text_from_outside_is_drawn_as_it_is_written(site: tuple[str, Seeded], browser: Browser) -> None:
    page = browser.new_page()
    page.goto(f"{site[0]}/runs?experiment={quote(HOSTILE)}")
    alert = page.locator("[data-testid=stAlertContentError]")
    alert.wait_for(timeout=60_000)
    settle(page)
    paragraph = alert.locator("p").last
    assert paragraph.inner_text().replace("\u2060", "") == f"No experiment {HOSTILE} is stored here."
    assert paragraph.locator("*").count() == 0  # one text, no element of any kind in it
    page.close()


def test_an_adjusted_target_is_in_the_address_and_survives_a_reload(site: tuple[str, Seeded], browser: Browser) -> None:
    url, seeded = site
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(f"{url}/tradeoff?experiment={seeded.many}")
    box = page.get_by_role("spinbutton", name="P90 TTFT ≤ ms (written: 800)")
    box.wait_for(timeout=60_000)
    box.fill("450")
    box.press("Enter")
    page.wait_for_url("**t_ttft_p90_ms=450*", timeout=20_000)
    page.reload()
    expect(page.get_by_role("spinbutton", name="P90 TTFT ≤ ms (written: 800)")).to_have_value("450", timeout=30_000)
    page.get_by_role("button", name="As written").click()
    expect(page.get_by_role("spinbutton", name="P90 TTFT ≤ ms (written: 800)")).to_have_value("800", timeout=20_000)
    page.wait_for_url(lambda address: "t_ttft_p90_ms" not in address, timeout=20_000)
    page.close()


def test_another_experiment_starts_from_its_own_targets(site: tuple[str, Seeded], browser: Browser) -> None:
    url, seeded = site
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(f"{url}/tradeoff?experiment={seeded.many}&t_ttft_p90_ms=450")
    expect(page.get_by_role("spinbutton", name="P90 TTFT ≤ ms (written: 800)")).to_have_value("450", timeout=60_000)
    page.get_by_role("combobox").first.click()
    page.get_by_role("option", name=seeded.one[:8]).click()
    expect(page.get_by_role("spinbutton", name="P90 TTFT ≤ ms (written: 700)")).to_have_value("700", timeout=20_000)
    assert f"experiment={seeded.one}" in page.url
    page.locator("[data-testid=stTopNavLink]", has_text="Runs").click()
    page.wait_for_url(f"**/runs?*{seeded.one}*", timeout=20_000)  # the pages share the choice
    page.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_first_screenful_holds_the_answer_and_the_chart(
    site: tuple[str, Seeded], browser: Browser, theme: str
) -> None:
    url, seeded = site
    context = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme=theme)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(f"{url}/tradeoff?experiment={seeded.many}")
    chart = page.locator("[data-testid=stVegaLiteChart] svg").first
    chart.wait_for(timeout=60_000)
    settle(page)
    answer = page.locator("[data-testid=stAlert]").first.bounding_box()
    drawn = chart.bounding_box()
    assert answer is not None
    assert drawn is not None
    assert answer["y"] + answer["height"] <= drawn["y"]
    assert drawn["y"] + drawn["height"] <= 800
    page.close()
    context.close()


FIRST_ANSWERS = {  # page -> what a person came for, seen without scrolling
    "launch": "[data-testid=stButton] button:has-text('Launch')",
    "runs": "[data-testid=stDataFrame]",
    "run": "[data-testid=stTabs] [role=tablist]",  # below the five numbers
    "decide": "[data-testid=stHeading]:has-text('What it gives up')",  # below the three numbers
}


@pytest.mark.parametrize("name", list(FIRST_ANSWERS))
def test_the_first_screenful_of_each_page_holds_its_first_answer(
    site: tuple[str, Seeded], browser: Browser, name: str
) -> None:
    url, seeded = site
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(f"{url}/{name}?experiment={seeded.many}")
    answer = page.locator(FIRST_ANSWERS[name]).first
    answer.wait_for(timeout=60_000)
    settle(page)
    box = answer.bounding_box()
    assert box is not None
    assert box["y"] + min(box["height"], 200) <= 800
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 1280  # nothing is reached by scrolling sideways only
    page.close()


def test_a_click_on_a_point_or_on_a_row_picks_its_candidate(site: tuple[str, Seeded], browser: Browser) -> None:
    url, seeded = site
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(f"{url}/tradeoff?experiment={seeded.many}")
    page.locator("[data-testid=stVegaLiteChart] svg").first.wait_for(timeout=60_000)
    settle(page)

    def click_point(candidate: str, ending: str) -> None:
        marks = page.locator(f"[data-testid=stVegaLiteChart] path[aria-label*='{candidate};'][opacity='0.001']")
        point = next(one for one in marks.all() if "highest held" in (one.get_attribute("aria-label") or ""))
        point.click(force=True)
        page.wait_for_url(f"**candidate={ending}", timeout=20_000)
        settle(page)

    click_point("#8 float32 max-num-seqs=2", "float32+max-num-seqs%3D2")
    click_point("#4 int8", "int8")
    click_point("#8 float32 max-num-seqs=2", "float32+max-num-seqs%3D2")  # back to one that was picked before
    table = page.locator("[data-testid=stDataFrame]:visible").first
    table.scroll_into_view_if_needed()
    page.wait_for_timeout(500)
    box = table.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 16, box["y"] + 36 + 35 * 5 + 17)  # the box of the sixth row
    page.wait_for_url("**candidate=int8+max-num-seqs%3D2*", timeout=20_000)
    settle(page)
    page.get_by_role("link", name="Run detail").click()
    page.wait_for_url("**/run?*", timeout=20_000)
    assert "candidate=int8+max-num-seqs%3D2" in page.url
    page.go_back()
    page.wait_for_url("**/tradeoff?*candidate=int8+max-num-seqs%3D2*", timeout=20_000)
    page.close()
