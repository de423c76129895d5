"""Percentiles with intervals that respect blocks.

The interval is the one of Korn and Graubard ("Confidence intervals for proportions with small expected number of
positive counts estimated from survey data", Survey Methodology 24, 1998) for a share, on the effective number of
requests (`block_effect.py`), inverted for a percentile as Woodruff did (JASA 47, 1952). `python -m bench.coverage`
shows how often it holds the truth.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from kitedash.domain.block_effect import CONFIDENCE, DesignEffect, design_effect, effective_size, share_bounds
from kitedash.domain.results import Estimate

Floats = npt.NDArray[np.float64]

_STEADY_SHARES = (0.5, 0.75, 0.9)
_MOST_BLOCKS = 2_000
_MARGIN = 4  # so many times the requests that independent ones would need: below, few queues give an end, the calm ones
_CALM, _BUSY = 18.0, 1.25


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
    value = _at(pooled, q)
    effect = design_effect(_at_or_below(filled, pooled, q), q, steady_indicators(filled, pooled, q))
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


def steady_indicators(blocks: Sequence[Floats], pooled: Floats, beyond: float) -> Iterator[tuple[list[Floats], float]]:
    """Indicators at shares nearer the middle than `beyond`, which more requests tell on, for `design_effect`.

    A P99's own effect is often too small by luck, and then of all times an interval would be given (simulated: a P99
    of 1,200 requests at utilisation 0.5, answered in a quarter of the cases and then wrong in a third of them).
    """
    nearer = [share for share in _STEADY_SHARES if share < max(beyond, 1 - beyond)]
    mirrored = nearer if beyond >= 0.5 else [1 - share for share in nearer]
    return ((_at_or_below(blocks, pooled, share), share) for share in mirrored)


def quantile_of(values: Floats, q: float) -> float | None:
    """The smallest value with at least the share q at or below it; None where that is a failed request, or none is."""
    value = _at(np.sort(values), q) if len(values) else math.inf
    return value if math.isfinite(value) else None


def _at(pooled: Floats, q: float) -> float:
    return float(pooled[math.ceil(q * len(pooled)) - 1])


def _at_or_below(blocks: Sequence[Floats], pooled: Floats, q: float) -> list[Floats]:
    """1 for a request below the q-quantile, 0 above; ties at it get the fraction that makes the pooled share q."""
    value = _at(pooled, q)
    below, equal = float(np.mean(pooled < value)), float(np.mean(pooled == value))
    tie = (q - below) / equal
    return [np.where(block < value, 1.0, np.where(block == value, tie, 0.0)) for block in blocks]


def _ranks(n: int, q: float, effective: float) -> tuple[int, int]:
    """1-based ranks of the bounds among n sorted values; below 1 or above n: not bounded.

    The ends of the share's interval are read off the empirical distribution. An end is given where so many independent
    requests would all fall short of the percentile with a chance of 2.5 % at most. One that is within an effective
    request of the edge is the outermost value seen.
    """
    if effective <= 0:
        return 0, n + 1
    below, above = _by_luck(n, 1 - q, effective), _by_luck(n, q, effective)
    low, high = share_bounds(q, below)[0], share_bounds(q, above)[1]
    low_at = max(1, math.floor(low * n)) if low * (below + 1) >= 1 else 1
    high_at = min(n, math.floor(high * n) + 1) if high * (above + 1) <= above else n
    return low_at if _is_enough(n, 1 - q, effective) else 0, high_at if _is_enough(n, q, effective) else n + 1


def _is_enough(n: int, q: float, effective: float) -> bool:
    return effective >= _needed(q) and n >= _MARGIN * _needed(q)


def _by_luck(n: int, q: float, effective: float) -> float:
    """Effective requests for the end in the tail above q, where luck moves the percentile and its effect together.

    A queue that happened to be calm has a percentile that is too small and a design effect that is too small as well:
    fewer requests for the end in the long tail, the fewer there are and the less each is worth. One that happened to
    be busy has too large an effect, so the other end gets a quarter more. Both constants are shaped on simulated
    queues, with other seeds than those that show how often the interval holds the truth; independent requests have no
    effect to be too small or too large.
    """
    if q < 0.5:
        return min(float(n), _BUSY * effective)
    if q == 0.5:
        return effective
    return effective / (1 + _CALM * max(0.0, 1 - effective / n) * math.sqrt(_needed(q)) / effective)


def _needed(q: float) -> float:
    """So many independent requests all fall at or below their q-quantile with a chance of 2.5 %."""
    return math.log((1 - CONFIDENCE) / 2) / math.log(q)


def _more_requests(q: float, n: int, blocks: int, effect: DesignEffect) -> int | None:
    """How many more requests, in blocks of the same size, would bound the interval if they behave as these do."""
    per_block, count = n / blocks, blocks
    while count < _MOST_BLOCKS:
        count = max(count + 1, math.ceil(count * 1.1))
        size = round(per_block * count)
        low_at, high_at = _ranks(size, q, effective_size(size, count, effect))
        if low_at >= 1 and high_at <= size:
            return max(1, size - n)
    return None
