"""View models of runs and workers, apart from those of results: listing runs must not wait for statistics to load."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from kitedash.domain.results import ServerFacts


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
class RunsView:
    experiments: tuple[ExperimentItem, ...]
    experiment_id: str | None
    runs: tuple[RunView, ...]
    workers: tuple[WorkerView, ...]
    warnings: tuple[str, ...] = field(default=())  # such as: no worker alive serves queue gpu-2
