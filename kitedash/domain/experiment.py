"""The experiment: candidates x load levels x suites, one baseline, one workload, one set of targets.

These models are the schema of the YAML files in `experiments/`; each field's description is what a reader of an
error sees as "what is allowed". Reading a file, and turning pydantic's errors into sentences, is
`experiment_file.py`; expanding the matrix is `expand.py`; the allow-list of engine arguments is `engine_args.py`.
Rules that may change with a version of KiteDash or vLLM (the allow-list among them) are checked there and not
here, so that a stored experiment can always be read back.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from kitedash.domain.schema_base import Positive, broken_rule
from kitedash.domain.schema_base import Strict as Strict
from kitedash.domain.workload import Workload as Workload

ArgValue = bool | int | float | str
RatePerS = Annotated[float, Field(gt=0, le=10_000, allow_inf_nan=False)]

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._ -]{0,79}$"
CANDIDATE_NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._ +=·-]{0,79}$"  # "·" parts the names that a matrix makes


MOST_MS = 86_400_000  # a day: no target asks for more
MOST_USD = 1_000_000
SEEDS_APART = 1_000_003  # a prime, so that repeats of neighbouring seeds do not meet


class LoadPlan(Strict):
    """Which rates are offered, and in how many independent seeded blocks of what length."""

    LATER: ClassVar[frozenset[str]] = frozenset(
        {"client_processes", "ramp_s", "search", "search_precision", "search_most_blocks"}
    )

    rates_per_s: tuple[RatePerS, ...] = Field(
        min_length=3, max_length=20, description="arrival rates in requests per second, ascending, at least 3"
    )
    blocks: int = Field(6, ge=2, le=50, description="independent seeded blocks a rate")
    block_duration_s: float = Field(30.0, ge=1, le=3_600, allow_inf_nan=False, description="seconds a block")
    warm_up_s: float = Field(
        0.0, ge=0, le=600, allow_inf_nan=False, description="seconds at the head of a block that are left out"
    )
    ramp_s: float = Field(
        0.0,
        ge=0,
        le=600,
        allow_inf_nan=False,
        description="seconds over which a block's rate rises from zero, part of the warm-up",
    )
    request_timeout_s: float = Field(
        60.0, ge=1, le=3_600, allow_inf_nan=False, description="seconds after which a request has failed"
    )
    seed: int = Field(1, ge=0, le=2**31 - 1, description="seed of arrivals and prompts, the same for every candidate")
    client_processes: int | None = Field(
        None, ge=1, le=64, description="processes that send the requests; empty: as many as the rate needs"
    )
    search: bool = Field(
        False, description="whether each candidate's highest rate held is searched between and beyond the rates listed"
    )
    search_precision: float = Field(
        0.1,
        ge=0.02,
        le=1,
        allow_inf_nan=False,
        description="how far above the highest rate held the lowest one missed may lie (0.1 = 10 %)",
    )
    search_most_blocks: int = Field(
        30, ge=2, le=500, description="most blocks that the search may measure on top of those of the listed rates"
    )

    def for_repeat(self, repeat: int) -> LoadPlan:
        """The plan of one repeat: other arrivals and prompts, so that its blocks are independent of the others'."""
        return self.model_copy(update={"seed": (self.seed + repeat * SEEDS_APART) % 2**31})

    @model_validator(mode="after")
    def _rates_ascend(self) -> LoadPlan:
        if list(self.rates_per_s) != sorted(set(self.rates_per_s)):
            raise broken_rule("rates_per_s", "must be different rates in ascending order")
        if self.warm_up_s >= self.block_duration_s:
            raise broken_rule(
                "warm_up_s", f"must be below block_duration_s ({self.block_duration_s:g}), not {self.warm_up_s:g}"
            )
        if self.ramp_s > self.warm_up_s:
            raise broken_rule(
                "ramp_s", f"must be at most warm_up_s ({self.warm_up_s:g}), which is left out, not {self.ramp_s:g}"
            )
        return self


class SuiteChoice(Strict):
    """A suite by name and the non-inferiority margin written down for it (share of items, 0.05 = 5 points)."""

    name: str = Field(pattern=r"^[a-z0-9_]{1,60}$", description="name of a suite, such as kitedash_repo")
    margin: float = Field(
        0.05,
        gt=0,
        lt=1,
        allow_inf_nan=False,
        description="largest tolerated loss as a share of items (0.05 = 5 points)",
    )


class Targets(Strict):
    ttft_p90_ms: Positive = Field(le=MOST_MS, description="P90 time to first token in ms")
    cost_per_1000_requests_usd: Positive = Field(le=MOST_USD, description="deployed cost in USD per 1,000 requests")
    pass_rate: float = Field(
        gt=0, le=1, allow_inf_nan=False, description="share of the repository suite's items that pass (0.6 = 60 %)"
    )


class Guardrails(Strict):
    tpot_p90_ms: Positive = Field(le=MOST_MS, description="P90 time per output token in ms")
    error_rate: float = Field(0.01, ge=0, lt=1, allow_inf_nan=False, description="share of requests that may fail")


class MemoryPlan(Strict):
    """How far the memory stage goes up: prompt lengths and concurrencies double up to these limits."""

    most_prompt_tokens: int | None = Field(
        None, ge=16, le=1_000_000, description="longest prompt tried; empty: the engine's own limit"
    )
    most_concurrency: int | None = Field(
        None, ge=1, le=4_096, description="most requests tried at once; empty: the engine's own limit"
    )
    output_tokens: int = Field(16, ge=1, le=10_000, description="tokens of each answer in the memory stage")


class CandidateSpec(Strict):
    """A candidate as written: what differs from the experiment's shared settings."""

    name: str = Field(pattern=CANDIDATE_NAME_PATTERN, description="name of the candidate, unique in the experiment")
    model: str | None = Field(None, min_length=1, max_length=500, description="another model than the experiment's")
    engine_args: dict[str, ArgValue] = Field(default_factory=dict, description="engine arguments, over the shared ones")
    cpu_engine_args: dict[str, ArgValue] = Field(
        default_factory=dict, description="engine arguments over those above on a machine without a GPU"
    )
    environment: dict[str, str] = Field(default_factory=dict, description="environment, over the shared one")
    devices: int | None = Field(None, ge=1, le=64, description="devices that the engine spans")


class ExperimentSpec(Strict):
    """A whole experiment file. `quantization: none | fp8 | int8` among the engine arguments is KiteDash's own
    number format (a checkpoint that it makes once); every other engine argument goes by vLLM's name."""

    name: str = Field(pattern=NAME_PATTERN, description="name of the experiment")
    description: str = Field("", max_length=2_000, description="what the experiment is to decide")
    model: str = Field(
        min_length=1,
        max_length=500,
        description="the default model's name, a folder or a hub id such as Qwen/Qwen3-0.6B",
    )
    engine_args: dict[str, ArgValue] = Field(default_factory=dict, description="engine arguments of every candidate")
    environment: dict[str, str] = Field(default_factory=dict, description="environment of every candidate's engine")
    devices: int = Field(1, ge=1, le=64, description="devices of every candidate")
    candidates: tuple[CandidateSpec, ...] = Field((), max_length=64, description="candidates, one by one")
    matrix: dict[str, tuple[ArgValue, ...]] = Field(
        default_factory=dict, description="engine arguments with lists of values, every combination a candidate"
    )
    exclude: tuple[dict[str, ArgValue], ...] = Field((), max_length=256, description="combinations to leave out")
    baseline: str = Field(min_length=1, max_length=200, description="name of the candidate that the others are held to")
    workload: Workload = Field(description="the traffic: users, tokens, arrivals")
    load: LoadPlan = Field(description="the arrival rates and how long each is measured")
    suites: tuple[SuiteChoice, ...] = Field((), max_length=20, description="eval suites with their margins")
    targets: Targets = Field(description="ttft_p90_ms, cost_per_1000_requests_usd and pass_rate")
    guardrails: Guardrails = Field(description="tpot_p90_ms and error_rate")
    repeats: int = Field(1, ge=1, le=10, description="how often every candidate is measured")
    noise_floor: bool = Field(
        True, description="whether the baseline's load is measured once more at the end: the difference is noise"
    )
    memory: MemoryPlan | None = Field(None, description="the memory stage; absent: memory is not tried out")


class Candidate(Strict):
    """A candidate after expansion; once it is `on` a kind of device it is all that a worker needs to start it."""

    name: str
    model: str
    quantization: Literal["none", "fp8", "int8"] = "none"
    engine_args: dict[str, ArgValue] = Field(default_factory=dict)
    cpu_engine_args: dict[str, ArgValue] = Field(default_factory=dict)
    environment: dict[str, str] = Field(default_factory=dict)
    devices: int = 1

    def on(self, device_kind: str) -> Candidate:
        """The candidate as it runs on "cpu" or "gpu": what is stored with a run and shown, with nothing left open."""
        chosen = self.cpu_engine_args if device_kind == "cpu" else {}
        return self.model_copy(update={"engine_args": self.engine_args | chosen, "cpu_engine_args": {}})
