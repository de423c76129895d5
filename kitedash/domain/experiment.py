"""The experiment: candidates x load levels x suites, one baseline, one workload, one set of targets.

These models are the schema of the YAML files in `experiments/`. Reading a file, and turning pydantic's
errors into sentences, is `experiment_file.py`; expanding the matrix is `expand.py`; the allow-list of engine
arguments is `engine_args.py`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

ArgValue = bool | int | float | str
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Strict(BaseModel):
    """Frozen, and refuses keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Workload(Strict):
    """The traffic that the deployment must carry; `requests_per_day` sizes the deployed cost."""

    users: Annotated[int, Field(ge=1)] = 10_000
    requests_per_user_per_day: Positive = 20
    peak_factor: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 5.0
    input_tokens: Annotated[int, Field(ge=8, le=1_000_000)] = 6_000
    shared_prefix_tokens: Annotated[int, Field(ge=0)] = 5_700
    output_tokens: Annotated[int, Field(ge=1, le=100_000)] = 400
    arrivals: Literal["poisson", "constant"] = "poisson"
    spare_replicas: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _prefix_leaves_room(self) -> Workload:
        if self.shared_prefix_tokens > self.input_tokens - 4:
            raise ValueError("shared_prefix_tokens must be at least 4 below input_tokens, so that each question is unique")
        return self

    @property
    def requests_per_day(self) -> float:
        return self.users * self.requests_per_user_per_day

    @property
    def mean_rate_per_s(self) -> float:
        return self.requests_per_day / 86_400

    @property
    def peak_rate_per_s(self) -> float:
        return self.mean_rate_per_s * self.peak_factor


class LoadPlan(Strict):
    """Which rates are offered, and in how many independent seeded blocks of what length."""

    rates_per_s: Annotated[tuple[Positive, ...], Field(min_length=3, max_length=20)]
    blocks: Annotated[int, Field(ge=2, le=50)] = 6
    block_duration_s: Annotated[float, Field(ge=1, le=3_600)] = 30.0
    warm_up_s: Annotated[float, Field(ge=0, le=600)] = 0.0
    request_timeout_s: Annotated[float, Field(ge=1, le=3_600)] = 60.0
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 1

    @model_validator(mode="after")
    def _rates_ascend(self) -> LoadPlan:
        if list(self.rates_per_s) != sorted(set(self.rates_per_s)):
            raise ValueError("rates_per_s must be different and in ascending order")
        if self.warm_up_s >= self.block_duration_s:
            raise ValueError("warm_up_s must be below block_duration_s")
        return self


class SuiteChoice(Strict):
    """A suite by name and the non-inferiority margin written down for it (share of items, 0.05 = 5 points)."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9_]{1,60}$")]
    margin: Annotated[float, Field(gt=0, lt=1)] = 0.05


class Targets(Strict):
    ttft_p90_ms: Positive
    cost_per_1000_requests_usd: Positive
    pass_rate: Annotated[float, Field(gt=0, le=1)]


class Guardrails(Strict):
    tpot_p90_ms: Positive
    error_rate: Annotated[float, Field(ge=0, lt=1)] = 0.01


class CandidateSpec(Strict):
    """A candidate as written: what differs from the experiment's shared settings."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._ +=-]{0,79}$")]
    model: str | None = None
    engine_args: dict[str, ArgValue] = Field(default_factory=dict)
    environment: dict[str, str] = Field(default_factory=dict)
    devices: Annotated[int, Field(ge=1, le=64)] | None = None


class ExperimentSpec(Strict):
    """A whole experiment file. `quantization: none | fp8 | int8` among the engine arguments is KiteDash's own
    number format (a checkpoint that it makes once); every other engine argument goes by vLLM's name."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._ -]{0,79}$")]
    description: Annotated[str, Field(max_length=2_000)] = ""
    model: Annotated[str, Field(min_length=1, max_length=500)]
    engine_args: dict[str, ArgValue] = Field(default_factory=dict)
    environment: dict[str, str] = Field(default_factory=dict)
    devices: Annotated[int, Field(ge=1, le=64)] = 1
    candidates: tuple[CandidateSpec, ...] = ()
    matrix: dict[str, tuple[ArgValue, ...]] = Field(default_factory=dict)
    exclude: tuple[dict[str, ArgValue], ...] = ()
    baseline: str
    workload: Workload
    load: LoadPlan
    suites: tuple[SuiteChoice, ...] = ()
    targets: Targets
    guardrails: Guardrails
    repeats: Annotated[int, Field(ge=1, le=10)] = 1


class Candidate(Strict):
    """A candidate after expansion: complete, stored with its run, and all that a worker needs to start it."""

    name: str
    model: str
    quantization: Literal["none", "fp8", "int8"] = "none"
    engine_args: dict[str, ArgValue] = Field(default_factory=dict)
    environment: dict[str, str] = Field(default_factory=dict)
    devices: int = 1
