"""Blocks with real request tables whose percentiles are known: those of `builders.level` at the same latency."""

from __future__ import annotations

from typing import Any

import numpy as np

from kitedash.domain.results import BlockResult, Check, LevelStatus
from kitedash.measuring import request_table, timeline
from kitedash.measuring.machine_use import MachineUse

BLOCKS, REQUESTS, TOKENS_OUT = 6, 40, 20
N = BLOCKS * REQUESTS
STALLED = 3  # among eight requests
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
        server_counters={"running_max": 4.0, "block_size": 16.0},
        timeline_blob=_timeline(rows, REQUESTS / rate_per_s),
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
        "kind": "shared",
        "session": None,
        "turn": None,
        "planned_s": due_s,
        "tokens_shared": 290,
        "process": 0,
        "chunk_ms": [] if error else _chunk_ms(index, tpot_ms),
    }


def _chunk_ms(index: int, tpot_ms: float) -> list[float]:
    """Even gaps; every eighth request stalls for six gaps at its 12th token, and is as fast as the others in all."""
    gaps = np.full(TOKENS_OUT - 1, tpot_ms)
    if index % 8 == STALLED:
        gaps[:] = tpot_ms * (TOKENS_OUT - 7) / (TOKENS_OUT - 2)
        gaps[10] = 6 * tpot_ms
    return [float(moment) for moment in np.cumsum(gaps)]


def _timeline(rows: list[dict[str, Any]], duration_s: float) -> bytes:
    """A reading a second: what the table has in flight, four of them at most running; counters as requests begin."""
    samples = []
    for t in np.arange(-1.0, duration_s + 2.0):
        here = sum(row["sent_s"] <= t < row["ended_s"] for row in rows)
        begun = sum(row["sent_s"] <= t for row in rows)
        values = {
            "running": float(min(4, here)),
            "waiting": float(max(0, here - 4)),
            "kv_cache_share": min(1.0, 0.05 + 0.09 * here),
            "preemptions": 100.0 + (2.0 if t > duration_s / 2 else 0.0),
            "prefix_cache_queries": 5_000.0 + 306.0 * begun,
            "prefix_cache_hits": 4_000.0 + 288.0 * begun,
            "prompt_tokens": 5_000.0 + 306.0 * begun,
            "generation_tokens": 900.0 + TOKENS_OUT * begun,
        }
        use = MachineUse(machine_cpu_share=0.35 + 0.15 * min(4, here), engine_cpu_cores=1.6, engine_rss_gib=1.4)
        samples.append(timeline.Sample(50_000.0 + float(t), values, use))
    before = {"preemptions": 100.0, "prefix_cache_queries": 5_000.0, "prefix_cache_hits": 4_000.0}
    return timeline.encode(samples, started=50_000.0, before=before | {"prompt_tokens": 5e3, "generation_tokens": 900})
