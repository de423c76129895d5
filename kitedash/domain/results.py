"""What measuring finds: plain typed records that travel between the layers. Times in ms unless the name says else."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class RunStatus(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        return self in (RunStatus.FINISHED, RunStatus.FAILED, RunStatus.CANCELLED)


class StageStatus(StrEnum):
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"


class LevelStatus(StrEnum):
    OK = "ok"
    OVERLOADED = "overloaded"  # the number in the system keeps growing: its latencies are no steady state
    INVALID = "invalid"  # a check failed: never drawn as a result


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval. A bound of None is not established ("too few" when `note` says so)."""

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    note: str = ""
    more: int | None = None  # about so many more observations would bound it, where they are too few


@dataclass(frozen=True)
class Check:
    """One check of a block with its bound, so that a reader can see how far from failing it was."""

    name: str
    value: float | None
    low: float | None
    high: float | None
    passed: bool
    sentence: str = ""


@dataclass(frozen=True)
class BlockResult:
    """One block of one load level. `requests_blob` is Parquet (zstd) with the columns of `request_columns.py`."""

    rate_per_s: float
    block: int
    seed: int
    status: LevelStatus
    reason: str
    checks: tuple[Check, ...]
    n_requests: int
    n_failed: int
    duration_s: float
    schedule_sha256: str
    requests_blob: bytes
    server_counters: dict[str, float] = field(default_factory=dict)  # deltas of /metrics over the block; gauges as max
    timeline_blob: bytes = b""  # the server second by second, `measuring/timeline.py`; empty: not recorded


@dataclass(frozen=True)
class LevelSummary:
    """A load level over its valid blocks. Failed requests count as TTFT above any target, never as missing."""

    rate_per_s: float
    status: LevelStatus
    reason: str
    blocks: int
    n_requests: int
    n_failed: int
    ttft_p50_ms: Estimate
    ttft_p90_ms: Estimate
    ttft_p99_ms: Estimate
    tpot_p50_ms: Estimate
    tpot_p90_ms: Estimate
    tpot_p99_ms: Estimate
    e2e_p90_ms: Estimate
    error_rate: float
    delivered_rate_per_s: float
    output_tokens_per_s: float
    prefix_hit_rate: float | None
    running_max: float | None
    parts_ms: dict[str, float]  # of the requests around the TTFT P90: client, front_end, queue, prefill, decode


@dataclass(frozen=True)
class ServerFacts:
    """What the engine and the machine said of themselves when the server was ready."""

    vllm_version: str
    engine_package: str
    torch_version: str
    device_kind: str  # "cpu" or "gpu"
    device_name: str
    driver: str
    argv: tuple[str, ...]  # without the key
    environment: dict[str, str]  # what KiteDash set, secrets left out
    model_sha256: str
    checkpoint: str
    weight_dtype: str
    linear_kernel: str  # as vLLM names it; "" where it names none
    attention_backend: str
    kernel_note: str  # says so where a number format runs without native kernels
    kv_cache_tokens: int | None
    kv_cache_gib: float | None
    weights_gib: float | None
    memory_gib: float | None
    start_up_s: float
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """One item answered by one candidate. `score` in 0..1; only an untruncated, complete answer can pass."""

    item_id: str
    cluster: str
    kind: str
    text: str
    finish_reason: str
    score: float
    passed: bool
    error: str = ""
    prompt_sha256: str = ""
    reference: str = ""
    tokens_out: int | None = None


@dataclass(frozen=True)
class SuiteResult:
    """A suite over one candidate; `version` is the hash of items + scorer code: only equal versions compare."""

    suite: str
    role: str  # "repository" or "public"
    version: str
    answers: tuple[Answer, ...]
    chance: float = 0.0  # expected share of passes by guessing
