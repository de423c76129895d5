"""View models: what a page, the command line and an export draw. Plain, complete, and free of Streamlit and SQL."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from kitedash.domain.experiment import ExperimentSpec, Guardrails, Targets
from kitedash.domain.noise import ONCE, NoiseFloor
from kitedash.domain.recommend import Recommendation as Recommendation
from kitedash.domain.results import Estimate, LevelStatus, LevelSummary, ServerFacts
from kitedash.domain.targets import Status as Status
from kitedash.services.run_views import AGAIN_IN_WORDS as AGAIN_IN_WORDS
from kitedash.services.run_views import ExperimentItem as ExperimentItem
from kitedash.services.run_views import RecentExperiments as RecentExperiments
from kitedash.services.run_views import RunItem as RunItem
from kitedash.services.run_views import RunsView as RunsView
from kitedash.services.run_views import RunView as RunView
from kitedash.services.run_views import StageView as StageView
from kitedash.services.run_views import WorkerView as WorkerView


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
    cost_usd: float | None  # at this rate, per 1,000 requests; None without a price or when nothing was answered
    deployed_usd: float | None = None  # per 1,000 requests, if each replica carried this rate at the peak


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
    cost: CostAt | None  # None when no rate is held or the device has no price: see notes
    suites: tuple[SuiteView, ...]
    pass_rate: Estimate | None  # of the repository suite
    ttft_status: Status
    cost_status: Status
    pass_rate_status: Status
    status: Status
    on_front: bool
    front_probability: float | None
    settles: str  # what would settle an uncertain status or an inconclusive verdict; "" otherwise
    settle_parts: tuple[str, ...] = ()  # `settles`, one by one
    held_rate_per_s: Estimate | None = None  # the highest rate held; low and high are what the intervals leave open
    notes: tuple[str, ...] = ()  # why a number is missing: no price for the device, no rate held, ...
    devices: int = 1
    run_ids: tuple[str, ...] = ()  # all repeats; `run_id` is the first of them

    @property
    def is_measured(self) -> bool:
        """Whether any load level of it is valid."""
        return any(level.summary.status != LevelStatus.INVALID for level in self.levels)

    @property
    def three_numbers(self) -> tuple[float, float, float] | None:
        """What the front compares: P90 TTFT at the marked point, deployed cost, pass rate. None if one is missing."""
        if self.point is None or self.cost is None or self.pass_rate is None:
            return None
        ttft, usd = self.point.summary.ttft_p90_ms.value, self.cost.deployed_usd.value
        if ttft is None or usd is None or self.pass_rate.value is None:
            return None
        return ttft, usd, self.pass_rate.value


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
    notes: tuple[str, ...] = ()  # what a reader must know of all numbers, such as: measured on a CPU
    noise: NoiseFloor = ONCE  # of P90 TTFT, P90 TPOT and cost: what is smaller is no difference
