"""A real dashboard in its own process and a real browser, for the browser tests and for screenshots."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from setup.steps import browser_path

ROOT = Path(__file__).resolve().parents[2]
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--force-color-profile=srgb"]


@contextlib.contextmanager
def open_browser() -> Iterator[Browser]:
    path = browser_path()  # playwright's own builds are not used, so nothing is downloaded
    assert path is not None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def dashboard(environment: Mapping[str, str] | None = None, *, root: Path = ROOT) -> Iterator[str]:
    """A fresh server (`streamlit run app.py` in `root`) that has served nothing yet; yields its address."""
    with server([sys.executable, "-m", "streamlit", "run", "app.py"], environment, root=root) as (url, _):
        yield url


@contextlib.contextmanager
def server(
    start: Sequence[str], environment: Mapping[str, str] | None = None, *, root: Path = ROOT
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """As `dashboard`, started by another command, which Streamlit's options follow; yields the process too."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [*start, "--server.port", str(port)]
    command += ["--server.address", "127.0.0.1", "--server.headless", "true", "--server.fileWatcherType", "none"]
    process = subprocess.Popen(
        command,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root), **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        _wait_until_healthy(process, port)
        yield f"http://127.0.0.1:{port}", process
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def settle(page: Page, timeout_ms: float = 30_000) -> None:
    """Waits until the page's script has run and its charts are drawn."""
    page.wait_for_selector("[data-testid=stMainBlockContainer]", timeout=timeout_ms)
    page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]", timeout=timeout_ms)
    page.wait_for_timeout(1_200)  # vega draws and the grid lays out after the script has ended


def _wait_until_healthy(process: subprocess.Popen[str], port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the dashboard ended at its start: {process.stdout.read() if process.stdout else ''}")
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=1) as reply,
        ):
            if reply.status == 200:
                return
        time.sleep(0.2)
    raise RuntimeError("the dashboard did not answer within 60 s")
