"""A distribution as a curve of few points: the empirical distribution of a level's requests, thinned for drawing."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

MOST_POINTS = 200
MARKED_SHARES = (0.5, 0.9, 0.99)  # these are points of every curve that reaches them


@dataclass(frozen=True)
class QuantileCurve:
    """`values[i]` is the smallest value with at least `shares[i]` of all `n` requests at or below it, in the unit of
    what went in. Both ascend. Failed requests are among the `n`: with them the curve ends below a share of 1."""

    values: tuple[float, ...]
    shares: tuple[float, ...]
    n: int
    n_failed: int

    def at(self, share: float) -> float | None:
        """The value at one of MARKED_SHARES, by the rule of `quantile.quantile_interval`; None where it is failed."""
        rank = math.ceil(share * self.n)
        return next((v for v, s in zip(self.values, self.shares, strict=True) if s * self.n > rank - 0.5), None)


def quantile_curve(values: Floats, most_points: int = MOST_POINTS) -> QuantileCurve:
    """The curve of one value a request; what is not finite is a failed request.

    All order statistics where they are few, else ranks evenly apart with the first, the last that succeeded and those
    of MARKED_SHARES among them: never more than `most_points`.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    n, answered = len(ordered), int(np.sum(np.isfinite(ordered)))
    if not answered:
        return QuantileCurve((), (), n, n)
    if answered <= most_points:
        ranks = np.arange(1, answered + 1)
    else:
        marked = [rank for share in MARKED_SHARES if (rank := math.ceil(share * n)) <= answered]
        even = np.linspace(1, answered, most_points - len(marked)).round().astype(int)
        ranks = np.unique(np.concatenate([even, np.array(marked, dtype=int)]))
    return QuantileCurve(
        values=tuple(float(value) for value in ordered[ranks - 1]),
        shares=tuple(float(rank) / n for rank in ranks),
        n=n,
        n_failed=n - answered,
    )
