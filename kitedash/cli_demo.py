"""`kitedash demo`: worker and dashboard under one supervisor, with the quickstart's experiment launched once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kitedash.cli_children import Child, address_of, ended_by_signal, is_healthy, require_free_port, start
from kitedash.cli_quickstart import POLL_S, Progress, Worker, launch_once, queues_of
from kitedash.domain.errors import KiteDashError
from kitedash.running.locks import FileLock
from kitedash.services.runs import runs_view
from kitedash.settings import settings

DASHBOARD_START_TIMEOUT_S = 120.0


class DemoError(KiteDashError):
    """A part of the demo did not start or did not stay."""


def demo(port: int | None = None) -> int:
    """Runs until Ctrl-C, which ends both. A second one finds the first, prints its address and returns 0."""
    config = settings()
    host, chosen = config.dashboard_host, port or config.dashboard_port
    with closing_lock(config.locks_dir / "demo.lock") as lock:
        if not lock.acquire(f"{host} {chosen}"):
            return _already_running(lock.holder())
        require_free_port(host, chosen)
        with ended_by_signal():
            _run(host, chosen)
    return 0


@contextmanager
def closing_lock(path: Path) -> Iterator[FileLock]:
    lock = FileLock(path)
    try:
        yield lock
    finally:
        lock.release()


def _run(host: str, port: int) -> None:
    worker, progress = Worker(), Progress()
    dashboard: Child | None = None
    try:
        experiment_id = launch_once()
        worker.ensure(queues_of(runs_view(experiment_id), waiting=False), progress, patience_s=0.0)
        dashboard = start("dashboard", ["dashboard", "--port", str(port)])
        _wait_until_healthy(dashboard, host, port)
        print(f"The dashboard is at {address_of(host, port)} (Ctrl-C ends it and the worker).", flush=True)
        _supervise(experiment_id, dashboard, worker, progress)
    except KeyboardInterrupt:
        print("\nStopped. What is stored stays; the next start goes on where this ended.", flush=True)
    finally:
        if dashboard is not None:
            dashboard.stop()
        worker.stop()


def _already_running(holder: str) -> int:
    host, _, port = holder.partition(" ")
    if not port.isdecimal():
        raise DemoError("Another demo is just starting; try again in a moment.")
    address, deadline = address_of(host, int(port)), time.monotonic() + DASHBOARD_START_TIMEOUT_S
    while not is_healthy(host, int(port)):
        if time.monotonic() > deadline:
            raise DemoError(f"Another demo is running, but its dashboard does not answer at {address}.")
        time.sleep(POLL_S)
    print(f"The demo is running already: the dashboard is at {address}.")
    return 0


def _wait_until_healthy(dashboard: Child, host: str, port: int) -> None:
    deadline = time.monotonic() + DASHBOARD_START_TIMEOUT_S
    while not is_healthy(host, port):
        if not dashboard.is_running:
            raise DemoError(f"The dashboard did not start: {dashboard.last_line()} (log: {dashboard.log_path}).")
        if time.monotonic() > deadline:
            raise DemoError(
                f"The dashboard did not answer within {DASHBOARD_START_TIMEOUT_S:.0f} s (log: {dashboard.log_path})."
            )
        time.sleep(0.2)


def _supervise(experiment_id: str, dashboard: Child, worker: Worker, progress: Progress) -> None:
    """Follows the quickstart, and keeps both parts up: whatever else is launched from the dashboard needs them."""
    while True:
        view = runs_view(experiment_id)
        progress.tell(view)
        if not dashboard.is_running:
            raise DemoError(f"The dashboard ended: {dashboard.last_line()} (log: {dashboard.log_path}).")
        worker.ensure(queues_of(view, waiting=False), progress)
        time.sleep(POLL_S)
