"""How much the requests of a queue are worth, when they are not independent and come in blocks that are.

When one waits, so does the next. An interval that takes them for independent is too narrow: at utilisation 0.7 it held
the truth less than half of the time (docs/pitfalls.md). The design effect says how many of them are worth one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

Floats = npt.NDArray[np.float64]

CONFIDENCE = 0.95
_WINDOWS = 3  # so many times the lags summed is a stretch of requests that tells on the effect independently
_DRIFT_QUANTILE = 0.8  # of Fisher's F: blocks that differ by more are taken at their word


@dataclass(frozen=True)
class DesignEffect:
    """`value` requests are worth one independent request, never below 1.

    `window`: over so many requests they were seen to resemble each other; 0 where the effect was taken from what the
    blocks differ by, which only the number of blocks tells how well.
    """

    value: float
    window: int

    def freedom(self, n: int, blocks: int) -> float:
        """Degrees of freedom of the variance that the effect stands for, estimated from n requests in so many blocks:
        those of the blocks, and more where the window is short."""
        by_blocks = float(blocks - 1)
        return by_blocks if not self.window else max(by_blocks, n / (_WINDOWS * self.window))


def design_effect(
    indicators: Sequence[Floats], share: float, steadier: Iterable[tuple[Sequence[Floats], float]] = ()
) -> DesignEffect:
    """From 0/1 indicators by block in order of arrival, whose mean over all requests is `share`.

    The effect is that of the autocorrelation: 1 + 2 x the sum of the autocorrelations pooled over blocks, cut where a
    pair of neighbouring lags sums to no more than zero (Geyer, Statistical Science 7, 1992: beyond, estimates are
    noise). `steadier` are indicators at other shares that more requests tell on: the largest counts, since far in the
    tail the effect is often too small by luck. Where blocks differ by more than that explains (a machine that is
    slower for a while), it is the variance between blocks over the binomial one.
    """
    n, blocks = sum(len(block) for block in indicators), len(indicators)
    if blocks < 2 or n < 2:
        return DesignEffect(1.0, 1)
    shares = [(indicators, share), *steadier]
    correlated = max((_autocorrelation(found, at) for found, at in shares), key=lambda look: look.value)
    between = max(_between(found, at) for found, at in shares)
    allowed = float(special.fdtri(blocks - 1, correlated.freedom(n, blocks), _DRIFT_QUANTILE))
    if between > allowed * correlated.value:
        drifting = DesignEffect(between, 0)
        if effective_size(n, blocks, drifting) < effective_size(n, blocks, correlated):
            return drifting
    return correlated


def effective_size(n: int, blocks: int, effect: DesignEffect) -> float:
    """Independent requests that n requests in so many blocks are worth. Pays for estimating the effect by the squared
    ratio of the normal to the t quantile, as Korn and Graubard do; one block tells nothing on it: 0."""
    if blocks < 2 or n < 2:
        return 0.0
    tail = (1 + CONFIDENCE) / 2
    penalty = (special.ndtri(tail) / special.stdtrit(effect.freedom(n, blocks), tail)) ** 2
    return float(n / effect.value * penalty)


def share_bounds(share: float, effective: float) -> tuple[float, float]:
    """The 95 % interval of a share by Clopper and Pearson on the effective size, as Korn and Graubard do."""
    tail, hits = (1 - CONFIDENCE) / 2, share * effective
    low = float(special.betaincinv(hits, effective - hits + 1, tail)) if hits > 0 else 0.0
    high = float(special.betaincinv(hits + 1, effective - hits, 1 - tail)) if hits < effective else 1.0
    return low, high


def _between(indicators: Sequence[Floats], share: float) -> float:
    """The ratio estimator's variance between blocks over the binomial one; 0 where all requests tie."""
    n, blocks, variance = sum(len(block) for block in indicators), len(indicators), share * (1 - share)
    rests = np.array([float(np.sum(block - share)) for block in indicators])
    return blocks / (blocks - 1) * float(np.sum(rests**2)) / n / variance if variance > 0 else 0.0


def _autocorrelation(indicators: Sequence[Floats], share: float) -> DesignEffect:
    """The products of all lags at once by Fourier transform, padded so that the ends do not meet."""
    longest = max(len(block) for block in indicators)
    centred = np.zeros((len(indicators), 2 << (longest - 1).bit_length()))
    for row, block in zip(centred, indicators, strict=True):
        row[: len(block)] = block - share
    power = np.sum(np.abs(np.fft.rfft(centred, axis=1)) ** 2, axis=0)
    products = np.fft.irfft(power, centred.shape[1])[:longest]
    if products[0] < 1e-9:
        return DesignEffect(1.0, 1)  # all requests tie
    even = len(products[1:]) // 2 * 2
    pairs = products[1 : 1 + even].reshape(-1, 2).sum(axis=1)
    ended = np.flatnonzero(pairs <= 1e-9 * products[0])
    summed = int(ended[0]) if len(ended) else len(pairs)
    return DesignEffect(max(1.0, 1.0 + 2.0 * float(np.sum(pairs[:summed])) / products[0]), 2 * summed + 1)
