"""The whole way in a real browser on the real engine: launch from the form, watch, weigh, decide, download, verify.

One story, told once in the fixture and looked at by the tests.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from playwright.sync_api import Browser, Page, expect

from db import engine, results, runs
from kitedash.measuring.model_store import DEFAULT_MODEL
from kitedash.running.slots import default_slots
from kitedash.settings import PROJECT_ROOT
from kitedash.ui import address
from setup.steps import browser_path
from tests.e2e.browser import open_browser, server, settle

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(browser_path() is None, reason="no chromium is installed (Debian: apt-get install chromium)"),
]

RUN_TIMEOUT_S = 900.0
WHY = "Half the batch at no cost: <b>bold</b> | **stars** | $x$"
EXPERIMENT = f"""
name: journey
description: Which batch limit?
model: {DEFAULT_MODEL}
engine_args: {{dtype: float32, max-model-len: 1024, block-size: 32}}
candidates:
  - name: batch 8
    engine_args: {{max-num-seqs: 8}}
baseline: batch 8
workload: {{users: 100, input_tokens: 300, shared_prefix_tokens: 285, output_tokens: 8}}
load: {{rates_per_s: [1, 2, 3], blocks: 2, block_duration_s: 6, request_timeout_s: 30}}
suites: [{{name: kitedash_repo}}]
targets: {{ttft_p90_ms: 4000, cost_per_1000_requests_usd: 10, pass_rate: 0.3}}
guardrails: {{tpot_p90_ms: 500}}
noise_floor: false
"""


@dataclass
class Story:
    """What was seen on the way."""

    data_dir: Path
    experiment_id: str = ""
    experiments_after_two_clicks: int = 0
    threads_while_measuring: list[list[dict[str, Any]]] = field(default_factory=list)
    children_while_measuring: list[list[str]] = field(default_factory=list)
    engines: list[tuple[str, set[int]]] = field(default_factory=list)  # the run under way, its processes
    first_point_alt: str = ""
    card: str = ""
    card_with_a_moved_target: str = ""
    record_page: str = ""
    json_file: Path | None = None
    markdown_file: Path | None = None

    def environment(self) -> dict[str, str]:
        return {**os.environ, "KITEDASH_DATA_DIR": str(self.data_dir), "KITEDASH_DATABASE_URL": ""}

    def session(self) -> Any:
        return engine.sessions(f"sqlite:///{self.data_dir / 'kitedash.db'}")()

    def cli(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "kitedash.cli", *arguments]
        return subprocess.run(
            command, cwd=PROJECT_ROOT, env=self.environment(), capture_output=True, text=True, check=False
        )

    def of_runs(self) -> list[Any]:
        with self.session() as session:
            return list(runs.of_experiment(session, self.experiment_id))

    def blocks(self) -> int:
        with self.session() as session:
            return sum(
                len(results.stored_blocks(session, run.id)) for run in runs.of_experiment(session, self.experiment_id)
            )

    def under_way(self) -> str:
        return next((run.id for run in self.of_runs() if run.status == "running"), "")

    def engine_pids(self) -> set[int]:
        found = set()
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                line = process.cmdline()
                if any("api_server" in part for part in line) and str(self.data_dir) in " ".join(line):
                    found.add(process.pid)
        return found

    def wait(self, condition: Callable[[], bool], what: str, timeout_s: float = RUN_TIMEOUT_S) -> None:
        began = time.monotonic()
        while not condition():
            if time.monotonic() - began > timeout_s:
                logs = "\n".join(path.read_text()[-3_000:] for path in (self.data_dir / "logs").glob("*.log"))
                raise AssertionError(f"not within {timeout_s:g} s: {what}\n{logs}")
            time.sleep(0.3)


@contextlib.contextmanager
def watched(story: Story) -> Iterator[tuple[str, Callable[[], None]]]:
    """The dashboard, and a function that writes down its threads and children into the story."""
    file = story.data_dir / "threads.json"
    start = [sys.executable, "-m", "tests.e2e.watched_dashboard", str(file)]
    with server(start, story.environment()) as (url, process):

        def look() -> None:
            file.unlink(missing_ok=True)
            process.send_signal(signal.SIGUSR1)
            story.wait(file.exists, "the list of threads", 30)
            story.threads_while_measuring.append(json.loads(file.read_text()))
            children = psutil.Process(process.pid).children(recursive=True)
            story.children_while_measuring.append([" ".join(child.cmdline()) for child in children])

        yield url, look


def worker(story: Story) -> subprocess.Popen[bytes]:
    with (story.data_dir / "worker.out").open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "kitedash.running.worker", default_slots()[0]],
            cwd=PROJECT_ROOT,
            env=story.environment(),
            stdout=output,
            stderr=subprocess.STDOUT,
        )


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory, default_model_dir: Path) -> Iterator[Story]:
    told = Story(tmp_path_factory.mktemp("journey"))
    shutil.copytree(default_model_dir, told.data_dir / "models" / DEFAULT_MODEL)
    measuring = worker(told)
    try:
        with open_browser() as browser:
            with watched(told) as (url, look):
                launch_from_the_form(told, browser, url)
                watch_it_run(told, browser, url, look)
            with watched(told) as (url, look):  # the dashboard is started again while the run goes on
                five_tabs(told, browser, url, look)
                told.wait(lambda: all(run.status not in ("queued", "running") for run in told.of_runs()), "the end")
                weigh_and_decide(told, browser, url)
        yield told
    finally:
        measuring.terminate()
        measuring.wait()
        engine.dispose_engines()


def launch_from_the_form(told: Story, browser: Browser, url: str) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(f"{url}/launch")
    page.get_by_role("radio", name="YAML").or_(page.get_by_role("button", name="YAML", exact=True)).first.click(
        timeout=60_000
    )
    page.get_by_role("button", name="Edit").click(timeout=30_000)
    box = page.get_by_role("textbox", name="Experiment file")
    box.fill(EXPERIMENT, timeout=30_000)
    box.press("Control+Enter")
    settle(page)
    page.get_by_role("button", name="Put into form").click()
    expect(page.get_by_text("1 candidate · 1 run")).to_be_visible(timeout=30_000)
    page.locator("[class*=_content_copy] button").first.click()  # a copy, to change one thing
    name = page.get_by_role("textbox", name="candidates[1]: name")
    expect(name).to_be_visible(timeout=30_000)
    name.fill("batch 4")
    name.press("Enter")
    settle(page)
    limit = page.get_by_role("textbox", name="candidates[1]: batch limit")
    limit.fill("4")
    limit.press("Enter")
    expect(page.get_by_text("2 candidates · 2 runs")).to_be_visible(timeout=30_000)
    settle(page)
    page.get_by_role("button", name="Launch", exact=True).dblclick(timeout=30_000)
    page.wait_for_url("**/runs?*experiment=*", timeout=60_000)
    told.experiment_id = re.findall(r"experiment=([0-9a-f-]{36})", page.url)[0]
    settle(page)
    listed = json.loads(told.cli("runs", "--json").stdout)
    told.experiments_after_two_clicks = len(listed["experiments"])
    page.close()


def watch_it_run(told: Story, browser: Browser, url: str, look: Callable[[], None]) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(f"{url}/runs?experiment={told.experiment_id}")
    expect(page.get_by_text("▶ running 1")).to_be_visible(timeout=120_000)
    told.wait(lambda: told.blocks() >= 1, "the first block")
    look()
    told.engines.append((told.under_way(), told.engine_pids()))
    page.close()  # closing the browser changes nothing of the run


def five_tabs(told: Story, browser: Browser, url: str, look: Callable[[], None]) -> None:
    names = ("tradeoff", "runs", "launch", "decide", "run")
    tabs = [browser.new_page(viewport={"width": 1280, "height": 800}) for _ in names]
    for tab, name in zip(tabs, names, strict=True):
        tab.goto(f"{url}/{name}?experiment={told.experiment_id}")
    for tab in tabs:
        settle(tab, 90_000)
    told.engines.append((told.under_way(), told.engine_pids()))
    look()
    chart = tabs[0].get_by_test_id("stVegaLiteChart").first
    chart.wait_for(timeout=int(RUN_TIMEOUT_S) * 1_000)  # the first point appears without a reload
    expect(chart).to_have_attribute("aria-label", re.compile("measured rate"), timeout=30_000)
    told.first_point_alt = chart.get_attribute("aria-label") or ""
    for tab in tabs:
        tab.close()


def card_of(page: Page) -> str:
    return page.locator(f".st-key-{address.PICKED_CARD}").inner_text()


def weigh_and_decide(told: Story, browser: Browser, url: str) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 1_400}, accept_downloads=True)
    page.goto(f"{url}/tradeoff?experiment={told.experiment_id}&candidate=batch%204")
    settle(page, 90_000)
    told.card = card_of(page)
    target = page.get_by_role("spinbutton", name=re.compile("P90 TTFT"))
    target.fill("1")  # nothing answers within a millisecond
    target.press("Enter")
    page.wait_for_url("**t_ttft_p90_ms=1*", timeout=30_000)
    expect(page.locator(f".st-key-{address.PICKED_CARD}")).to_contain_text("is held", timeout=30_000)
    told.card_with_a_moved_target = card_of(page)
    page.get_by_role("button", name="As written").click()
    page.wait_for_url(lambda found: "t_ttft_p90_ms" not in found, timeout=30_000)
    settle(page)
    page.get_by_role("link", name="Decide for this one").click()
    page.wait_for_url("**/decide?*", timeout=30_000)
    settle(page, 60_000)
    page.get_by_label("Title").fill("Ship batch 4")
    page.get_by_label("Why this candidate").fill(WHY)
    page.get_by_label("Consequences").fill("The queue is watched.")
    page.get_by_label("Who decides").fill("Ada, Grace")
    page.get_by_label("When to look again").fill("When traffic doubles")
    for reason in page.get_by_label(re.compile(r"^Why not ")).all():
        reason.fill("It holds no higher rate here.")
    page.get_by_label("Title").click()
    page.get_by_role("button", name="Review and accept").click()
    page.get_by_role("button", name="Accept as a record").click(timeout=60_000)
    page.wait_for_url("**/records?*", timeout=60_000)
    settle(page, 60_000)
    told.record_page = page.get_by_test_id("stMainBlockContainer").inner_text()
    told.json_file = download(page, told, "JSON")
    told.markdown_file = download(page, told, "Markdown")
    page.close()


def download(page: Page, told: Story, name: str) -> Path:
    with page.expect_download(timeout=30_000) as waiting:
        page.get_by_role("button", name=re.compile(name)).first.click()
    path = told.data_dir / waiting.value.suggested_filename
    waiting.value.save_as(path)
    return path


def test_two_clicks_launch_one_experiment_with_what_the_form_said(story: Story) -> None:
    assert story.experiments_after_two_clicks == 1
    arguments = {run.candidate_name: run.candidate["engine_args"]["max-num-seqs"] for run in story.of_runs()}
    assert arguments == {"batch 8": 8, "batch 4": 4}


def test_the_web_process_has_no_threads_or_children_of_its_own_while_a_run_measures(story: Story) -> None:
    assert story.children_while_measuring == [[], []]
    project = f"{PROJECT_ROOT}{os.sep}"
    environment = f"{Path(sys.prefix)}{os.sep}"
    for threads in story.threads_while_measuring:
        assert threads
        for thread in threads:
            ours = [file for file in thread["files"] if file.startswith(project) and not file.startswith(environment)]
            assert not ours or thread["name"].startswith("ScriptRunner"), thread


def test_the_run_does_not_notice_browsers_tabs_and_a_restarted_dashboard(story: Story) -> None:
    (run, engines), (later_run, later_engines) = story.engines
    assert engines
    assert run != later_run or engines == later_engines  # a slow browser may find the next run under way
    assert [(run.status, run.attempts) for run in story.of_runs()] == [("finished", 1), ("finished", 1)]


def test_the_first_point_appears_on_the_open_page(story: Story) -> None:
    assert "of which hold a measured rate" in story.first_point_alt


def test_moving_a_target_moves_the_operating_point_and_the_card_compares_with_the_baseline(story: Story) -> None:
    assert "points [" in story.card  # the pass rate's change against the baseline, with its interval
    assert "ms at " in story.card
    assert "No measured rate of batch 4 is held" in story.card_with_a_moved_target
    assert "ms at " not in story.card_with_a_moved_target


def test_the_downloaded_record_verifies_and_a_changed_byte_is_named(story: Story) -> None:
    assert story.json_file is not None
    assert story.markdown_file is not None
    good = story.cli("records", "verify", str(story.json_file), str(story.markdown_file))
    assert good.returncode == 0, good.stdout + good.stderr
    assert story.cli("records", "verify").returncode == 0
    data = story.json_file.read_bytes()
    at = data.index(b"Ship batch 4") + len(b"Ship batch ")
    changed = story.data_dir / "changed.json"
    changed.write_bytes(data[:at] + b"9" + data[at + 1 :])
    found = story.cli("records", "verify", str(changed))
    assert found.returncode == 1
    assert "record 1" in found.stdout.lower()
    assert "title" in found.stdout


def test_the_record_says_what_was_written_and_measured(story: Story) -> None:
    assert story.json_file is not None
    document = json.loads(story.json_file.read_text())["document"]
    text = json.dumps(document, ensure_ascii=False)
    assert WHY.replace('"', '\\"') in text
    assert "It holds no higher rate here." in text
    assert "batch 4" in story.record_page
    with story.session() as session:
        chosen = next(
            run for run in runs.of_experiment(session, story.experiment_id) if run.candidate_name == "batch 4"
        )
        facts = runs.facts_of(chosen)
    assert facts is not None
    assert facts.model_sha256 in text
    assert facts.vllm_version in text


def test_a_changed_byte_of_the_stored_record_is_named(story: Story) -> None:
    """Last, since it leaves the database changed: whoever can drop a trigger can change a row, and is found out."""
    with contextlib.closing(sqlite3.connect(story.data_dir / "kitedash.db")) as connection, connection:
        with pytest.raises(sqlite3.IntegrityError, match="never changed"):
            connection.execute("UPDATE decision_records SET document = replace(document, 'Ship', 'Skip')")
        connection.execute("DROP TRIGGER decision_records_no_update")
        connection.execute("UPDATE decision_records SET document = replace(document, 'Ship', 'Skip')")
    found = story.cli("records", "verify")
    assert found.returncode == 1
    assert "record 1" in found.stdout.lower()
