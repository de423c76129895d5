"""Shares of a level's requests that are as fast as asked, and what its blocks differ by.

Attainment: TTFT within its target. Goodput: requests a second that meet the TTFT target and the TPOT guardrail. Both
depend on targets that a reader may move, so they are worked out from the requests and stored nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kitedash.domain.block_effect import design_effect, effective_size, share_bounds
from kitedash.domain.latency import BlockSample
from kitedash.domain.quantile import quantile_of, steady_indicators
from kitedash.domain.results import Estimate

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class BlockPoint:
    """One block by itself. A percentile is None where it is a failed request."""

    n: int
    n_failed: int
    ttft_p50_ms: float | None
    ttft_p90_ms: float | None
    attainment: float  # share of its requests with a TTFT within the target


def attainment_interval(blocks: Sequence[Floats], target: float) -> Estimate:
    """The share of requests at or below `target`, with a 95 % interval.

    `blocks` hold one latency a request in order of arrival, +inf for a failed one, which misses every target.
    """
    return _share_interval([(block <= target) & np.isfinite(block) for block in blocks], blocks)


def goodput(blocks: Sequence[BlockSample], *, ttft_ms: float, tpot_ms: float) -> Estimate:
    """Requests a second of measured time that did not fail, had their first token within `ttft_ms` and took at most
    `tpot_ms` a token after it (an answer of one token has none to take). `n` are all requests.

    Its 95 % interval is that of their share, times the requests a second that were due: which arrivals were drawn is
    known, and the same for every candidate.
    """
    good = [_is_good(block, ttft_ms, tpot_ms) for block in blocks]
    share = _share_interval(good, [block.ttft_ms for block in blocks])
    window_s = sum(block.window_s for block in blocks)
    due_per_s = share.n / window_s if window_s else 0.0
    return Estimate(
        None if share.value is None else share.value * due_per_s,
        None if share.low is None else share.low * due_per_s,
        None if share.high is None else share.high * due_per_s,
        share.n,
        share.note,
        share.more,
    )


def block_point(ttft_ms: Floats, target: float) -> BlockPoint:
    """Of one block with at least one request."""
    within = (ttft_ms <= target) & np.isfinite(ttft_ms)
    return BlockPoint(
        n=len(ttft_ms),
        n_failed=int(np.sum(~np.isfinite(ttft_ms))),
        ttft_p50_ms=quantile_of(ttft_ms, 0.5),
        ttft_p90_ms=quantile_of(ttft_ms, 0.9),
        attainment=float(np.mean(within)),
    )


def variance_between(blocks: Sequence[Floats]) -> float | None:
    """The share of the requests' variance that lies between blocks: the intra-class correlation of a one-way analysis
    of variance, of the ranks among all requests (latencies have long tails, and a failed one no number).

    About 0 where blocks differ by no more than independent requests would make them; requests in a queue resemble
    their neighbours, so a busy server's is above 0 without any change in the machine. None with fewer than two
    blocks, or as many requests as blocks.
    """
    filled = [block for block in blocks if len(block)]
    n, k = sum(len(block) for block in filled), len(filled)
    if k < 2 or n <= k:
        return None
    every, where = np.unique(np.concatenate(filled), return_inverse=True)
    counts = np.bincount(where, minlength=len(every))
    mean_ranks = np.cumsum(counts) - (counts - 1) / 2  # ties share the mean of their ranks
    ranks = np.split(mean_ranks[where], np.cumsum([len(block) for block in filled])[:-1])
    middle = (n + 1) / 2
    between = sum(len(block) * (float(np.mean(block)) - middle) ** 2 for block in ranks) / (k - 1)
    within = sum(float(np.sum((block - np.mean(block)) ** 2)) for block in ranks) / (n - k)
    size = (n - sum(len(block) ** 2 for block in ranks) / n) / (k - 1)
    total = between + (size - 1) * within
    return max(0.0, (between - within) / total) if total > 0 else 0.0


def _is_good(block: BlockSample, ttft_ms: float, tpot_ms: float) -> npt.NDArray[np.bool_]:
    in_time = np.isfinite(block.ttft_ms) & (block.ttft_ms <= ttft_ms)
    return in_time & ~(block.tpot_ms > tpot_ms)


def _share_interval(met: Sequence[npt.NDArray[np.bool_]], latencies: Sequence[Floats]) -> Estimate:
    """`latencies` lend their own, steadier resemblance where nearly all requests met what was asked, or all."""
    pairs = [(found.astype(float), block) for found, block in zip(met, latencies, strict=True) if len(block)]
    if not pairs:
        return Estimate(None, note="no requests")
    indicators, filled = [found for found, _ in pairs], [block for _, block in pairs]
    pooled = np.sort(np.concatenate(filled))
    n, share = len(pooled), float(np.mean(np.concatenate(indicators)))
    if len(filled) < 2:
        return Estimate(share, None, None, n, f"too few (about {n} more requests would do)", n)
    effect = design_effect(indicators, share, steady_indicators(filled, pooled, share))
    low, high = share_bounds(share, effective_size(n, len(filled), effect))
    return Estimate(share, low, high, n)
