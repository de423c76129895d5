"""Shares of items: the interval of one share, and what items that rise and fall together take away from it."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Final

from scipy import special

MIN_CLUSTERS: Final = 10  # fewer can't tell how much items of a cluster resemble each other (Miller 2024)


def wilson(passed: float, n: float, *, critical: float) -> tuple[float, float]:
    """Wilson's score interval of a share (Wilson 1927; Brown, Cai & DasGupta 2001); `n` may be an effective size.

    `critical` is the quantile that sets the level, 1.96 for 95 %. Raises ValueError unless 0 <= passed <= n, n > 0.
    """
    if not 0 <= passed <= n or n <= 0:
        raise ValueError("a share needs 0 <= passed <= n and n > 0")
    share, square = passed / n, critical**2
    middle = (share + square / (2 * n)) / (1 + square / n)
    half = critical / (1 + square / n) * math.sqrt(share * (1 - share) / n + square / (4 * n**2))
    low = 0.0 if passed == 0 else max(0.0, middle - half)
    high = 1.0 if passed == n else min(1.0, middle + half)
    return low, high


def design_effect(values: Sequence[float], clusters: Sequence[Hashable]) -> float | None:
    """How much larger the variance of the mean is than with independent items (Kish 1965), never below 1.

    The ratio of the cluster-robust variance of the mean, k / (k - 1) * sum of squared cluster totals of the residuals
    / n^2, to that of independent items. 1.0 where every item is a cluster of its own, or no value differs from
    another; None with fewer than `MIN_CLUSTERS` clusters, which can't tell.
    """
    n = len(values)
    groups: dict[Hashable, list[float]] = {}
    for value, cluster in zip(values, clusters, strict=True):
        groups.setdefault(cluster, []).append(value)
    k = len(groups)
    if k == n:
        return 1.0
    if k < MIN_CLUSTERS:
        return None
    mean = math.fsum(values) / n
    independent = math.fsum((value - mean) ** 2 for value in values) / (n * (n - 1))
    if independent == 0:
        return 1.0
    totals = math.fsum((math.fsum(group) - mean * len(group)) ** 2 for group in groups.values())
    return max(1.0, k / (k - 1) * totals / n**2 / independent)


def critical_value(level: float, clusters: int | None) -> float:
    """The quantile at `level` (0.975 for a two-sided 95 % interval): normal, or Student's t with clusters - 1 degrees
    of freedom where the variance was estimated from that many clusters."""
    return float(special.ndtri(level) if clusters is None else special.stdtrit(clusters - 1, level))
