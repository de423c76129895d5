"""From stored blocks to a load level: opens the blobs, sorts blocks by their checks, hands arrays to domain/latency."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from kitedash.domain.latency import BlockSample, summarize
from kitedash.domain.overload import Growth, growth_from, overload_together
from kitedash.domain.request_parts import front_end_ms
from kitedash.domain.results import BlockResult, LevelStatus, LevelSummary
from kitedash.measuring.request_table import decode

Floats = npt.NDArray[np.float64]


def summarize_level(blocks: Sequence[BlockResult], warm_up_s: float, dispersion: float = 1.0) -> LevelSummary:
    """One level from all its blocks. Invalid blocks are left out and named; a level without a valid block is INVALID.

    OVERLOADED where half of the valid blocks or more are, or where all of them together show it (what one short block
    can't). `dispersion` is that of the arrivals where a block does not say it itself.
    Raises ValueError on no blocks or on blocks of several rates.
    """
    rates = {block.rate_per_s for block in blocks}
    if len(rates) != 1:
        raise ValueError("a level has blocks of one rate")
    valid = [block for block in blocks if block.status is not LevelStatus.INVALID]
    frames = [decode(block.requests_blob) for block in valid]
    status, reason = _status(blocks, valid, frames, warm_up_s, dispersion)
    running = [block.server_counters["running_max"] for block in valid if "running_max" in block.server_counters]
    return summarize(
        [sample(frame, block.duration_s, warm_up_s) for frame, block in zip(frames, valid, strict=True)],
        rate_per_s=rates.pop(),
        status=status,
        reason=reason,
        running_max=max(running) if running else None,
    )


def _status(
    blocks: Sequence[BlockResult],
    valid: Sequence[BlockResult],
    frames: Sequence[pd.DataFrame],
    warm_up_s: float,
    dispersion: float,
) -> tuple[LevelStatus, str]:
    invalid = [block.reason for block in blocks if block.status is LevelStatus.INVALID]
    named = (
        f"{len(invalid)} of {len(blocks)} blocks invalid: {Counter(invalid).most_common(1)[0][0]}" if invalid else ""
    )
    if not valid:
        return LevelStatus.INVALID, named
    if not any(bool((frame["due_s"] >= warm_up_s).any()) for frame in frames):
        return LevelStatus.INVALID, "no request was due after the warm-up; raise the rate or load.block_duration_s"
    over = [block.reason for block in valid if block.status is LevelStatus.OVERLOADED]
    if 2 * len(over) >= len(valid):
        said = f"{len(over)} of {len(valid)} blocks overloaded; {over[0]}"
        return LevelStatus.OVERLOADED, "; ".join(part for part in (said, named) if part)
    grown = [
        _growth(frame, block.duration_s, warm_up_s, block.server_counters.get("arrivals_dispersion", dispersion))
        for frame, block in zip(frames, valid, strict=True)
    ]
    if together := overload_together([growth for growth in grown if growth is not None]):
        return LevelStatus.OVERLOADED, "; ".join(part for part in (together, named) if part)
    return LevelStatus.OK, named


def _growth(frame: pd.DataFrame, duration_s: float, warm_up_s: float, dispersion: float) -> Growth | None:
    return growth_from(
        due_s=frame["due_s"].to_numpy(float),
        left_s=np.where(frame["timed_out"].to_numpy(bool), np.inf, frame["ended_s"].to_numpy(float)),
        duration_s=duration_s,
        warm_up_s=warm_up_s,
        dispersion=dispersion,
    )


def sample(frame: pd.DataFrame, duration_s: float, warm_up_s: float) -> BlockSample:
    """The requests of a block (as `decode` gives them) that count: those due in the warm-up are cut, whenever they
    ended; those that ended in the drain stay."""
    kept = frame[frame["due_s"] >= warm_up_s]
    failed = kept["error"].to_numpy(object) != ""

    def column(name: str) -> Floats:
        values: Floats = kept[name].to_numpy(dtype=float, na_value=np.nan)
        return values

    due, first, last, out = (column(name) for name in ("due_s", "first_token_s", "last_token_s", "tokens_out"))
    ttft_ms = (first - due) * 1e3
    client_ms = (column("sent_s") - due) * 1e3
    queue_ms, prefill_ms = column("queue_time_ms"), column("engine_ttft_ms")
    with np.errstate(divide="ignore", invalid="ignore"):
        tpot_ms = np.where(out > 1, (last - first) * 1e3 / (out - 1), np.nan)
    # Throughput over what came out within the window; the drain would dilute it.
    all_last, all_out = (frame[name].to_numpy(dtype=float, na_value=np.nan) for name in ("last_token_s", "tokens_out"))
    inside = (all_last >= warm_up_s) & (all_last < duration_s)
    return BlockSample(
        ttft_ms=np.where(failed, np.inf, ttft_ms),
        tpot_ms=np.where(failed, np.nan, tpot_ms),
        e2e_ms=np.where(failed, np.inf, (last - due) * 1e3),
        client_ms=client_ms,
        front_end_ms=front_end_ms(ttft_ms=ttft_ms, client_ms=client_ms, queue_ms=queue_ms, prefill_ms=prefill_ms),
        queue_ms=queue_ms,
        prefill_ms=prefill_ms,
        decode_ms=column("generation_time_ms"),
        tokens_in=column("tokens_in"),
        tokens_cached=column("tokens_cached"),
        sent=int(np.sum(np.isfinite(column("sent_s")))),
        window_s=duration_s - warm_up_s,
        tokens_out_in_window=float(np.nansum(np.where(inside, all_out, 0.0))),
    )
