"""The curve lies on the empirical distribution, ends where the failed requests begin, and has few points."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kitedash.domain.quantile import quantile_interval
from kitedash.domain.quantile_curve import MOST_POINTS, quantile_curve


def test_few_requests_are_all_points() -> None:
    curve = quantile_curve(np.array([30.0, 10.0, 20.0, 20.0]))
    assert curve.values == (10.0, 20.0, 20.0, 30.0)
    assert curve.shares == (0.25, 0.5, 0.75, 1.0)
    assert (curve.n, curve.n_failed) == (4, 0)


@pytest.mark.parametrize("n", [150, 200, 201, 1_000, 12_345])
def test_every_point_is_numpys_quantile_of_its_share(n: int) -> None:
    values = np.random.default_rng(n).lognormal(5, 1, n)
    curve = quantile_curve(values)
    assert len(curve.values) <= MOST_POINTS
    just_below = np.array(curve.shares) - 1e-12  # numpy's share * n may else end a hair above the rank
    assert list(curve.values) == list(np.quantile(values, just_below, method="inverted_cdf"))
    assert (curve.values[0], curve.values[-1]) == (values.min(), values.max())
    assert curve.shares[-1] == 1.0


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("n", [7, 240, 1_003, 9_999])
def test_the_marked_shares_are_the_percentiles_of_the_levels(n: int, share: float) -> None:
    values = np.random.default_rng(n).exponential(100, n)
    assert quantile_curve(values).at(share) == quantile_interval([values], share).value


def test_failed_requests_end_the_curve_below_one() -> None:
    values = np.concatenate([np.arange(1.0, 951.0), np.full(50, np.inf)])
    curve = quantile_curve(np.random.default_rng(1).permutation(values))
    assert (curve.n, curve.n_failed) == (1_000, 50)
    assert (curve.values[-1], curve.shares[-1]) == (950.0, 0.95)
    assert curve.at(0.9) == 900.0
    assert curve.at(0.99) is None
    assert all(math.isfinite(value) for value in curve.values)


def test_without_an_answer_there_is_no_point() -> None:
    assert quantile_curve(np.full(3, np.inf)).values == ()
    assert quantile_curve(np.array([])).n == 0
    assert quantile_curve(np.array([])).at(0.9) is None
