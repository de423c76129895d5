"""The noise floor on the pages: the line on the trade-off, differences called noise, the run that it rests on."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from db import engine, results, runs
from kitedash.domain.results import Estimate
from kitedash.domain.run_plan import AGAIN
from kitedash.settings import settings
from kitedash.ui import address
from kitedash.ui.escape import markdown
from tests.ui.conftest import opened, texts
from tests.ui.seed import Seeded

pytestmark = pytest.mark.ui


def measured_again(experiment_id: str, factor: float) -> str:
    """The experiment's baseline once more, with the levels of its first run and every TTFT times `factor`."""

    def times(estimate: Estimate) -> Estimate:
        low, high = (None if one is None else one * factor for one in (estimate.low, estimate.high))
        return replace(estimate, value=None if estimate.value is None else estimate.value * factor, low=low, high=high)

    run_id, now = f"{experiment_id[:8]}-again", datetime.now(UTC)
    with engine.sessions(settings().url).begin() as session:
        first = runs.of_experiment(session, experiment_id)[0]
        facts = runs.facts_of(first)
        assert facts is not None
        runs.add(
            session,
            run_id,
            experiment_id=experiment_id,
            position=20,
            repeat=0,
            candidate=runs.candidate_of(first),
            is_baseline=True,
            queue="cpu",
            now=now,
            purpose=AGAIN,
        )
        runs.begin(session, run_id, "test-host:cpu", now - timedelta(minutes=6))
        runs.set_facts(session, run_id, facts)
        for level in results.levels(session, first.id):
            results.store_level(session, run_id, replace(level, ttft_p90_ms=times(level.ttft_p90_ms)))
        runs.finish(session, run_id, now)
    return run_id


def test_the_floor_and_what_is_within_it_on_the_trade_off_page(own_database: Seeded) -> None:
    """int8 has an 11.5 % lower P90 TTFT than float32 at the same rate: noise under a floor of 20 %, not under 5 %."""
    measured_again(own_database.many, 1.2)
    shown = texts(opened("tradeoff", {address.EXPERIMENT: own_database.many, address.CANDIDATE: "int8"}))
    assert markdown("the baseline measured twice differs by 20.0 % in P90 TTFT, 0.0 % in P90 TPOT and") in shown
    assert markdown("≈ noise: -11.5 %") in shown
    assert markdown("int8 differs from float32 by noise only") in shown


def test_a_difference_beyond_the_floor_stays_one(own_database: Seeded) -> None:
    measured_again(own_database.many, 1.05)
    shown = texts(opened("tradeoff", {address.EXPERIMENT: own_database.many, address.CANDIDATE: "int8"}))
    assert markdown("▲ better: -11.5 %") in shown
    assert "by noise only" not in shown


def test_without_a_second_measurement_it_is_said(own_database: Seeded) -> None:
    shown = texts(opened("tradeoff", {address.EXPERIMENT: own_database.many}))
    assert markdown("Noise floor: not measured, since the baseline was measured once only.") in shown
    alone = texts(opened("tradeoff", {address.EXPERIMENT: own_database.one}))
    assert markdown("Noise floor: ") not in alone  # one candidate has nothing to be compared with


def test_its_run_is_told_from_the_baselines_first(own_database: Seeded) -> None:
    run_id = measured_again(own_database.many, 1.2)
    at = opened("runs", {address.EXPERIMENT: own_database.many, address.RUN: run_id})
    table = at.dataframe[0].value
    assert list(table["Candidate"])[-1] == "float32 (baseline again)"
    assert list(table["Now"])[-1] == "baseline, measured again (noise floor)"
    assert "Baseline, measured again (noise floor)" in texts(at)
    page = opened("run", {address.RUN: run_id})
    assert "### float32 :gray[(baseline again)] · ✓ finished" in texts(page)
    assert "this one counts for the noise floor alone" in texts(page)


@pytest.mark.usefixtures("no_rows")
def test_the_form_asks_for_it_and_can_leave_it_out() -> None:
    at = opened("launch", {})
    box = at.checkbox(key=address.launch_box("noise_floor"))
    assert box.value is True
    at = box.uncheck().run()
    assert at.checkbox(key=address.launch_box("noise_floor")).value is False
