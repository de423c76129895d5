"""`kitedash quickstart`: the example experiment, launched once, followed to its end, and its table."""

from __future__ import annotations

import sys
import time
from collections.abc import Set
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from kitedash.cli_children import Child, ended_by_signal, start
from kitedash.cli_files import read_text
from kitedash.cli_text import duration, one_line
from kitedash.domain.errors import KiteDashError
from kitedash.domain.experiment import ExperimentSpec
from kitedash.domain.experiment_file import parse_experiment
from kitedash.services.actor import LOCAL
from kitedash.services.run_views import RunsView, RunView
from kitedash.services.runs import runs_view, served_queues
from kitedash.settings import PROJECT_ROOT

FILE = PROJECT_ROOT / "experiments" / "quickstart.yaml"
POLL_S = 1.0
LINE_EVERY_S = 10.0  # at most one line a run for mere progress within a stage
UNSERVED_S = 20.0  # how long a queue may be without a live worker before one is started
MOST_RESTARTS = 3
ENDED_S = 3.0  # after the child has ended: another worker may have been there first, and is about to say so
FINAL = ("finished", "failed", "cancelled")


class WorkerLostError(KiteDashError):
    """The worker that was to do the runs has ended."""


def read_experiment(path: Path) -> ExperimentSpec:
    """The experiment in a file. Raises InvalidInput, also where the file can't be read."""
    return parse_experiment(read_text(path), source=str(path))


def launch_once() -> str:
    """The quickstart's experiment id: launched now, or before."""
    from kitedash.services.launch import launch

    return launch(read_experiment(FILE), LOCAL, once=True, leave_out=True)


@dataclass
class Progress:
    """Says what changed since it was last told, one line each, with the time since it was made."""

    began: float = field(default_factory=time.monotonic)
    _said: dict[str, tuple[object, float]] = field(default_factory=dict)

    def tell(self, view: RunsView) -> None:
        for number, run in enumerate(view.current_runs, start=1):
            if run.status == "queued" and run.id not in self._said:
                continue
            stage = run.stages[-1] if run.stages else None
            state = (run.status, run.cancelling, stage and (stage.name, stage.status))
            before, said_at = self._said.get(run.id, (None, 0.0))
            now = time.monotonic()
            if state == before and (run.status in FINAL or now - said_at < LINE_EVERY_S):
                continue
            self._said[run.id] = (state, now)
            self.say(f"{number}/{len(view.current_runs)} {_name(run)}: {_what(run)}")

    def say(self, text: str) -> None:
        span = duration(timedelta(seconds=time.monotonic() - self.began))
        print(f"[{span:>5}] {text}", file=sys.stderr, flush=True)


def _name(run: RunView) -> str:
    return f"{run.candidate_name} again" if run.is_again else run.candidate_name


def _what(run: RunView) -> str:
    if run.status != "running" or not run.stages:
        return f"{run.status}{': ' + one_line(run.error, 500) if run.error else ''}"
    stage = run.stages[-1]
    counts = f" {stage.done}/{stage.total}" if stage.total else ""
    return f"{stage.name}{counts}{', ' + one_line(stage.note) if stage.note else ''}"


@dataclass
class Worker:
    """Sees to it that queues are served: by a worker that is there, else by a child of this process."""

    child: Child | None = None
    _restarts: int = 0
    _unserved_since: float | None = None

    def ensure(self, queues: Set[str], progress: Progress, *, patience_s: float = UNSERVED_S) -> None:
        """Starts a child where one of the queues has been without a live worker for `patience_s`.

        Raises WorkerLostError where the child ended and nobody else serves the queues.
        """
        if self.child is not None and not self.child.is_running and self._may_restart():
            progress.say(f"the worker ended with code {self.child.process.returncode} and is started again")
            self._restarts += 1
            self._start(progress)
        if not queues - served_queues():
            self._unserved_since = None
            return
        now = time.monotonic()
        self._unserved_since = self._unserved_since or now
        ended = self.child is not None and not self.child.is_running
        if now - self._unserved_since < (ENDED_S if ended else patience_s):
            return
        if self.child is None:
            self._start(progress)
        elif ended:
            raise WorkerLostError(
                f"The worker ended with code {self.child.process.returncode}: {one_line(self.child.last_line(), 300)} "
                f"(log: {self.child.log_path})."
            )

    def _may_restart(self) -> bool:
        """Not where it ended by itself, as it does with a reason that it would have again."""
        return self.child is not None and self.child.process.returncode < 0 and self._restarts < MOST_RESTARTS

    def _start(self, progress: Progress) -> None:
        self.child = start("worker", ["worker"])
        self._unserved_since = None  # it needs a moment before its first heartbeat
        progress.say(f"started a worker (log: {self.child.log_path})")

    def stop(self) -> None:
        if self.child is not None:
            self.child.stop()


def queues_of(view: RunsView, *, waiting: bool) -> frozenset[str]:
    """The queues of the runs; `waiting`: of those that are not over."""
    return frozenset(run.queue for run in view.current_runs if not waiting or run.status not in FINAL)


def follow(experiment_id: str) -> RunsView:
    """Waits until every run is over, and says what happens on standard error. Starts a worker where none serves."""
    progress, worker = Progress(), Worker()
    view = runs_view(experiment_id)
    if all(run.status in FINAL for run in view.current_runs):
        return view
    try:
        worker.ensure(queues_of(view, waiting=True), progress, patience_s=0.0)
        while any(run.status not in FINAL for run in view.current_runs):
            progress.tell(view)
            time.sleep(POLL_S)
            view = runs_view(experiment_id)
            worker.ensure(queues_of(view, waiting=True), progress)
        progress.tell(view)
    finally:
        worker.stop()
    return view


def quickstart(*, as_json: bool) -> int:
    """Exit status: 0 where every run is over and at least one finished (one that failed for a reason of its own, such
    as a number format that the device lacks, is a result too); 1 where none finished; 130 after Ctrl-C.
    """
    with ended_by_signal():
        try:
            experiment_id = launch_once()
            view = follow(experiment_id)
        except KeyboardInterrupt:
            print("Stopped. What is stored stays; `kitedash quickstart` goes on where this ended.", file=sys.stderr)
            return 130
    print_result(experiment_id, as_json=as_json)
    for run in view.current_runs:
        if run.status != "finished":
            print(f"{_name(run)} {run.status}: {one_line(run.error, 500)}", file=sys.stderr)
    return 0 if any(run.status == "finished" for run in view.current_runs) else 1


def print_result(experiment_id: str, *, as_json: bool) -> None:
    from kitedash.services.export import as_json as to_json
    from kitedash.services.table import render
    from kitedash.services.tradeoff import tradeoff_view

    view = tradeoff_view(experiment_id)
    print(to_json(view) if as_json else render(view), flush=True)
