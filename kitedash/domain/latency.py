"""Latency of a load level: percentiles over its blocks, the parts of the slow requests, and whether a rate is held."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kitedash.domain.experiment import Guardrails, Targets
from kitedash.domain.quantile import quantile_interval as quantile_interval  # part of this module's interface
from kitedash.domain.request_parts import parts_around
from kitedash.domain.results import LevelStatus, LevelSummary

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class BlockSample:
    """The requests of one block after the warm-up, as arrays over requests. Times in ms.

    `ttft_ms` and `e2e_ms` are +inf where the request failed. `tpot_ms` is NaN where it failed or has one token.
    Parts are NaN where they are not known.
    """

    ttft_ms: Floats
    tpot_ms: Floats
    e2e_ms: Floats
    client_ms: Floats
    front_end_ms: Floats
    queue_ms: Floats
    prefill_ms: Floats
    decode_ms: Floats
    tokens_in: Floats
    tokens_cached: Floats
    sent: int
    window_s: float  # measured part of the block
    tokens_out_in_window: float


def summarize(
    blocks: Sequence[BlockSample],
    *,
    rate_per_s: float,
    status: LevelStatus,
    reason: str,
    running_max: float | None,
) -> LevelSummary:
    """A level over its blocks that count. TTFT and E2E over all requests (failed: +inf), TPOT over the successful."""
    ttft = [block.ttft_ms for block in blocks]
    tpot = [block.tpot_ms[np.isfinite(block.tpot_ms)] for block in blocks]
    n = sum(len(block) for block in ttft)
    failed = sum(int(np.sum(~np.isfinite(block))) for block in ttft)
    window_s = sum(block.window_s for block in blocks)
    tokens_in = sum(float(np.nansum(block.tokens_in)) for block in blocks)
    known = any(bool(np.any(np.isfinite(block.tokens_cached))) for block in blocks)
    cached = sum(float(np.nansum(block.tokens_cached)) for block in blocks)
    return LevelSummary(
        rate_per_s=rate_per_s,
        status=status,
        reason=reason,
        blocks=len(blocks),
        n_requests=n,
        n_failed=failed,
        ttft_p50_ms=quantile_interval(ttft, 0.5),
        ttft_p90_ms=quantile_interval(ttft, 0.9),
        ttft_p99_ms=quantile_interval(ttft, 0.99),
        tpot_p50_ms=quantile_interval(tpot, 0.5),
        tpot_p90_ms=quantile_interval(tpot, 0.9),
        tpot_p99_ms=quantile_interval(tpot, 0.99),
        e2e_p90_ms=quantile_interval([block.e2e_ms for block in blocks], 0.9),
        error_rate=failed / n if n else 1.0,
        delivered_rate_per_s=sum(block.sent for block in blocks) / window_s if window_s else 0.0,
        output_tokens_per_s=sum(block.tokens_out_in_window for block in blocks) / window_s if window_s else 0.0,
        prefix_hit_rate=cached / tokens_in if known and tokens_in else None,
        running_max=running_max,
        parts_ms=parts_around(blocks),
    )


def is_held(summary: LevelSummary, targets: Targets, guardrails: Guardrails) -> tuple[bool, str]:
    """(held, the first condition that failed, with its numbers; "" when held).

    An invalid level and an overloaded one come first, since their latencies mean nothing; then P90 TTFT, P90 TPOT,
    error rate. By point estimates: whether a target is met with confidence is the target's status, another question.
    """
    if summary.status is not LevelStatus.OK:
        return False, f"{summary.status.value}: {summary.reason}"
    ttft, tpot = summary.ttft_p90_ms.value, summary.tpot_p90_ms.value
    if ttft is None:
        return False, f"P90 TTFT can't be stated ({summary.ttft_p90_ms.note}), target {targets.ttft_p90_ms:g} ms"
    if ttft > targets.ttft_p90_ms:
        return False, f"P90 TTFT {ttft:.0f} ms, target {targets.ttft_p90_ms:g} ms"
    if tpot is not None and tpot > guardrails.tpot_p90_ms:
        return False, f"P90 TPOT {tpot:.1f} ms, guardrail {guardrails.tpot_p90_ms:g} ms"
    if summary.error_rate > guardrails.error_rate:
        share = f"{summary.n_failed} of {summary.n_requests} requests failed"
        return False, f"error rate {summary.error_rate:.1%} ({share}), guardrail {guardrails.error_rate:.1%}"
    return True, ""
