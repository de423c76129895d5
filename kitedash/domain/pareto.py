"""The front over P90 TTFT, deployed cost and pass rate, and each candidate's probability of being on it.

A candidate is off the front when another one is at least as good on all three numbers and better on one. Equal
candidates do not dominate each other: ties stay. On point estimates alone the front flickers with every new block, so
the probability is drawn beside it (parametric bootstrap, seeded):

- each rate's P90 TTFT and P90 TPOT are drawn log-normally around the estimate, the two sides scaled to the stored
  interval's own two sides. That interval comes from independent blocks, so their variation is in the draw. Where one
  bound is missing the other's spread is used; where both are, a factor of e^0.5 is one standard deviation. Rates are
  drawn independently (each has its own seeds), and so are candidates: they share arrivals and would in truth move
  together, which makes the probabilities a little too near to one half.
- the highest rate held is found anew in every draw; its TTFT and its deployed cost are the draw's numbers. A draw in
  which no rate holds puts the candidate off the front and lets it dominate nobody.
- items (whole clusters where there are at least `MIN_CLUSTERS`) are resampled with replacement, the same ones for all
  candidates, so that the pairing of the answers carries over.

Source of the idea: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapters 6 and 8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from kitedash.domain.experiment import Guardrails, Targets
from kitedash.domain.proportions import MIN_CLUSTERS
from kitedash.domain.results import Estimate

Z95 = 1.959964
UNKNOWN_LOG_SPREAD = 0.5
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RateEvidence:
    """One measured rate as the bootstrap sees it. `can_hold`: it meets all that has no interval (status, errors)."""

    ttft_p90_ms: Estimate
    tpot_p90_ms: Estimate
    can_hold: bool
    deployed_usd: float  # if this were the highest rate held


@dataclass(frozen=True)
class FrontEvidence:
    """A candidate's measured rates in ascending order, and which items it passed."""

    rates: tuple[RateEvidence, ...]
    passed: Mapping[str, bool]


def dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether `one` is at least as good as `other` in every number and better in one; of each number less is better."""
    return all(a <= b for a, b in zip(one, other, strict=True)) and any(a < b for a, b in zip(one, other, strict=True))


def losses(ttft_p90_ms: float, cost_usd: float, pass_rate: float) -> tuple[float, float, float]:
    """The three numbers so that of each less is better."""
    return ttft_p90_ms, cost_usd, -pass_rate


def on_front(ttft_p90_ms: Sequence[float], cost_usd: Sequence[float], pass_rate: Sequence[float]) -> list[bool]:
    """Which of the candidates are not dominated, by their point estimates."""
    points = [losses(*point) for point in zip(ttft_p90_ms, cost_usd, pass_rate, strict=True)]
    return [not any(dominates(other, point) for other in points) for point in points]


def front_probability(
    candidates: Sequence[FrontEvidence],
    clusters: Mapping[str, str],
    targets: Targets,
    guardrails: Guardrails,
    *,
    draws: int = 1_000,
    seed: int = 1,
) -> list[float]:
    """The share of draws in which each candidate is on the front.

    `clusters` names the cluster of every item of the suite; an item that a candidate did not answer is not passed.
    """
    if not candidates:
        return []
    rng = np.random.default_rng(seed)
    operating = [_operating_draws(candidate.rates, targets, guardrails, draws, rng) for candidate in candidates]
    drawn = np.empty((3, draws, len(candidates)))
    drawn[0] = np.column_stack([ttft for ttft, _ in operating])
    drawn[1] = np.column_stack([cost for _, cost in operating])
    drawn[2] = -_pass_rate_draws([candidate.passed for candidate in candidates], clusters, draws, rng)
    return [float(share) for share in _front(drawn).mean(axis=0)]


def _front(drawn: Floats) -> NDArray[np.bool_]:
    """`dominates` for all draws at once: membership, shape (draws, candidates), of losses with shape (3, draws,
    candidates); NaN: not there at all."""
    present = ~np.isnan(drawn).any(axis=0)
    mine, theirs = drawn[:, :, :, np.newaxis], drawn[:, :, np.newaxis, :]
    as_good, better = np.all(theirs <= mine, axis=0), np.any(theirs < mine, axis=0)
    member: NDArray[np.bool_] = present & ~np.any(as_good & better, axis=2)
    return member


def _operating_draws(
    rates: Sequence[RateEvidence], targets: Targets, guardrails: Guardrails, draws: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """P90 TTFT and deployed cost at the highest rate held, one of each a draw; NaN where none is."""
    ttft_held, cost_held = np.full(draws, np.nan), np.full(draws, np.nan)
    for evidence in rates:  # ascending: the last one that holds stays
        ttft, tpot = _draw(evidence.ttft_p90_ms, draws, rng), _draw(evidence.tpot_p90_ms, draws, rng)
        if evidence.tpot_p90_ms.value is None:  # answers of one token have none
            tpot = np.zeros(draws)
        if not evidence.can_hold:
            continue
        holds = (ttft <= targets.ttft_p90_ms) & (tpot <= guardrails.tpot_p90_ms)
        ttft_held[holds] = ttft[holds]
        cost_held[holds] = evidence.deployed_usd
    return ttft_held, cost_held


def _draw(estimate: Estimate, draws: int, rng: np.random.Generator) -> Floats:
    normal = rng.standard_normal(draws)
    if estimate.value is None or not 0 < estimate.value < np.inf:
        return np.full(draws, np.nan)  # no comparison with NaN is true: never held
    up, down = _spread(estimate.value, estimate.high), _spread(estimate.value, estimate.low)
    up, down = up if up is not None else down, down if down is not None else up
    if up is None or down is None:
        up = down = UNKNOWN_LOG_SPREAD
    drawn: Floats = estimate.value * np.exp(np.where(normal > 0, up, down) * normal)
    return drawn


def _spread(value: float, bound: float | None) -> float | None:
    if bound is None or not 0 < bound < np.inf:
        return None
    return abs(log(bound / value)) / Z95


def _pass_rate_draws(
    passed: Sequence[Mapping[str, bool]], clusters: Mapping[str, str], draws: int, rng: np.random.Generator
) -> Floats:
    if len(set(clusters.values())) < MIN_CLUSTERS:  # as for the pass rate's interval
        clusters = {item: item for item in clusters}
    names = sorted(set(clusters.values()))
    if not names:
        return np.full((draws, len(passed)), np.nan)
    index = {name: i for i, name in enumerate(names)}
    sizes, passes = np.zeros(len(names)), np.zeros((len(names), len(passed)))
    for item, cluster in clusters.items():
        sizes[index[cluster]] += 1
        passes[index[cluster]] += [answers.get(item, False) for answers in passed]
    weights = rng.multinomial(len(names), np.full(len(names), 1 / len(names)), size=draws).astype(float)
    shares: Floats = (weights @ passes) / (weights @ sizes)[:, np.newaxis]
    return shares
