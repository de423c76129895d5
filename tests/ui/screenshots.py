"""By hand: pictures of the pages as a browser shows them, from any database.

    python -m tests.ui.screenshots OUT_FOLDER [--url http://127.0.0.1:8501] [--experiment ID] [--name NAME]

Without --url a dashboard is started on the database of the KITEDASH_* settings and stopped at the end. Each page is
taken in the light and the dark theme: the first screenful at 1280x800, and the whole page (`-full`).
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from pathlib import Path

from setup.steps import browser_path
from tests.e2e.browser import dashboard, open_browser, settle

PAGES = ("tradeoff", "launch", "runs", "run", "decide", "records")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--url", default="")
    parser.add_argument("--experiment", default="")
    parser.add_argument("--name", default="")
    parser.add_argument("--page", action="append", choices=PAGES)
    parser.add_argument("--theme", action="append", choices=("light", "dark"))
    parser.add_argument("--query", default="")
    args = parser.parse_args()
    if browser_path() is None:
        raise SystemExit("No chromium found: install the package chromium, then run this again.")
    args.out.mkdir(parents=True, exist_ok=True)
    query = "&".join(part for part in (args.query, args.experiment and f"experiment={args.experiment}") if part)
    with _server(args.url) as url, open_browser() as browser:
        for theme in args.theme or ("light", "dark"):
            context = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme=theme)
            for page_name in args.page or PAGES:
                page = context.new_page()
                page.goto(f"{url}/{page_name}?{query}")
                settle(page)
                stem = "-".join(part for part in (args.name, page_name, theme) if part)
                page.screenshot(path=args.out / f"{stem}.png")
                height = page.evaluate("document.querySelector('[data-testid=stMainBlockContainer]').scrollHeight")
                page.set_viewport_size({"width": 1280, "height": max(800, int(height) + 20)})
                settle(page)
                page.screenshot(path=args.out / f"{stem}-full.png")
                page.close()
            context.close()


@contextlib.contextmanager
def _server(url: str) -> Iterator[str]:
    if url:
        yield url.rstrip("/")
    else:
        with dashboard() as started:
            yield started


if __name__ == "__main__":
    main()
