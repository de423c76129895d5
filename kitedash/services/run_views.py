"""View models of runs and workers, apart from those of results: listing runs must not wait for statistics to load."""

from __future__ import annotations

from dataclasses import astuple, dataclass, field
from datetime import datetime

from kitedash.domain.results import ServerFacts
from kitedash.domain.run_plan import AGAIN, MEASURED
from kitedash.domain.run_time import Minutes


@dataclass(frozen=True)
class StageView:
    name: str
    status: str
    done: int
    total: int
    note: str
    executions: int
    started_at: datetime
    finished_at: datetime | None


AGAIN_IN_WORDS = "baseline, measured again (noise floor)"


def title_of(candidate_name: str, *, is_baseline: bool, purpose: str) -> str:
    if purpose == AGAIN:
        return f"{candidate_name} (baseline again)"
    return f"{candidate_name} (baseline)" if is_baseline else candidate_name


@dataclass(frozen=True)
class RunView:
    id: str
    experiment_id: str
    experiment_name: str
    candidate_name: str
    is_baseline: bool
    status: str
    error: str
    attempts: int
    worker: str
    queue: str
    queue_position: int | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    stages: tuple[StageView, ...]
    facts: ServerFacts | None
    log_tail: str = ""
    cancelling: bool = False  # running, and told to stop
    remaining: Minutes | None = None  # until it ends, of one that runs or waits; None where too little is known
    remaining_at_least: float | None = None  # minutes: the known part where `remaining` is None
    retry_of: str | None = None  # the run that this one replaces
    retried_by: str | None = None  # the run that replaces this one: it counts no more
    can_retry: bool = False
    retry_refusal: str = ""  # why not, where it can't
    invalid_levels: tuple[str, ...] = ()  # a sentence for each rate that gave no result
    repeat: int = 0
    purpose: str = MEASURED

    @property
    def is_again(self) -> bool:
        """Whether it only measures the baseline's load once more, for the noise floor."""
        return self.purpose == AGAIN

    @property
    def title(self) -> str:
        """The candidate's name, and what this run is of the experiment."""
        return title_of(self.candidate_name, is_baseline=self.is_baseline, purpose=self.purpose)


@dataclass(frozen=True)
class RunItem:
    """A row of the list of an experiment's runs."""

    id: str
    candidate_name: str
    status: str
    repeat: int
    retried_by: str | None
    title: str = ""  # as of a `RunView`


@dataclass(frozen=True)
class WorkerView:
    slot: str
    host: str
    pid: int
    queue: str
    device_name: str
    alive: bool
    heartbeat_at: datetime


@dataclass(frozen=True)
class ExperimentItem:
    """A row of the list of experiments."""

    id: str
    name: str
    created_at: datetime
    runs: int
    finished: int
    failed: int
    active: int


@dataclass(frozen=True)
class RecentExperiments:
    """The newest first, and the one that is looked at; `chosen` is None while nothing is stored."""

    items: tuple[ExperimentItem, ...]
    chosen: str | None


@dataclass(frozen=True)
class RunsView:
    experiments: tuple[ExperimentItem, ...]
    experiment_id: str | None
    runs: tuple[RunView, ...]
    workers: tuple[WorkerView, ...]
    warnings: tuple[str, ...] = field(default=())  # such as: no worker alive serves queue gpu-2

    @property
    def current_runs(self) -> tuple[RunView, ...]:
        """Those that count: without the ones that were retried."""
        return tuple(run for run in self.runs if run.retried_by is None)

    @property
    def active_runs(self) -> tuple[RunView, ...]:
        """Those that wait or go on, without the ones that are being stopped."""
        return tuple(run for run in self.current_runs if run.status in ("queued", "running") and not run.cancelling)

    @property
    def all_over(self) -> Minutes | None:
        """Until the last of the active runs ends, each bound by itself: the one that most likely ends last need not
        be the one that may end latest. None where nothing is known of one of them, or none is active."""
        left = [run.remaining for run in self.active_runs]
        known = [one for one in left if one is not None]
        if not known or len(known) < len(left):
            return None
        return Minutes(*(max(bounds) for bounds in zip(*map(astuple, known), strict=True)))
