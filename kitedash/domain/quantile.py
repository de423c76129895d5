"""Percentiles with intervals that respect blocks.

Requests in one queue are not independent, so an interval that treats them so is too narrow (at utilisation 0.7 it
held the truth less than half of the time: docs/pitfalls.md). Blocks are independent by construction; the interval is
the one of Korn and Graubard ("Confidence intervals for proportions with small expected number of positive counts
estimated from survey data", Survey Methodology 24, 1998) for a share, inverted for a percentile as Woodruff did
(JASA 47, 1952).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import special

from kitedash.domain.results import Estimate

Floats = npt.NDArray[np.float64]

CONFIDENCE = 0.95
_STEADY_SHARES = (0.5, 0.75, 0.9)
_MOST_BLOCKS = 2_000


def design_effect(indicators: Sequence[Floats], share: float) -> float:
    """How many requests of a queue are worth one independent request, from 0/1 indicators by block in arrival order.

    The largest of: the ratio estimator's variance between blocks over the binomial one (assumes nothing within a
    block, but a few blocks estimate it badly); the same from the autocorrelation in order of arrival within blocks
    (steadier, misses what is longer than a block); 1 (less is luck).
    """
    n, blocks = float(sum(len(block) for block in indicators)), len(indicators)
    if blocks < 2 or n < 2 or not 0 < share < 1:
        return 1.0
    rests = np.array([float(np.sum(block - share)) for block in indicators])
    between = blocks / (blocks - 1) * float(np.sum(rests**2)) / n / (share * (1 - share))
    return max(1.0, between, _autocorrelation_effect(indicators, share))


def effective_size(n: int, blocks: int, effect: float) -> float:
    """Independent requests that n requests in so many blocks are worth. Pays for estimating the design effect from
    few blocks by the squared ratio of t quantiles, as Korn and Graubard do; one block tells nothing on it: 0."""
    if blocks < 2 or n < 2:
        return 0.0
    tail = (1 + CONFIDENCE) / 2
    penalty = (special.stdtrit(n - 1, tail) / special.stdtrit(blocks - 1, tail)) ** 2
    return float(n / effect * penalty)


def _autocorrelation_effect(indicators: Sequence[Floats], share: float) -> float:
    """1 + 2 x the sum of the autocorrelations pooled over blocks, cut where a pair of neighbouring lags sums to no
    more than zero (Geyer, Statistical Science 7, 1992: beyond, estimates are noise)."""
    centred = [block - share for block in indicators]
    variance = sum(float(np.dot(block, block)) for block in centred)
    if not variance:
        return 1.0  # all requests tie
    longest = max(len(block) for block in centred) - 1
    total = 0.0
    for lag in range(1, longest, 2):
        pair = sum(
            float(np.dot(block[:-step], block[step:]))
            for block in centred
            for step in (lag, lag + 1)
            if len(block) > step
        )
        if pair <= 0:
            break
        total += pair
    return 1.0 + 2.0 * total / variance


def quantile_interval(blocks: Sequence[Floats], q: float) -> Estimate:
    """The q-quantile of the blocks' requests pooled, with a 95 % interval.

    `blocks` hold one value a request in order of arrival, +inf for a failed one. A bound is None where the data don't
    bound it; the note then says how many more requests would. The value is the smallest x with at least the share q
    at or below it; None where that is a failed request.
    """
    if not 0 < q < 1:
        raise ValueError("q must be between 0 and 1")
    filled = [np.asarray(block, dtype=np.float64) for block in blocks if len(block)]
    if not filled:
        return Estimate(None, note="no requests")
    pooled = np.sort(np.concatenate(filled))
    n = len(pooled)
    value = float(pooled[math.ceil(q * n) - 1])
    effect = _largest_effect(filled, pooled, q)
    low_at, high_at = _ranks(n, q, effective_size(n, len(filled), effect))
    low = float(pooled[low_at - 1]) if low_at >= 1 else None
    high = float(pooled[high_at - 1]) if high_at <= n else None
    note, more = "", None
    if low is None or high is None:
        more = _more_requests(q, n, len(filled), effect)
        note = "too few" + (f" (about {more} more requests would do)" if more else "")
    elif not math.isfinite(high):
        note = "the interval reaches the failed requests"
    if not math.isfinite(value):
        note = f"more than {1 - q:.0%} of the requests failed"
    return Estimate(
        value if math.isfinite(value) else None,
        low if low is not None and math.isfinite(low) else None,
        high if high is not None and math.isfinite(high) else None,
        n,
        note,
        more,
    )


def _largest_effect(blocks: Sequence[Floats], pooled: Floats, q: float) -> float:
    """The design effect at q, and at lower shares where more requests tell it: far in the tail it is often too small
    by luck, and then of all times an interval would be given (simulated: a P99 of 1,200 requests at utilisation 0.5,
    answered in a quarter of the cases and then wrong in a third of them)."""
    effects = []
    for share in {q, *(steady for steady in _STEADY_SHARES if steady < q)}:
        value = float(pooled[math.ceil(share * len(pooled)) - 1])
        effects.append(design_effect(_at_or_below(blocks, pooled, value, share), share))
    return max(effects)


def _at_or_below(blocks: Sequence[Floats], pooled: Floats, value: float, q: float) -> list[Floats]:
    """1 for a request below `value`, 0 above; ties at it get the fraction that makes the pooled share exactly q."""
    below, equal = float(np.mean(pooled < value)), float(np.mean(pooled == value))
    tie = (q - below) / equal
    return [np.where(block < value, 1.0, np.where(block == value, tie, 0.0)) for block in blocks]


def _ranks(n: int, q: float, effective: float) -> tuple[int, int]:
    """1-based ranks of the bounds among n sorted values; below 1 or above n: not bounded.

    Clopper-Pearson on the effective size gives the share's interval; its ends are read off the empirical distribution.
    With independent requests these are the exact order-statistic ranks or one rank outside of them.
    """
    if effective <= 0:
        return 0, n + 1
    tail = (1 - CONFIDENCE) / 2
    hits = q * effective
    low_share = float(special.betaincinv(hits, effective - hits + 1, tail))
    high_share = float(special.betaincinv(hits + 1, effective - hits, 1 - tail))
    # The effective size counts: an end within one effective request of the edge lies beyond what was seen.
    if high_share * (effective + 1) > effective:
        return math.floor(low_share * n), n + 1
    return math.floor(low_share * n), math.floor(high_share * n) + 1


def _more_requests(q: float, n: int, blocks: int, effect: float) -> int | None:
    """How many more requests, in blocks of the same size, would bound the interval if they behave as these do."""
    per_block, count = n / blocks, blocks
    while count < _MOST_BLOCKS:
        count = max(count + 1, math.ceil(count * 1.1))
        size = round(per_block * count)
        low_at, high_at = _ranks(size, q, effective_size(size, count, effect))
        if low_at >= 1 and high_at <= size:
            return max(1, size - n)
    return None
