"""Whether a block may be believed: each check with its bound. And whether it was overloaded, which is another thing.

An invalid block says nothing about the candidate. An overloaded one says that the candidate can't carry the rate.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kitedash.domain.overload import growth_from, overload_in
from kitedash.domain.request_parts import front_end_ms
from kitedash.domain.results import Check, LevelStatus

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

LATENESS = "client lateness P99 (ms)"
CLIENT_CPU = "client CPU, share of a core"
LENGTH = "block length / median time in system"

PROMPT_TOKENS_SHARE = 0.01
CACHED_TOKENS_SHARE = 0.02
RESIDUAL_FLOOR_MS = -1.0
LATENESS_FLOOR_MS = 20.0
LATENESS_SHARE = 0.1
CLIENT_CPU_SHARE = 0.9
ENGINE_SUMS_SHARE = 0.01
FAILED_SHARE = 0.5
BLOCK_LENGTHS = 2.0


@dataclass(frozen=True)
class BlockFacts:
    """A block's requests as arrays (NaN: not there), and what else its checks need."""

    due_s: Floats
    sent_s: Floats
    first_token_s: Floats
    ended_s: Floats
    tokens_in: Floats
    tokens_cached: Floats
    tokens_in_expected: Floats
    queue_ms: Floats
    engine_ttft_ms: Floats
    timed_out: Bools
    errors: tuple[str, ...]  # "" where the request succeeded
    duration_s: float
    warm_up_s: float
    cached_tokens_expected: float  # mean of the answered requests
    client_cpu_share: float
    engine_queue_and_prefill_s: float | None  # delta of /metrics over the block
    engine_finished: float | None
    in_system_before: float = 0.0
    dispersion: float = 1.0  # of the arrivals: variance of their number in a long time over its mean
    kv_cache_full: bool = False  # at some moment, or a request was preempted
    cached_tokens_least: float | None = None  # where the KV cache may have dropped some (cache_room.py); None: none
    engine_answers: bool = True  # /metrics could be read after the block, its counters had not gone back

    @property
    def failed(self) -> Bools:
        return np.array([bool(error) for error in self.errors], dtype=bool)

    @property
    def ttft_ms(self) -> Floats:
        return (self.first_token_s - self.due_s) * 1e3

    @property
    def lateness_ms(self) -> Floats:
        return (self.sent_s - self.due_s) * 1e3

    @property
    def residual_ms(self) -> Floats:
        return front_end_ms(
            ttft_ms=self.ttft_ms, client_ms=self.lateness_ms, queue_ms=self.queue_ms, prefill_ms=self.engine_ttft_ms
        )


def check_block(facts: BlockFacts) -> tuple[Check, ...]:
    """All checks of a block, passed or not, in the order in which a failure should be named."""
    return (
        _between(
            "engine answers after the block", float(facts.engine_answers), 1.0, None, "the engine ended or restarted"
        ),
        _errors(facts),
        _between("idle before the block", facts.in_system_before, None, 0.0, "requests were still in the engine"),
        _sent(facts),
        _prompt_tokens(facts),
        _cached_tokens(facts),
        _lateness(facts),
        _between(
            CLIENT_CPU,
            facts.client_cpu_share,
            None,
            CLIENT_CPU_SHARE,
            "the load client was at the end of its own strength",
        ),
        _residual(facts),
        _engine_sums(facts),
        _long_enough(facts),
    )


def status_of(checks: tuple[Check, ...], overload: str) -> tuple[LevelStatus, str]:
    """Overload comes after the checks that say the block can't be believed at all, and excuses a late client, since a
    full machine starves both; a client that was at the end of its own core is never excused. `overload` is the reason
    from `overload_reason`."""
    excused = (LATENESS, LENGTH) if overload else ()
    for check in checks:
        if not check.passed and check.name not in excused:
            return LevelStatus.INVALID, f"{check.name}: {check.sentence}"
    return (LevelStatus.OVERLOADED, overload) if overload else (LevelStatus.OK, "")


def expected_cached_tokens(*, prefix_caching: bool, shared_tokens: int, block_size: int, tokens_in: int) -> int:
    """Whole blocks of the shared prefix; the last token of a prompt is always computed (vLLM v1/core)."""
    if not prefix_caching:
        return 0
    return min(shared_tokens, tokens_in - 1) // block_size * block_size


def overload_reason(facts: BlockFacts) -> str:
    """Why the block counts as overloaded, or "". A timed-out request never leaves."""
    left_s = np.where(facts.timed_out, np.inf, facts.ended_s)
    growth = growth_from(
        due_s=facts.due_s,
        left_s=left_s,
        duration_s=facts.duration_s,
        warm_up_s=facts.warm_up_s,
        dispersion=facts.dispersion,
    )
    return overload_in(growth) if growth is not None else ""


def _between(name: str, value: float | None, low: float | None, high: float | None, sentence: str) -> Check:
    passed = value is not None and (low is None or value >= low) and (high is None or value <= high)
    return Check(name, value, low, high, passed, "" if passed else f"{sentence} ({_bounds(value, low, high)})")


def _bounds(value: float | None, low: float | None, high: float | None) -> str:
    seen = "not reported" if value is None else f"{value:.4g}"
    if low is not None and high is not None:
        return f"{seen}, allowed {low:.4g} to {high:.4g}"
    return f"{seen}, allowed {'at least' if low is not None else 'at most'} {low if low is not None else high:.4g}"


def _errors(facts: BlockFacts) -> Check:
    """Time-outs are no errors here: they are what overload looks like."""
    errors = [error for error, late in zip(facts.errors, facts.timed_out, strict=True) if error and not late]
    share = len(errors) / len(facts.errors) if facts.errors else 1.0
    common = Counter(errors).most_common(1)[0][0] if errors else "no request was due"
    return _between("failed requests, share", share, None, FAILED_SHARE, f"most requests failed: {common}")


def _sent(facts: BlockFacts) -> Check:
    """Of the arrivals drawn, not of the nominal rate: the draw is random, sending is not."""
    sent = float(np.sum(np.isfinite(facts.sent_s))) / max(1, len(facts.due_s))
    return _between("requests sent, share of those due", sent, 1.0, 1.0, "not every request was sent")


def _prompt_tokens(facts: BlockFacts) -> Check:
    gaps = (np.abs(facts.tokens_in - facts.tokens_in_expected) / facts.tokens_in_expected)[~facts.failed]
    value = float(np.max(gaps)) if len(gaps) and bool(np.all(np.isfinite(gaps))) else None
    if not len(gaps):
        return Check("prompt tokens, largest deviation", None, None, PROMPT_TOKENS_SHARE, True, "no answer to check")
    return _between(
        "prompt tokens, largest deviation",
        value,
        None,
        PROMPT_TOKENS_SHARE,
        "the server counts other prompt tokens than intended",
    )


def _cached_tokens(facts: BlockFacts) -> Check:
    name, expected = "cached prompt tokens, mean", facts.cached_tokens_expected
    # Question texts may share a token by chance, which matters only where a cache block is that small.
    slack = max(1.0, CACHED_TOKENS_SHARE * expected)
    cached = facts.tokens_cached[~facts.failed]
    if not len(cached):
        return Check(name, None, expected - slack, expected + slack, True, "no answer to check")
    value = float(np.mean(cached)) if bool(np.all(np.isfinite(cached))) else None
    least = expected if facts.cached_tokens_least is None else facts.cached_tokens_least
    if value is not None and value < expected - slack and (facts.kv_cache_full or value >= least - slack):
        # What a candidate has no room for is its own doing, and stays in its latency.
        why = "was full" if facts.kv_cache_full else "had no room for all that was to be used again"
        said = f"less than the {expected:.4g} expected: the KV cache {why}"
        low = None if facts.kv_cache_full else max(0.0, least - slack)
        return Check(name, value, low, expected + slack, True, said)
    return _between(
        name, value, max(0.0, expected - slack), expected + slack, "the prefix cache did not do what was intended"
    )


def _lateness(facts: BlockFacts) -> Check:
    """Lateness is inside every TTFT (which runs from the due time), so it can't flatter; it is bounded so that it
    can't be taken for the server's. The floor is what a busy 2-core machine's scheduler costs."""
    ttft = facts.ttft_ms[np.isfinite(facts.ttft_ms)]
    bound = max(LATENESS_FLOOR_MS, LATENESS_SHARE * float(np.median(ttft)) if len(ttft) else 0.0)
    lateness = facts.lateness_ms[np.isfinite(facts.lateness_ms)]
    value = float(np.percentile(lateness, 99)) if len(lateness) else None
    return _between(LATENESS, value, None, bound, "the load client was late")


def _residual(facts: BlockFacts) -> Check:
    residual = facts.residual_ms[np.isfinite(facts.residual_ms)]
    value = float(np.min(residual)) if len(residual) else None
    name = "front end, smallest (ms)"
    if value is None:
        return Check(name, None, RESIDUAL_FLOOR_MS, None, True, "the engine reported no timings")
    return _between(name, value, RESIDUAL_FLOOR_MS, None, "the parts exceed the whole")


def _engine_sums(facts: BlockFacts) -> Check:
    """The engine's timings per request add up to its own counters over the block."""
    name = "queue + prefill, requests / engine's counters"
    low, high = 1 - ENGINE_SUMS_SHARE, 1 + ENGINE_SUMS_SHARE
    timed = facts.queue_ms + facts.engine_ttft_ms
    total_s = facts.engine_queue_and_prefill_s
    if total_s is None or bool(np.any(facts.failed)) or not bool(np.all(np.isfinite(timed))):
        return Check(name, None, low, high, True, "not comparable: a request failed or has no engine timings")
    if facts.engine_finished != len(timed):
        return _between(
            name, None, low, high, f"the engine finished {facts.engine_finished} requests, the client {len(timed)}"
        )
    return _between(name, float(np.sum(timed)) / 1e3 / total_s if total_s else 1.0, low, high, "they differ")


def _long_enough(facts: BlockFacts) -> Check:
    """A block that ends before its first half is answered shows how the engine fills up, not how it serves."""
    if not len(facts.due_s):
        return Check(LENGTH, None, BLOCK_LENGTHS, None, True, "no request to check")
    took = float(np.median(np.where(facts.timed_out, np.inf, facts.ended_s) - facts.due_s))
    if not math.isfinite(took):  # no length would do, and the time-outs count as failed requests already
        return Check(LENGTH, None, BLOCK_LENGTHS, None, True, "most requests timed out")
    return _between(
        LENGTH,
        facts.duration_s / took if took > 0 else BLOCK_LENGTHS,
        BLOCK_LENGTHS,
        None,
        f"requests take {took:.1f} s, too long for a block of {facts.duration_s:g} s; raise load.block_duration_s",
    )
