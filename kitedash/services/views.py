"""View models: what a page, the command line and an export draw. Plain, complete, and free of Streamlit and SQL."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from kitedash.domain.experiment import ExperimentSpec, Guardrails, Targets
from kitedash.domain.results import Estimate, LevelSummary, ServerFacts


class Status(StrEnum):
    """Of a target, and of a candidate: any miss -> misses; all meet -> meets; else uncertain."""

    MEETS = "meets"
    MISSES = "misses"
    UNCERTAIN = "uncertain"
    PENDING = "pending"  # not measured yet: the run is under way, or it failed


@dataclass(frozen=True)
class CostAt:
    """USD per 1,000 requests. `deployed` is what the target is on; `replicas` carries the peak."""

    saturated_usd: Estimate
    deployed_usd: Estimate
    replicas: int
    price_usd_per_hour: float
    price_source: str
    price_date: str


@dataclass(frozen=True)
class LevelPoint:
    """One measured rate of a candidate: a point of its curve."""

    summary: LevelSummary
    held: bool
    held_reason: str  # the first condition that failed; "" when held
    cost_usd: float  # at this rate, per 1,000 requests


@dataclass(frozen=True)
class SuiteView:
    name: str
    role: str
    version: str
    pass_rate: Estimate
    n_items: int
    n_passed: int
    n_truncated: int
    n_failed: int
    verdict: str  # pass | fail | inconclusive | uninformative | baseline | pending
    verdict_sentence: str
    change: Estimate | None  # candidate - baseline, paired
    margin: float
    items_needed: int | None  # about how many items would settle an inconclusive verdict


@dataclass(frozen=True)
class CandidateView:
    run_id: str
    name: str
    run_status: str
    error: str
    is_baseline: bool
    facts: ServerFacts | None
    levels: tuple[LevelPoint, ...]
    point: LevelPoint | None  # the marked point: the highest rate held
    cost: CostAt | None  # None when no rate is held
    suites: tuple[SuiteView, ...]
    pass_rate: Estimate | None  # of the repository suite
    ttft_status: Status
    cost_status: Status
    pass_rate_status: Status
    status: Status
    on_front: bool
    front_probability: float | None
    settles: str  # what would settle an uncertain status or an inconclusive verdict; "" otherwise


@dataclass(frozen=True)
class Recommendation:
    candidate: str | None
    established: bool
    sentence: str
    settles: tuple[str, ...] = ()


@dataclass(frozen=True)
class TradeoffView:
    experiment_id: str
    name: str
    created_at: datetime
    spec: ExperimentSpec
    targets: Targets  # as adjusted by the viewer; spec.targets is what was written down
    guardrails: Guardrails
    candidates: tuple[CandidateView, ...]
    recommendation: Recommendation
    device_kind: str  # "cpu", "gpu" or "" while nothing ran
    runs_active: int
    revision: str  # changes with every stored result: a cache key


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
