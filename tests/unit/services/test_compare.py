"""One candidate against another, on evidence put together by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from kitedash.domain.errors import NotFound
from kitedash.domain.experiment import Candidate
from kitedash.domain.results import Answer, LevelStatus, LevelSummary, RunStatus
from kitedash.services.compare import ComparisonView, against_front, compare
from kitedash.services.evidence import CandidateEvidence, ExperimentEvidence, MeasuredTwice
from kitedash.services.tradeoff import assemble
from tests.unit.domain.levels import level, spread
from tests.unit.services.evidence import LEVELS, PUBLIC, REPO, answers, candidate, experiment, suite
from tests.unit.services.price_books import prices

FAST = (level(1, spread(150, 125, 175)), level(2, spread(300, 250, 375)), level(4, spread(450, 400, 475)))
SLOW = (level(1, spread(3_000, 2_500, 3_500)),)


def passed(*numbers: int, n: int = 80) -> tuple[Answer, ...]:
    return tuple(replace(answer, passed=i in numbers) for i, answer in enumerate(answers(n, 0)))


def made(*candidates: CandidateEvidence) -> ExperimentEvidence:
    return experiment(candidate("float32"), *candidates)


def against(evidence: ExperimentEvidence, name: str, other: str) -> ComparisonView:
    return compare(evidence, assemble(evidence, prices(0.1)), name, other)


def test_all_three_numbers_are_always_there() -> None:
    found = against(made(candidate("fp8", FAST)), "fp8", "float32")
    assert [one.dimension for one in found.differences] == ["P90 TTFT", "deployed cost", "pass rate"]
    ttft, cost, quality = found.differences
    assert ttft.change is not None
    assert ttft.change.value == pytest.approx(-0.5)  # 450 against 900 ms, both at 4/s
    assert (ttft.outcome, ttft.established) == ("better", True)
    assert "450 ms at 4/s against 900 ms at 4/s: 50.0 % lower" in ttft.sentence
    assert (cost.outcome, cost.established) == ("equal", False)  # as many replicas
    assert (quality.outcome, quality.established) == ("equal", False)  # the same answers


def test_any_two_candidates_compare_and_not_only_with_the_baseline() -> None:
    one = candidate("fp8", suites=(suite(REPO, passed(*range(60))),))
    two = candidate("int8", suites=(suite(REPO, passed(*range(3, 50))),))
    found = against(made(one, two), "fp8", "int8")
    (repository, public) = found.suites
    assert repository.fixed == tuple(f"item-{i:03d}" for i in (*range(3), *range(50, 60)))
    assert repository.broken == ()
    assert (len(repository.both_fail), repository.both_pass, repository.n) == (20, 47, 80)
    assert repository.change is not None
    assert repository.change.value == pytest.approx(13 / 80)
    assert found.differences[2].established
    assert (public.comparable, public.change) == (False, None)
    assert public.sentence == "fp8 and int8 have not answered it."


def test_the_two_directions_mirror_each_other() -> None:
    one = candidate("fp8", FAST, suites=(suite(REPO, passed(*range(40))),))
    two = candidate("int8", suites=(suite(REPO, passed(*range(10, 70))),))
    evidence = made(one, two)
    there, back = against(evidence, "fp8", "int8"), against(evidence, "int8", "fp8")
    assert there.suites[0].fixed == back.suites[0].broken
    mine, theirs = there.suites[0].change, back.suites[0].change
    assert mine is not None
    assert theirs is not None
    assert theirs.value == pytest.approx(-(mine.value or 0))
    assert (theirs.low, theirs.high) == pytest.approx((-(mine.high or 0), -(mine.low or 0)))
    ratio, inverse = there.differences[0].change, back.differences[0].change
    assert ratio is not None
    assert inverse is not None
    assert (1 + (ratio.low or 0)) * (1 + (inverse.high or 0)) == pytest.approx(1)


def test_only_equal_versions_asked_in_the_same_words_compare() -> None:
    newer = candidate("fp8", suites=(suite(REPO, passed(1), version="version-2"),))
    found = against(made(newer), "fp8", "float32").suites[0]
    assert not found.comparable
    assert "version-" in found.sentence
    words = [replace(answer, prompt_sha256="other") for answer in answers(400, 300)]
    asked = [replace(answer, prompt_sha256="one") for answer in answers(400, 300)]
    evidence = experiment(
        candidate("float32", suites=(suite(REPO, asked),)), candidate("fp8", suites=(suite(REPO, words),))
    )
    found = against(evidence, "fp8", "float32").suites[0]
    assert (found.comparable, found.n, found.fixed) == (False, 0, ())
    assert found.sentence == "400 of 400 items were not asked in the same words of both."


def test_an_item_that_the_other_failed_to_answer_is_fixed_but_counts_for_nothing() -> None:
    broken = [replace(answer, error="HTTP 500") if i == 0 else answer for i, answer in enumerate(passed(*range(1, 50)))]
    evidence = made(
        candidate("fp8", suites=(suite(REPO, passed(*range(50))),)), candidate("int8", suites=(suite(REPO, broken),))
    )
    found = against(evidence, "fp8", "int8").suites[0]
    assert found.fixed == ("item-000",)
    assert found.change is not None
    assert found.change.value == 0
    assert "1 of the fixed count for nothing" in found.sentence


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (candidate("fp8", SLOW), "No measured rate of fp8 is held, so it has no operating point."),
        (candidate("fp8", (), error="No memory."), "fp8 was not measured: No memory."),
        (candidate("fp8", (), complete=False), "fp8 has not been measured yet."),
        (replace(candidate("fp8"), other_requests=True), "fp8 was measured with other requests than the baseline."),
    ],
)
def test_without_an_operating_point_it_is_unknown_with_the_reason(other: CandidateEvidence, reason: str) -> None:
    found = against(made(other), "float32", "fp8")
    for difference in found.differences[:2]:
        assert (difference.outcome, difference.established, difference.change) == ("unknown", False, None)
        assert reason in difference.sentence


def test_only_the_settings_that_differ_are_listed() -> None:
    mine = Candidate(
        name="fp8",
        model="m",
        quantization="fp8",
        engine_args={"max-num-seqs": 4, "enable-prefix-caching": False, "dtype": "bfloat16"},
        environment={"VLLM_X": "1"},
        devices=2,
    )
    theirs = Candidate(name="float32", model="m", engine_args={"max-num-seqs": 8, "dtype": "bfloat16"})
    evidence = experiment(replace(candidate("float32"), candidate=theirs), replace(candidate("fp8"), candidate=mine))
    assert against(evidence, "fp8", "float32").settings == (
        ("number format", "fp8", "none"),
        ("max-num-seqs", "4", "8"),
        ("enable-prefix-caching", "false", "not set"),
        ("environment VLLM_X", "1", "not set"),
        ("devices", "2", "1"),
    )


def test_against_the_front_and_the_baseline_each_once() -> None:
    """The baseline is slower and no better than fp8, so it is off the front; int8 passes more but costs more."""
    evidence = made(
        candidate("fp8", FAST),
        candidate("int8", SLOW_BUT_HELD, suites=(suite(REPO, answers(400, 390)), suite(PUBLIC, answers(400, 200)))),
    )
    view = assemble(evidence, prices(0.1))
    assert [one.name for one in view.candidates if one.on_front] == ["fp8", "int8"]
    assert _others(against_front(evidence, view, "fp8")) == ["float32", "int8"]
    assert _others(against_front(evidence, view, "float32")) == ["fp8", "int8"]


SLOW_BUT_HELD = (level(1, spread(900, 800, 950)), *(replace(one, status=LevelStatus.OVERLOADED) for one in LEVELS[1:]))


def _others(found: Sequence[ComparisonView]) -> list[str]:
    return [one.other for one in found]


def test_an_unknown_candidate_is_not_found() -> None:
    evidence = made()
    view = assemble(evidence, prices(0.1))
    for names in (("nope", "float32"), ("float32", "nope")):
        with pytest.raises(NotFound, match="nope"):
            compare(evidence, view, *names)


def measured_twice(evidence: ExperimentEvidence, again: Sequence[LevelSummary]) -> ExperimentEvidence:
    first = evidence.candidates[0].levels
    return replace(evidence, twice=MeasuredTwice("run-float32", "again", RunStatus.FINISHED, first, tuple(again)))


def test_a_cost_that_hangs_on_noise_is_noise() -> None:
    """The target is 1,000 ms. float32 has 900 ms at 4/s and holds it, fp8 has 1,050 ms there and holds 2/s only: with a
    floor of 20 % fp8 could have been seen at 875 ms. With one of 2 % it could not."""
    barely = (LEVELS[0], LEVELS[1], level(4, spread(1_050, 1_020, 1_080)))
    evidence = made(candidate("fp8", barely))
    assert against(evidence, "fp8", "float32").differences[1].outcome == "worse"
    for factor, outcome in ((1.2, "noise"), (1.02, "worse")):
        noisy = measured_twice(evidence, _slower(1 / factor))
        assert assemble(noisy, prices(0.1)).noise.cost.floor == 0  # 4/s both times
        found = against(noisy, "fp8", "float32").differences[1]
        assert (found.outcome, found.established) == (outcome, outcome == "worse")
        assert ("moved by the noise floor" in found.sentence) == (outcome == "noise")


def test_where_the_baseline_itself_held_another_rate_such_a_difference_in_cost_is_noise() -> None:
    """float32 at 4/s: 900 ms, then 1,080 ms, so 2/s held; one that costs what holds 2/s costs is no dearer for sure."""
    evidence = measured_twice(made(candidate("fp8", LEVELS[:2])), _slower(1.2))
    view = assemble(evidence, prices(0.1))
    mine, theirs = (one.cost for one in view.candidates)
    assert mine is not None
    assert theirs is not None
    apart = (theirs.deployed_usd.value or 0) / (mine.deployed_usd.value or 1) - 1
    assert view.noise.cost.floor == pytest.approx(apart)
    assert apart > 0.5
    assert compare(evidence, view, "fp8", "float32").differences[1].outcome == "noise"


def test_what_noise_put_before_another_is_not_called_ahead() -> None:
    near = tuple(level(one.rate_per_s, spread((one.ttft_p90_ms.value or 0) * 1.05, None, None)) for one in LEVELS)
    quick = measured_twice(made(candidate("fp8", near)), _slower(1.1))
    (note,) = assemble(quick, prices(0.1)).notes
    assert note.startswith("fp8 differs from float32 by noise only in what the recommendation goes by")
    assert assemble(measured_twice(made(candidate("fp8", near)), _slower(1.01)), prices(0.1)).notes == ()


def _slower(factor: float) -> list[LevelSummary]:
    return [level(one.rate_per_s, spread((one.ttft_p90_ms.value or 0) * factor, None, None)) for one in LEVELS]
