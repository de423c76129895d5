"""The trade-off view put together from evidence by hand: numbers, statuses, front, verdicts and what is missing."""

from __future__ import annotations

import pytest

from kitedash.domain.experiment import Guardrails, Targets
from kitedash.domain.recommend import RecommendationKind
from kitedash.domain.results import Estimate, LevelStatus, RunStatus
from kitedash.domain.targets import Status
from kitedash.services.tradeoff import assemble
from tests.unit.domain.levels import level, spread
from tests.unit.services.evidence import (
    FACTS,
    LEVELS,
    PUBLIC,
    REPO,
    SPEC,
    answers,
    candidate,
    experiment,
    on,
    suite,
)
from tests.unit.services.price_books import prices


def test_one_candidate_by_hand() -> None:
    """Kite's peak of 11.574/s over 4/s held: 3 replicas x 2.50 USD x 24 h = 180 USD over 200 thousand requests."""
    view = assemble(experiment(candidate("float32")), prices(2.5))
    (only,) = view.candidates
    assert only.point is not None
    assert only.point.summary.rate_per_s == 4
    assert only.held_rate_per_s == Estimate(4, 4, 4, 400)
    assert only.cost is not None
    assert only.cost.replicas == 3
    assert only.cost.deployed_usd.value == pytest.approx(0.9)
    assert (only.cost.deployed_usd.low, only.cost.deployed_usd.high) == pytest.approx((0.9, 0.9))
    assert only.cost.saturated_usd.value == pytest.approx(0.17361, rel=1e-4)
    assert [point.cost_usd for point in only.levels] == pytest.approx([0.69444, 0.34722, 0.17361], rel=1e-4)
    assert only.pass_rate is not None
    assert only.pass_rate.value == pytest.approx(0.75)
    assert (only.ttft_status, only.cost_status, only.pass_rate_status, only.status) == (Status.MEETS,) * 4
    assert [found.verdict for found in only.suites] == ["baseline", "baseline"]
    assert only.on_front
    assert only.front_probability == 1.0
    assert view.recommendation.candidate == "float32"
    assert view.recommendation.established
    assert view.device_kind == "cpu"


def test_devices_are_paid_for() -> None:
    view = assemble(experiment(candidate("float32", devices=2)), prices(2.5))
    assert view.candidates[0].cost is not None
    assert view.candidates[0].cost.deployed_usd.value == pytest.approx(1.8)
    assert view.candidates[0].cost_status == Status.MISSES


def test_a_viewers_targets_move_everything_and_leave_what_was_written_down() -> None:
    evidence = experiment(candidate("float32"), candidate("fp8"))
    strict = Targets(ttft_p90_ms=700, cost_per_1000_requests_usd=0.5, pass_rate=0.9)
    view = assemble(evidence, prices(2.5), targets=strict)
    assert view.spec.targets == SPEC.targets
    assert view.targets == strict
    found = view.candidates[0]
    # 700 ms: 2/s is held by its estimate of 600 ms, 1/s for certain, 4/s is ruled out: 6 replicas, 12 at worst.
    assert found.held_rate_per_s == Estimate(2, 1, 2, 400)
    assert found.cost is not None
    assert found.cost.deployed_usd.value == pytest.approx(1.8)
    assert found.cost.deployed_usd.high == pytest.approx(3.6)
    assert (found.ttft_status, found.cost_status, found.pass_rate_status) == (
        Status.UNCERTAIN,
        Status.MISSES,
        Status.MISSES,
    )
    assert view.recommendation.kind == RecommendationKind.NEAREST
    tight = assemble(evidence, prices(2.5), guardrails=Guardrails(tpot_p90_ms=10))
    assert tight.candidates[0].point is None
    assert tight.candidates[0].cost is None
    assert (tight.candidates[0].ttft_status, tight.candidates[0].cost_status) == (Status.UNCERTAIN, Status.MISSES)
    assert "No measured rate is held." in tight.candidates[0].notes


def test_the_cheaper_of_two_that_pass() -> None:
    """fp8 holds 4/s and float32 2/s only; the same items pass. Cheaper and equal otherwise: float32 leaves the
    front.
    """
    slow = (level(1, spread(300, 250, 350)), level(2, spread(901, 850, 950)), level(4, spread(1_500, 1_400, 1_600)))
    looser = Targets(ttft_p90_ms=1_000, cost_per_1000_requests_usd=2, pass_rate=0.6)
    view = assemble(experiment(candidate("float32", slow), candidate("fp8")), prices(2.5), targets=looser)
    baseline, fp8 = view.candidates
    assert [found.verdict for found in fp8.suites] == ["pass", "pass"]
    assert (baseline.status, fp8.status) == (Status.MEETS, Status.MEETS)
    assert view.recommendation.candidate == "fp8"
    assert (baseline.on_front, fp8.on_front) == (False, True)
    assert fp8.front_probability == 1.0
    assert baseline.front_probability is not None
    assert baseline.front_probability < 0.5


def test_a_candidate_that_lost_quality_is_not_recommended_though_it_is_cheaper() -> None:
    worse = (suite(REPO, answers(400, 250)), suite(PUBLIC, answers(400, 200)))
    slow = (level(1, spread(300, 250, 350)), level(2, spread(901, 850, 950)), level(4, spread(1_500, 1_400, 1_600)))
    looser = Targets(ttft_p90_ms=1_000, cost_per_1000_requests_usd=2, pass_rate=0.5)
    view = assemble(
        experiment(candidate("float32", slow), candidate("int4", suites=worse)), prices(2.5), targets=looser
    )
    assert view.candidates[1].suites[0].verdict == "fail"
    assert view.candidates[1].status == Status.MEETS  # of its own targets: the verdict is another matter
    assert view.recommendation.candidate == "float32"
    assert len(view.candidates) == 2


def test_another_version_of_a_suite_is_not_compared() -> None:
    other = (suite(REPO, answers(400, 300), version="other"), suite(PUBLIC, answers(400, 200)))
    view = assemble(experiment(candidate("float32"), candidate("fp8", suites=other)), prices(2.5))
    fp8 = view.candidates[1]
    assert fp8.suites[0].verdict == "pending"
    assert "only equal versions are" in fp8.suites[0].verdict_sentence
    assert any("only equal versions are" in note for note in fp8.notes)
    assert (fp8.on_front, fp8.front_probability) == (False, None)
    assert view.recommendation.candidate == "float32"


def test_a_run_under_way_is_pending() -> None:
    running = candidate("fp8", LEVELS[:1], suites=(), status=RunStatus.RUNNING, complete=False)
    view = assemble(experiment(candidate("float32"), running), prices(2.5))
    fp8 = view.candidates[1]
    assert (fp8.ttft_status, fp8.cost_status, fp8.pass_rate_status, fp8.status) == (Status.PENDING,) * 4
    assert fp8.point is not None  # what is measured is shown
    assert [found.verdict for found in fp8.suites] == ["pending", "pending"]
    assert not fp8.on_front
    assert view.runs_active == 1


def test_a_baseline_without_answers_leaves_verdicts_pending() -> None:
    view = assemble(experiment(candidate("float32", suites=()), candidate("fp8")), prices(2.5))
    assert [found.verdict for found in view.candidates[1].suites] == ["pending", "pending"]
    assert view.candidates[1].on_front  # its own three numbers are there
    assert not view.recommendation.established


def test_a_failed_run_stays_with_its_reason() -> None:
    broken = candidate("fp8", (), suites=(), status=RunStatus.FAILED, facts=None, error="vLLM: no FP8 here")
    view = assemble(experiment(candidate("float32"), broken), prices(2.5))
    assert view.candidates[1].error == "vLLM: no FP8 here"
    assert view.candidates[1].status == Status.PENDING
    assert view.recommendation.candidate == "float32"


def test_a_device_without_a_price_has_no_cost_and_says_so() -> None:
    unknown = on(FACTS, device_kind="gpu", device_name="Unheard-of GPU")
    view = assemble(experiment(candidate("float32", facts=unknown)), prices(2.5))
    (only,) = view.candidates
    assert only.cost is None
    assert [point.cost_usd for point in only.levels] == [None, None, None]
    assert only.cost_status == Status.PENDING
    assert only.point is not None
    assert any("Unheard-of GPU" in note for note in view.notes)
    assert any("Unheard-of GPU" in note for note in only.notes)
    assert not only.on_front
    assert not view.recommendation.established


def test_invalid_levels_are_kept_apart() -> None:
    levels = (*LEVELS[:2], level(4, spread(100, 90, 110), status=LevelStatus.INVALID))
    (only,) = assemble(experiment(candidate("float32", levels)), prices(2.5)).candidates
    assert only.point is not None
    assert only.point.summary.rate_per_s == 2
    assert only.levels[2].cost_usd is None
    assert not only.levels[2].held
    assert "Invalid, and so left out: 4/s." in only.notes


def test_what_would_settle_it() -> None:
    """4/s at 900 [750, 1,050] ms, n = 400, against 1,000 ms: (150 / 100)^2 x 400 = 900 requests. Certain is only
    2/s: 1.80 USD.
    """
    levels = (*LEVELS[:2], level(4, spread(900, 750, 1_050)))
    few = (suite(REPO, answers(60, 40)), suite(PUBLIC, answers(400, 200)))
    view = assemble(experiment(candidate("float32", levels, suites=few)), prices(2.5))
    (only,) = view.candidates
    assert (only.ttft_status, only.cost_status, only.pass_rate_status) == (Status.UNCERTAIN,) * 3
    assert only.settle_parts[0] == "cost: whether 4/s is held (P90 TTFT: about 900 requests at 4/s (now 400))"
    assert only.settle_parts[1].startswith("pass rate: about ")
    assert only.settles == "; ".join(only.settle_parts)
    assert view.recommendation.settles == only.settle_parts
    assert view.recommendation.kind == RecommendationKind.LEADING


def test_a_lower_rate_that_already_settles_it_is_named() -> None:
    """As above, but 2 USD may be spent: the 1.80 USD of 2/s, where P90 TTFT is certain, are within that."""
    levels = (*LEVELS[:2], level(4, spread(900, 750, 1_050)))
    targets = SPEC.targets.model_copy(update={"cost_per_1000_requests_usd": 2.0})
    (only,) = assemble(experiment(candidate("float32", levels)), prices(2.5), targets=targets).candidates
    assert (only.ttft_status, only.cost_status) == (Status.UNCERTAIN, Status.MEETS)
    assert only.settle_parts == (
        "P90 TTFT: established at 2/s, where the cost is within its target too",
        "P90 TTFT: about 900 requests at 4/s (now 400)",
    )


def test_no_repository_suite_means_no_pass_rate() -> None:
    view = assemble(experiment(candidate("float32", suites=(suite(PUBLIC, answers(400, 200)),))), prices(2.5))
    assert view.candidates[0].pass_rate is None
    assert view.candidates[0].pass_rate_status == Status.PENDING
    assert any("no pass rate" in note for note in view.notes)


def test_nothing_stored_yet() -> None:
    waiting = candidate("float32", (), suites=(), status=RunStatus.QUEUED, complete=False, facts=None)
    view = assemble(experiment(waiting), prices(2.5))
    assert view.device_kind == ""
    assert view.notes == ()
    assert view.recommendation.kind == RecommendationKind.NOTHING_MEASURED
