"""Blocks with real request tables whose percentiles are known: those of `builders.level` at the same latency."""

from __future__ import annotations

from typing import Any

import numpy as np

from kitedash.domain.results import BlockResult, Check, LevelStatus
from kitedash.measuring import request_table

BLOCKS, REQUESTS, TOKENS_OUT = 6, 40, 20
N = BLOCKS * REQUESTS
# Ranks of P50, P90 and P99 among 240 requests: 120, 216 and 238.
_RANKS = (0, 120, 216, 238, 240)
_TTFT = (0.2, 0.6, 1.0, 1.6, 1.7)  # times the P90
_TPOT_MS = (20, 30, 42, 70, 72)
LATE = Check("client lateness P99 (ms)", 31.0, None, 20.0, False, "the load client was late (31, allowed at most 20)")
FINE = (
    Check("idle before the block", 0.0, None, 0.0, True),
    Check("requests sent, share of those due", 1.0, 1.0, 1.0, True),
    Check("client lateness P99 (ms)", 1.7, None, 20.0, True),
)


def blocks(rate_per_s: float, ttft_p90_ms: float, status: LevelStatus, *, failed: int = 0) -> list[BlockResult]:
    """Six blocks of 40 requests. The `failed` slowest of each block failed."""
    ranks = np.arange(1, N + 1)
    ttft_ms = np.interp(ranks, _RANKS, _TTFT) * ttft_p90_ms
    tpot_ms = np.interp(ranks, _RANKS, _TPOT_MS)
    found = []
    for block in range(BLOCKS):
        rows = [
            _request(i, i / rate_per_s, ttft_ms[k], tpot_ms[k], error="timed out" if i >= REQUESTS - failed else "")
            for i, k in enumerate(range(block, N, BLOCKS))
        ]
        found.append(_block(rate_per_s, block, rows, status))
    return found


def invalid_block(rate_per_s: float, block: int = BLOCKS) -> BlockResult:
    """A block whose requests must not count anywhere: they took 100 s."""
    rows = [_request(i, i / rate_per_s, 100_000.0, 1_000.0) for i in range(REQUESTS)]
    return _block(rate_per_s, block, rows, LevelStatus.INVALID)


def _block(rate_per_s: float, block: int, rows: list[dict[str, Any]], status: LevelStatus) -> BlockResult:
    invalid = status is LevelStatus.INVALID
    reason = {LevelStatus.INVALID: f"{LATE.name}: {LATE.sentence}", LevelStatus.OVERLOADED: "the queue kept growing"}
    return BlockResult(
        rate_per_s=rate_per_s,
        block=block,
        seed=1,
        status=status,
        reason=reason.get(status, ""),
        checks=(*FINE[:2], LATE) if invalid else FINE,
        n_requests=len(rows),
        n_failed=sum(bool(row["error"]) for row in rows),
        duration_s=REQUESTS / rate_per_s,
        schedule_sha256=f"{block:064x}",
        requests_blob=request_table.encode(rows),
        server_counters={"running_max": 4.0},
    )


def _request(index: int, due_s: float, ttft_ms: float, tpot_ms: float, error: str = "") -> dict[str, Any]:
    first_s = due_s + ttft_ms / 1e3
    last_s = first_s + tpot_ms * (TOKENS_OUT - 1) / 1e3
    return {
        "index": index,
        "due_s": due_s,
        "sent_s": due_s + 0.001,
        "first_byte_s": first_s,
        "first_token_s": first_s,
        "last_token_s": last_s,
        "ended_s": last_s,
        "tokens_in": 306,
        "tokens_cached": 288,
        "tokens_out": TOKENS_OUT,
        "tokens_in_expected": 306,
        "tokens_out_expected": TOKENS_OUT,
        "chunks": TOKENS_OUT,
        "queue_time_ms": 0.3 * ttft_ms,
        "engine_ttft_ms": 0.6 * ttft_ms,
        "generation_time_ms": (last_s - first_s) * 1e3,
        "finish_reason": "" if error else "length",
        "http_status": 200,
        "timed_out": bool(error),
        "error": error,
    }
