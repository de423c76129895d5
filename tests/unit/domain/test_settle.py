"""How many more requests or items: the root law by hand, and by a simulation that collects them."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest

from kitedash.domain.experiment import Guardrails, Targets, Workload
from kitedash.domain.results import Estimate
from kitedash.domain.settle import needed_to_settle, settle_cost, settle_level, settle_pass_rate, settle_verdict
from tests.unit.domain.levels import level, spread

TARGETS = Targets(ttft_p90_ms=1_000, cost_per_1000_requests_usd=1, pass_rate=0.6)
GUARDRAILS = Guardrails(tpot_p90_ms=50)


def test_four_times_the_sample_halves_the_interval() -> None:
    assert needed_to_settle(Estimate(900, 700, 1_100, 100), 1_000) == 400
    assert needed_to_settle(Estimate(0.65, 0.55, 0.75, 100), 0.6) == 400
    assert needed_to_settle(Estimate(0.55, 0.40, 0.70, 100), 0.6) == 900


def test_what_no_sample_settles() -> None:
    assert needed_to_settle(Estimate(999, 900, 1_100, 100), 1_000) is None
    assert needed_to_settle(Estimate(1_000, 900, 1_100, 100), 1_000) is None
    assert needed_to_settle(Estimate(900, 800, None, 100), 1_000) is None
    assert needed_to_settle(Estimate(None), 1_000) is None


def test_the_number_is_about_right() -> None:
    """Normal data, true mean 0.25 standard deviations from the target: after the number named at n = 20, half of the
    intervals or more have left the target."""
    rng = np.random.default_rng(7)
    settled, asked = 0, 0
    for _ in range(400):
        first = rng.standard_normal(20)
        half = 1.96 * first.std(ddof=1) / sqrt(20)
        if not (first.mean() - half < 0.25 < first.mean() + half):
            continue
        needed = needed_to_settle(Estimate(first.mean(), first.mean() - half, first.mean() + half, 20), 0.25)
        if needed is None:
            continue
        asked += 1
        full = np.concatenate([first, rng.standard_normal(needed - 20)])
        half = 1.96 * full.std(ddof=1) / sqrt(needed)
        settled += not (full.mean() - half < 0.25 < full.mean() + half)
    assert asked > 100
    assert settled / asked > 0.4


def test_sentences() -> None:
    assert (
        settle_level(level(2, spread(900, 700, 1_100, 110)), TARGETS, GUARDRAILS)
        == "P90 TTFT: about 440 requests at 2/s (now 110)"
    )
    assert settle_level(level(2, spread(900, 800, 950)), TARGETS, GUARDRAILS) == ""
    few = level(2, Estimate(900, None, None, 12, "too few (about 40 more requests would do)", 40))
    assert settle_level(few, TARGETS, GUARDRAILS) == "P90 TTFT: about 52 requests at 2/s (now 12)"
    hopeless = level(2, Estimate(900, None, None, 12, "too few"))
    assert settle_level(hopeless, TARGETS, GUARDRAILS) == "P90 TTFT at 2/s: too few, now 12"
    both = replace(few, tpot_p90_ms=Estimate(40, 30, None, 12, "too few", 100))
    assert settle_level(both, TARGETS, GUARDRAILS) == "P90 TTFT and P90 TPOT: about 120 requests at 2/s (now 12)"
    near = level(2, spread(999, 900, 1_100))
    assert settle_level(near, TARGETS, GUARDRAILS) == (
        "P90 TTFT: at 2/s it is too near 1,000 ms for more requests to settle (now 400)"
    )
    assert settle_pass_rate(Estimate(0.65, 0.55, 0.75, 96), 0.6) == "pass rate: about 390 items (now 96)"
    assert settle_verdict("repo", "inconclusive", 96, 496) == "quality on repo: about 500 items (now 96)"
    assert settle_verdict("repo", "uninformative", 10, 60) == "quality on repo: about 60 items (now 10)"
    assert "above chance" in settle_verdict("repo", "uninformative", 96, None)
    assert "hardly" in settle_verdict("repo", "inconclusive", 96, None)
    assert "baseline" in settle_verdict("repo", "pending", 0, None)
    assert settle_verdict("repo", "pass", 96, None) == ""


def test_the_rate_that_decides_the_cost() -> None:
    # Kite at 2.50 USD an hour: 3.60, 1.80, 0.90, 0.60 USD at 1, 2, 4, 8/s; the target of 1 USD needs 4/s.
    levels = [
        level(1, spread(300, 250, 350)),
        level(2, spread(900, 700, 1_100)),
        level(4, spread(950, 850, 1_050, 100)),
    ]
    assert settle_cost(levels, TARGETS, GUARDRAILS, 2.5, 1, Workload()) == (
        "cost: whether 4/s is held (P90 TTFT: about 400 requests at 4/s (now 100))"
    )
    assert settle_cost(levels[:2], TARGETS, GUARDRAILS, 2.5, 1, Workload()) == ""


@pytest.mark.parametrize("n", [12, 99, 100, 101, 1_234])
def test_rounded_up_to_two_digits(n: int) -> None:
    written = settle_verdict("repo", "inconclusive", 1, n).split("about ")[1].split(" items")[0]
    assert n <= int(written.replace(",", "")) <= 1.1 * n
