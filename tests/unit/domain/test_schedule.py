from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from kitedash.domain.experiment import LoadPlan
from kitedash.domain.schedule import due_times_s, generator, sha256_of


def draw(**changes: object) -> tuple[float, ...]:
    arguments = {"seed": 1, "rate_per_s": 5.0, "block": 0, "duration_s": 20.0} | changes
    return due_times_s(**arguments)  # type: ignore[arg-type]


def test_equal_arguments_give_equal_due_times() -> None:
    assert draw() == draw()
    assert draw(rate_per_s=5) == draw(rate_per_s=5.0), "an integer rate from a YAML file is the same rate"


@pytest.mark.parametrize("change", [{"seed": 2}, {"block": 1}, {"rate_per_s": 5.5}])
def test_any_other_seed_block_or_rate_is_another_draw(change: dict[str, object]) -> None:
    first, second = np.diff(draw(duration_s=2_000.0)), np.diff(draw(duration_s=2_000.0, **change))
    assert set(first).isdisjoint(second)
    n = min(len(first), len(second))
    assert abs(np.corrcoef(first[:n], second[:n])[0, 1]) < 4 / math.sqrt(n), "independent, not just different"


def test_these_due_times_never_change() -> None:
    # Stored hashes must stay comparable: whoever changes the draw changes every stored schedule.
    assert [round(due, 6) for due in draw()[:3]] == [0.210525, 0.866094, 1.388617]


def test_poisson_gaps_are_exponential_and_counts_poisson() -> None:
    due = np.array(draw(rate_per_s=50.0, duration_s=400.0))
    assert stats.kstest(np.diff(due), stats.expon(scale=1 / 50.0).cdf).pvalue > 0.01
    counts = np.array([len(draw(block=block)) for block in range(400)])
    assert abs(np.mean(counts) - 100) < 4 * 10 / 20, "rate x duration on average, within four standard errors"
    assert 0.8 < np.var(counts, ddof=1) / 100 < 1.2, "and as variable as a Poisson count"


def test_all_due_times_lie_within_the_block_in_order() -> None:
    for arrivals in ("poisson", "constant"):
        due = draw(arrivals=arrivals)
        assert list(due) == sorted(due)
        assert due[0] >= 0
        assert due[-1] < 20.0


def test_constant_arrivals_are_one_each_interval_from_a_drawn_phase_on() -> None:
    due = draw(arrivals="constant", rate_per_s=4.0, duration_s=10.0)
    assert len(due) == 40
    assert np.diff(due) == pytest.approx(0.25)
    assert due[0] < 0.25
    assert due[0] != draw(arrivals="constant", rate_per_s=4.0, duration_s=10.0, block=1)[0]


def test_a_low_rate_may_draw_nothing() -> None:
    assert any(not draw(rate_per_s=0.01, duration_s=1.0, block=block) for block in range(5))


@pytest.mark.parametrize("change", [{"rate_per_s": 0.0}, {"rate_per_s": math.inf}, {"duration_s": -1.0}])
def test_impossible_arguments_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="positive and finite"):
        draw(**change)


def test_purposes_have_streams_of_their_own() -> None:
    assert generator(1, 5.0, 0, "arrivals").random() != generator(1, 5.0, 0, "questions").random()


def test_the_hash_is_plain_sha256() -> None:
    assert sha256_of(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_each_repeat_of_an_experiment_draws_arrivals_of_its_own() -> None:
    plan = LoadPlan(rates_per_s=(1, 2, 3), blocks=2, seed=7)
    assert plan.for_repeat(0) == plan
    seeds = {plan.for_repeat(repeat).seed for repeat in range(10)}
    assert len(seeds) == 10
    last = LoadPlan(rates_per_s=(1, 2, 3), blocks=2, seed=2**31 - 1).for_repeat(9)
    assert LoadPlan.model_validate(last.model_dump()) == last


def test_gamma_gaps_have_the_mean_and_the_spread_asked_for() -> None:
    gaps = np.diff(draw(arrivals="gamma", burstiness=4.0, rate_per_s=50.0, duration_s=2_000.0))
    assert np.mean(gaps) == pytest.approx(1 / 50, rel=0.03)
    assert np.var(gaps) / np.mean(gaps) ** 2 == pytest.approx(4.0, rel=0.1)
    assert stats.kstest(gaps, stats.gamma(a=0.25, scale=4 / 50).cdf).pvalue > 0.001


@pytest.mark.parametrize("arrivals", ["poisson", "constant", "gamma"])
def test_a_ramp_rises_along_a_line_and_then_keeps_the_rate(arrivals: str) -> None:
    """Over 10 s of ramp the expected number by time t is rate t^2 / 20: 50 in all, half of them in the last 2.93 s."""
    ramped = [draw(arrivals=arrivals, rate_per_s=10.0, ramp_s=10.0, block=block) for block in range(400)]
    for until, expected in ((5.0, 12.5), (10.0, 50.0), (20.0, 150.0)):
        mean = np.mean([sum(due < until for due in one) for one in ramped])
        assert mean == pytest.approx(expected, rel=0.06), until
    for one in ramped:
        assert list(one) == sorted(one)
        assert one[0] >= 0
        assert one[-1] < 20.0


def test_a_ramp_as_long_as_the_block_or_longer_ends_within_it() -> None:
    counts = [len(draw(rate_per_s=10.0, ramp_s=20.0, block=block)) for block in range(300)]
    assert np.mean(counts) == pytest.approx(100, rel=0.05)
    assert all(due < 20 for due in draw(rate_per_s=10.0, ramp_s=40.0))
    assert np.mean([len(draw(rate_per_s=10.0, ramp_s=40.0, block=b)) for b in range(300)]) == pytest.approx(
        50, rel=0.06
    )


def test_without_a_ramp_the_times_are_those_of_old() -> None:
    assert draw(ramp_s=0.0) == draw()
