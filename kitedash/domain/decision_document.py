"""The decision document: what was chosen, on which evidence, and what was given up. Built once, then only read.

The document is what `canonical_json.canonical` makes of `Document`: every field below is a key of the JSON. Numbers
carry their unit in their name, and an `Estimate` its interval and sample size. `decision.py` has the rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from kitedash.domain.experiment import ArgValue, Guardrails, LoadPlan, Targets, Workload
from kitedash.domain.results import Estimate

FORMAT = 1  # of the document: a change of its keys or of how evidence is hashed takes a new number

Role = Literal["chosen", "rejected member of the front", "baseline", "other"]


@dataclass(frozen=True)
class ExperimentPart:
    """`spec_json` is the specification as it was launched, exactly the text that `spec_sha256` is the hash of."""

    id: str
    name: str
    description: str
    launched_at: datetime
    launched_by: str
    spec_sha256: str
    spec_json: str


@dataclass(frozen=True)
class TargetsPart:
    written: Targets  # in the experiment, before anything was measured
    used: Targets  # by the decision
    differ: bool
    sentence: str


@dataclass(frozen=True)
class WorkloadPart:
    """The traffic, and what follows from it: the rates that size the deployed cost."""

    given: Workload
    requests_per_day: float
    mean_rate_per_s: float
    peak_rate_per_s: float


@dataclass(frozen=True)
class RecommendationPart:
    """What KiteDash recommended when the decision was accepted. `differs`: a person chose otherwise."""

    kind: str
    candidate: str | None
    sentence: str
    settles: tuple[str, ...]
    differs: bool
    differs_sentence: str


@dataclass(frozen=True)
class PricePart:
    """USD an hour of one device; `missing` says why there is none."""

    usd_per_hour: float | None
    source: str
    date: str
    missing: str


@dataclass(frozen=True)
class CostPart:
    """USD per 1,000 requests."""

    deployed_usd: Estimate
    saturated_usd: Estimate
    replicas: int


@dataclass(frozen=True)
class NumbersPart:
    """At the highest rate held; None where there is no such rate, no price, or no answered suite."""

    rate_held_per_s: Estimate | None
    ttft_p90_ms: Estimate | None
    tpot_p90_ms: Estimate | None
    error_rate: float | None
    requests: int
    cost: CostPart | None
    pass_rate: Estimate | None


@dataclass(frozen=True)
class StatusesPart:
    """Against the targets that the decision used: meets, misses, uncertain or pending."""

    ttft_p90: str
    cost: str
    pass_rate: str
    overall: str


@dataclass(frozen=True)
class LevelPart:
    """One measured rate: the curve behind the numbers."""

    rate_per_s: float
    status: str
    held: bool
    reason: str
    requests: int
    failed: int
    ttft_p50_ms: Estimate
    ttft_p90_ms: Estimate
    ttft_p99_ms: Estimate
    tpot_p90_ms: Estimate
    error_rate: float


@dataclass(frozen=True)
class SuitePart:
    """`change` is candidate - baseline, paired, as a share of items; `margin` the largest tolerated loss."""

    name: str
    role: str
    version: str
    pass_rate: Estimate
    items: int
    passed: int
    truncated: int
    failed: int
    verdict: str
    sentence: str
    change: Estimate | None
    margin: float


@dataclass(frozen=True)
class DifferencePart:
    """The chosen candidate against this option in one number. `change` is relative, for the pass rate in shares."""

    dimension: str
    chosen: Estimate | None
    option: Estimate | None
    change: Estimate | None
    outcome: str  # of the chosen one: better, worse, equal, noise or unknown
    established: bool
    sentence: str


@dataclass(frozen=True)
class ItemsPart:
    """The items of a suite that the chosen candidate passes and this option does not (`fixed`), and the reverse."""

    suite: str
    comparable: bool
    fixed: tuple[str, ...]
    broken: tuple[str, ...]
    sentence: str


@dataclass(frozen=True)
class SettingsPart:
    """The candidate as it was queued."""

    model: str
    quantization: str
    engine_args: dict[str, ArgValue]
    environment: dict[str, str]
    devices: int


@dataclass(frozen=True)
class ServerPart:
    """What the engine and the machine said of themselves. `argv` is the command from `python` on; it holds no key."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    checkpoint: str
    model_sha256: str
    weight_dtype: str
    engine_package: str
    vllm_version: str
    torch_version: str
    device_kind: str
    device_name: str
    driver: str
    linear_kernel: str
    attention_backend: str
    kernel_note: str


@dataclass(frozen=True)
class RunEvidence:
    """A run whose results the numbers come from, and the hash of what it stored (docs/records.md)."""

    run_id: str
    sha256: str


@dataclass(frozen=True)
class Option:
    """One candidate of the experiment. `reason`: why it is not chosen, as a person wrote it. `product_reason`: what the
    numbers say against it, also against a chosen one; "" for members of the front, which lost to nothing."""

    name: str
    role: Role
    is_baseline: bool
    on_front: bool
    front_probability: float | None
    reason: str
    product_reason: str
    run_status: str
    error: str
    statuses: StatusesPart
    numbers: NumbersPart
    levels: tuple[LevelPart, ...]
    suites: tuple[SuitePart, ...]
    gives_up: tuple[DifferencePart, ...]  # the chosen one against this one; empty for all but the front and baseline
    items: tuple[ItemsPart, ...]
    settings: SettingsPart
    server: ServerPart | None  # None: no engine was ready
    price: PricePart
    evidence: tuple[RunEvidence, ...]
    settles: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Document:
    """Everything a record says. `number` and `accepted_at` are None in a draft only."""

    format: int
    kitedash_version: str
    number: int | None
    title: str
    status: Literal["accepted", "draft"]
    accepted_at: datetime | None
    accepted_by: str
    deciders: tuple[str, ...]
    consulted: tuple[str, ...]
    supersedes: int | None
    previous_sha256: str
    experiment: ExperimentPart
    baseline: str
    device_kind: str
    targets: TargetsPart
    guardrails: Guardrails
    workload: WorkloadPart
    load: LoadPlan
    recommendation: RecommendationPart
    chosen: str
    why: str
    consequences: str
    look_again: str
    options: tuple[Option, ...]
    notes: tuple[str, ...]
    evidence_revision: str
