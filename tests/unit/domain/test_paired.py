"""The paired interval against published values, against its defining equation, and against the exact distribution."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from kitedash.domain import paired

Z95, Z975 = 1.6448536269514722, 1.959963984540054


@pytest.mark.parametrize(
    ("gained", "lost", "n", "low", "high"),
    [
        # Fagerland, Lydersen & Laake, Statistics in Medicine 33 (2014) 2850-2875, tables 5 and 7: Tango's interval for
        # the airway data of Bentur et al. 2009 and the myeloma data of Cavo et al. 2012.
        (1, 7, 21, -0.517, -0.026),
        (6, 16, 161, -0.124, -0.0054),
    ],
)
def test_interval_is_the_published_one(gained: int, lost: int, n: int, low: float, high: float) -> None:
    found = paired.tango_interval(gained, lost, n, critical=Z975)
    assert found == pytest.approx((low, high), abs=6e-4)


def _restricted_loss(gained: float, lost: float, n: float, difference: float) -> float:
    """Share of losses that maximises the trinomial likelihood when gains - losses is fixed: found by search, without
    the closed form that the product uses."""

    def minus_log_likelihood(loss: float) -> float:
        gain, same = loss + difference, 1 - 2 * loss - difference
        parts = ((gained, gain), (lost, loss), (n - gained - lost, same))
        return -sum(count * math.log(share) for count, share in parts if count)

    edge = 1e-13
    bounds = (max(0.0, -difference) + edge, (1 - difference) / 2 - edge)
    return float(
        optimize.minimize_scalar(minus_log_likelihood, bounds=bounds, method="bounded", options={"xatol": 1e-13}).x
    )


@pytest.mark.parametrize(("gained", "lost", "n"), [(1, 7, 21), (6, 16, 161), (40, 20, 160), (3, 3, 96), (2, 5, 44)])
def test_both_ends_solve_the_score_equation(gained: int, lost: int, n: int) -> None:
    def statistic(difference: float) -> float:
        loss = _restricted_loss(gained, lost, n, difference)
        return (gained - lost - n * difference) / math.sqrt(n * (2 * loss + difference - difference**2))

    low, high = paired.tango_interval(gained, lost, n, critical=Z95)
    observed = (gained - lost) / n
    assert low == pytest.approx(optimize.brentq(lambda d: statistic(d) - Z95, -0.99, observed), abs=1e-5)
    assert high == pytest.approx(optimize.brentq(lambda d: statistic(d) + Z95, observed, 0.99), abs=1e-5)


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 200))
def test_interval_holds_the_estimate_mirrors_and_stays_in_range(gained: int, lost: int, same: int) -> None:
    n = gained + lost + same
    if n == 0:
        return
    low, high = paired.difference_interval(gained, lost, n, level=0.95, critical=Z95)
    assert -1 <= low <= (gained - lost) / n <= high <= 1
    mirrored = paired.difference_interval(lost, gained, n, level=0.95, critical=Z95)
    assert mirrored == pytest.approx((-high, -low), abs=1e-9)


@pytest.mark.parametrize("n", [20, 59, 100, 1000])
def test_no_change_at_all_still_allows_three_in_n(n: int) -> None:
    low, high = paired.difference_interval(0, 0, n, level=0.95, critical=Z95)
    # With a true loss of this share, n items show none with probability 0.05 exactly.
    assert (1 + low) ** n == pytest.approx(0.05, rel=1e-9)
    assert high == -low
    assert -low == pytest.approx(3 / n, rel=0.08)


@pytest.mark.parametrize("margin", [0.05, 0.1])
@pytest.mark.parametrize("n", [40, 59, 60, 72, 80, 96, 100, 120, 160])
@pytest.mark.parametrize("gain", [0.0, 0.005, 0.02, 0.05, 0.1])
def test_false_pass_is_rare_by_the_exact_distribution(margin: float, n: int, gain: float) -> None:
    """At a true loss equal to the margin: the probability of every outcome that would pass, summed."""
    total = 0.0
    for gained in range(n + 1):
        if stats.binom.pmf(gained, n, gain) < 1e-9:
            continue
        for lost in range(n - gained + 1):
            low, _ = paired.difference_interval(gained, lost, n, level=0.95, critical=Z95)
            if low <= -margin:
                break  # more losses can only lower the bound
            shares = [gain, gain + margin, 1 - 2 * gain - margin]
            total += float(stats.multinomial.pmf([gained, lost, n - gained - lost], n, shares))
    assert total <= 0.055


def test_mcnemar_is_the_binomial_sum() -> None:
    # 8 lost, 2 gained: twice P(X <= 2) for 10 fair coins = 2 * (1 + 10 + 45) / 1024. The project's own int8 example.
    assert paired.mcnemar_p(2, 8) == pytest.approx(112 / 1024)
    assert paired.mcnemar_p(0, 0) == 1.0


@pytest.mark.parametrize(
    ("margin", "needed"),
    [(0.02, (310, 773, 1546, 3092)), (0.03, (138, 344, 687, 1374)), (0.05, (None, 124, 248, 495))],
)
def test_items_needed_is_the_table(margin: float, needed: tuple[int | None, ...]) -> None:
    """(1.6449 + 0.8416)^2 x share changed / margin^2. With 2 % changed, 50 items would do for 5 points by the normal
    approximation, but 50 items can't pass even without a change: then the exact 59 stand."""
    for changed, expected in zip((0.02, 0.05, 0.10, 0.20), needed, strict=True):
        assert paired.items_for(margin, changed) == (expected if expected is not None else 59)
    assert math.ceil((1.6448536 + 0.8416212) ** 2 * 0.02 / 0.05**2) == 50


def test_items_needed_scales_and_ends() -> None:
    assert paired.items_for(0.05, 0.2, design_effect=2) == 990  # 2 x 494.6, rounded up
    assert paired.items_for(0.05, 0.2, change=-0.05) is None
    closer = paired.items_for(0.05, 0.2, change=-0.025)
    assert closer is not None
    assert closer > 4 * 490  # half the distance to the margin: four times the items, less the change's own square


@pytest.mark.parametrize(("margin", "fewest"), [(0.05, 59), (0.1, 29), (0.02, 149), (0.03, 99)])
def test_fewest_items_is_where_no_change_first_passes(margin: float, fewest: int) -> None:
    assert paired.fewest_items(margin) == fewest
    assert 0.05 ** (1 / fewest) > 1 - margin
    assert 0.05 ** (1 / (fewest - 1)) <= 1 - margin


def test_smallest_visible_loss_undoes_items_needed() -> None:
    n = paired.items_for(0.03, 0.10)
    assert n is not None
    assert paired.smallest_visible_loss(n, 0.10) == pytest.approx(0.03, rel=1e-3)
    assert paired.smallest_visible_loss(100, 0.0) == pytest.approx(1 - 0.05**0.01)


def test_counts_that_are_no_part_of_n_are_an_error() -> None:
    for counts in [(5, 6, 10), (-1, 0, 10), (0, 0, 0)]:
        with pytest.raises(ValueError, match="gained"):
            paired.tango_interval(*counts, critical=Z95)


def test_fractional_counts_lie_between_whole_ones() -> None:
    whole = [paired.tango_interval(2 * k, 5 * k, 100 * k, critical=Z95)[0] for k in (1, 2)]
    between = paired.tango_interval(3, 7.5, 150, critical=Z95)[0]
    assert whole[0] < between < whole[1]
    assert np.isfinite(between)
