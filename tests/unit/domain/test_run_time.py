"""Estimates of a run's time on scripted histories whose truth is known. The expected numbers are worked out by hand."""

from __future__ import annotations

import pytest

from kitedash.domain.experiment import Candidate, ExperimentSpec, LoadPlan
from kitedash.domain.run_plan import AGAIN, least_blocks, stage_names
from kitedash.domain.run_time import (
    History,
    Minutes,
    PastRun,
    Progress,
    RunKind,
    Span,
    StageNow,
    ends,
    known_remaining,
    least_blocks_s,
    number_format_of,
    remaining,
)
from kitedash.domain.wording import time_range
from tests.db.rows import a_spec

HERE = RunKind("tiny", "float32", "a processor")
SUITE = "quality:kitedash_repo"


def spec() -> ExperimentSpec:
    """3 rates x 4 blocks of 10 s: 120 s of blocks. A request may take 15 s."""
    load = LoadPlan(rates_per_s=(1, 2, 4), blocks=4, block_duration_s=10, request_timeout_s=15)
    return a_spec(load=load, suites=({"name": "kitedash_repo"},))


def past(
    kind: RunKind = HERE,
    *,
    load_s: float = 174.0,
    start_up_s: float = 30.0,
    blocks: int = 12,
    suite_s: float = 60.0,
    **more: float,
) -> PastRun:
    """By default: 30 s of start, 12 blocks of 10 s with 2 s around each, a suite of a minute."""
    stages = {"prepare": 6.0, "load": load_s, SUITE: suite_s} | more
    return PastRun(kind, stages, start_up_s, blocks, 12, 10.0 * blocks)


def test_one_earlier_run_gives_half_to_double_and_its_own_time_in_the_middle() -> None:
    history = History((past(),))
    assert history.stage(spec(), HERE, "prepare") == Span(3, 6, 12)
    assert history.stage(spec(), HERE, SUITE) == Span(30, 60, 120)
    # Load: start-up (15, 30, 60), around a block (1, 2, 4); at least half of the blocks of a run that measured all;
    # one overloaded rate may wait 2 x 15 s instead of measuring 2 more blocks of 10 s.
    assert history.stage(spec(), HERE, "load") == Span(15 + 6 * 11, 30 + 12 * 12, 60 + 12 * 14 + (2 * 15 - 2 * 10))
    assert history.run(spec(), HERE) == Span(3 + 81 + 30, 6 + 174 + 60, 12 + 238 + 120)


def test_the_baseline_measured_again_takes_its_load_and_no_suite() -> None:
    history = History((past(),))
    assert history.run(spec(), HERE, AGAIN) == Span(3 + 81, 6 + 174, 12 + 238)
    begun = Progress(frozenset({"prepare"}), purpose=AGAIN)
    assert remaining(spec(), HERE, history, begun) == Span(81, 174, 238)


def test_several_earlier_runs_narrow_the_range_to_what_was_seen() -> None:
    history = History(tuple(past(suite_s=seconds) for seconds in (50, 60, 70, 100)))
    assert history.stage(spec(), HERE, SUITE) == Span(50 / 1.25, 65, 100 * 1.25)


def test_the_likest_runs_count_and_others_only_where_there_are_none() -> None:
    same, other_format = past(suite_s=60), past(RunKind("tiny", "int8", "a processor"), suite_s=500)
    other_model = past(RunKind("large", "float32", "a processor"), suite_s=900)
    elsewhere = past(RunKind("tiny", "float32", "a GPU"), suite_s=2)
    history = History((other_model, elsewhere, other_format, same))
    assert history.stage(spec(), HERE, SUITE) == Span(30, 60, 120)
    assert history.likest(HERE) == 0
    fp8 = RunKind("tiny", "fp8", "a processor")  # two runs of the model: (1 + 1/2) x 1.5
    assert history.stage(spec(), fp8, SUITE) == Span(60 / 2.25, 280, 500 * 2.25)
    assert history.likest(fp8) == 1
    new = RunKind("new", "float32", "a processor")  # three runs of other models on the device: (1 + 1/3) x 3
    assert history.stage(spec(), new, SUITE) == Span(60 / 4, 500, 900 * 4)
    assert history.likest(new) == 2
    assert history.likest(RunKind("tiny", "float32", "")) is None


def test_a_stage_that_the_likest_runs_never_did_comes_from_the_next() -> None:
    without_suite = PastRun(HERE, {"prepare": 6.0}, 30.0)
    history = History((without_suite, past(RunKind("tiny", "int8", "a processor"))))
    assert history.stage(spec(), HERE, SUITE) == Span(60 / 3, 60, 60 * 3)


def test_nothing_is_claimed_where_nothing_is_known() -> None:
    assert History().run(spec(), HERE) is None
    only_prepared = History((PastRun(HERE, {"prepare": 6.0}, 30.0),))
    assert only_prepared.run(spec(), HERE) is None
    assert remaining(spec(), HERE, only_prepared, Progress()) is None
    assert known_remaining(spec(), HERE, only_prepared, Progress()) == Span(3, 6, 12)
    assert least_blocks_s(spec().load) == 60  # two blocks of each of the three rates, overloaded or not


def test_runs_that_were_overloaded_early_make_a_shorter_load_likely_but_not_certain() -> None:
    # 6 of 12 blocks in 30 + 6 x 12 s: half of the plan, and at least the 6 blocks that every candidate gets.
    history = History((past(load_s=102, blocks=6),))
    assert history.stage(spec(), HERE, "load") == Span(15 + 6 * 11, 30 + 6 * 12, 60 + 12 * 14 + 10)


@pytest.mark.parametrize(
    ("done", "least"),
    [
        (0, 6),  # two of each of three rates
        (1, 5),
        (2, 2 + 4),  # a rate that goes on after two blocks is measured to its end: 2 more, and 2 of each other rate
        (4, 4),
        (8, 2),
        (10, 2),
        (11, 1),
        (12, 0),
    ],
)
def test_how_many_blocks_are_still_measured_at_least(done: int, least: int) -> None:
    assert least_blocks(spec().load, done) == least


def test_a_fourth_rate_is_measured_only_after_one_that_is_not_overloaded() -> None:
    plan = LoadPlan(rates_per_s=(1, 2, 4, 8), blocks=4, block_duration_s=10)
    assert least_blocks(plan, 8) == 2  # the third may be overloaded: then nothing follows
    assert least_blocks(plan, 10) == 2 + 2  # it goes on, so it has a result, and the fourth follows
    assert least_blocks(plan, 12) == 2


def at(
    stage: str, elapsed_s: float, done: int, total: int, *finished: str, start_up_s: float | None = None
) -> Progress:
    return Progress(frozenset(finished), StageNow(stage, elapsed_s, done, total, start_up_s))


def test_at_the_beginning_of_a_stage_earlier_runs_speak() -> None:
    history = History((past(),))
    left = remaining(spec(), HERE, history, at(SUITE, 15, 0, 60, "prepare", "load"))
    assert left == Span(15, 45, 105)


def test_later_the_stages_own_pace_speaks_by_the_share_that_is_done() -> None:
    history = History((past(),))
    # 15 of 60 items are done after 31 s: a quarter. Earlier runs leave 60 - 31 = 29 s (from 30 - 31, so 0, to 120 - 31
    # = 89 s). By its own pace, with 1.1 + 1/15 = 7/6 as the factor of its range:
    # - half of the 16th is done: 31 / 15.5 = 2 s an item, 44.5 items are left: 89 s. 89/4 + 29 x 3/4 = 22.25 + 21.75.
    # - it is all but done: 31 / 16 = 1.9375 s, 44 are left: 85.25 s, / 7/6 = 73.0714 s. A quarter of it, and of 0 the
    #   rest.
    # - it has only begun: 31 / 15 s, 45 are left: 93 s, x 7/6 = 108.5 s, which is more than 89 s.
    left = remaining(spec(), HERE, history, at(SUITE, 31, 15, 60, "prepare", "load"))
    assert left is not None
    assert left.middle == pytest.approx(44.0)
    assert left.low == pytest.approx(18.267857)
    assert left.high == pytest.approx(108.5)


def test_without_earlier_runs_the_pace_of_the_load_leaves_the_engines_start_out() -> None:
    # 30 s of start, then 6.5 of 12 blocks in 78 s: 12 s each, 5.5 left: 66 s. The suite is unknown, so that the whole
    # is. The factor of the range is 1.1 + 1/6 = 19/15.
    # - At least 4 blocks are measured: the one under way, another of this rate, and two of the last. With the first all
    #   but done, 78 / 7 = 11.142857 s a block, 3 left: 33.428571 s, / 19/15.
    # - At most all are, the one under way having just begun: 78 / 6 = 13 s, 6 left: 78 s, x 19/15.
    progress = at("load", 108, 6, 12, "prepare", start_up_s=30)
    assert remaining(spec(), HERE, History(), progress) is None
    known = known_remaining(spec(), HERE, History(), progress)
    assert known.middle == pytest.approx(66.0)
    assert known.low == pytest.approx(26.390977)
    assert known.high == pytest.approx(98.8)


def test_the_pace_of_the_load_is_never_below_the_blocks_own_length() -> None:
    """After a restart the blocks done before count at once."""
    known = known_remaining(spec(), HERE, History(), at("load", 5, 6, 12, "prepare", start_up_s=0))
    assert known.middle == 55  # 5.5 blocks of 10 s, though 6.5 in 5 s would make them much shorter


def test_a_stage_that_outlasts_all_earlier_ones_is_not_said_to_be_nearly_done() -> None:
    history = History((past(),))
    late = remaining(spec(), HERE, history, at(SUITE, 70, 0, 100, "prepare", "load"))
    assert late == Span(0, 12.5, 50)  # past the 60 s expected: a quarter of what the range leaves
    later = remaining(spec(), HERE, history, at(SUITE, 119, 0, 100, "prepare", "load"))
    assert later == Span(0, 0.25, 1)
    over = remaining(spec(), HERE, history, at(SUITE, 300, 0, 100, "prepare", "load"))
    assert over == Span(0, 150, 300)


@pytest.mark.parametrize("pace", [0.5, 1.0, 2.0])
def test_the_truth_lies_in_the_range_all_along_a_run_that_is_half_to_twice_as_slow_as_the_one_before(
    pace: float,
) -> None:
    """A scripted run: all takes `pace` times what it took before, but the blocks' own length."""
    history = History((past(),))
    load_s = 30 * pace + 12 * (10 + 2 * pace)
    stages = {"prepare": (6 * pace, 1), "load": (load_s, 12), SUITE: (60 * pace, 60)}
    assert tuple(stages) == stage_names(spec())
    total_s = sum(seconds for seconds, _ in stages.values())
    began = 0.0
    finished: list[str] = []
    widths: list[float] = []
    for name, (seconds, units) in stages.items():
        start_s = pace * 30 if name == "load" else 0.0
        for step in range(100):
            elapsed_s = seconds * step / 100
            done = max(0, int(units * (elapsed_s - start_s) / (seconds - start_s)))
            known_start = start_s if name == "load" and elapsed_s >= start_s else None
            left = remaining(spec(), HERE, history, at(name, elapsed_s, done, units, *finished, start_up_s=known_start))
            truth = total_s - began - elapsed_s
            assert left is not None
            assert left.low - 1e-9 <= truth <= left.high + 1e-9, (name, elapsed_s, left, truth)
            assert left.low <= left.middle <= left.high
            widths.append(left.high - left.low)
        finished.append(name)
        began += seconds
    assert widths[-1] < 0.1 * widths[0]  # certainty comes with progress, and not before


def test_waiting_runs_go_to_the_slot_that_is_free_first() -> None:
    two = [Span(0, 0, 0), Span(10, 60, 100)]
    runs = [Span(20, 30, 40), Span(20, 30, 40), Span(20, 30, 40)]
    # Middle: the free slot takes the first two (30, 60), then both are free at 60 s: 90. Low: 20, 30, 40. High: 40, 80,
    # then the same slot again at 80 before the other at 100: 120.
    assert ends(two, runs) == [Span(20, 30, 40), Span(30, 60, 80), Span(40, 90, 120)]


def test_behind_a_run_of_unknown_length_nothing_is_known() -> None:
    known = Span(20, 30, 40)
    assert ends([Span(0, 0, 0)], [known, None, known]) == [known, None, None]
    assert ends([], [known]) == [None]


def test_the_number_format_is_kitedashs_own_or_the_dtype() -> None:
    assert (
        number_format_of(Candidate(name="a", model="m", quantization="int8", engine_args={"dtype": "float32"}))
        == "int8"
    )
    assert number_format_of(Candidate(name="a", model="m", engine_args={"dtype": "bfloat16"})) == "bfloat16"
    for dtype in ({}, {"dtype": "auto"}):
        assert number_format_of(Candidate(name="a", model="m", engine_args=dtype)) == "model's own"


@pytest.mark.parametrize(
    ("minutes", "text"),
    [
        (Minutes(3.9, 9.2, 16.1), "about 9 min (3 to 17 min)"),
        (Minutes(0.2, 0.4, 0.9), "under 1 min (0 to 1 min)"),
        (Minutes(0, 0, 0), "under 1 min"),
        (Minutes(0.5, 1.2, 6.4), "about 1 min (0 to 7 min)"),
        (Minutes(31.5, 58, 92.2), "about 58 min (31 min to 1 h 33 min)"),
        (Minutes(60, 125.4, 250), "about 2 h 05 min (1 h 00 to 4 h 10 min)"),
    ],
)
def test_a_time_is_written_with_its_range_rounded_outward(minutes: Minutes, text: str) -> None:
    assert time_range(minutes) == text
