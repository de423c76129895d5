"""The order of an experiment's runs: blocks of all candidates, random within a block, the baseline at both ends."""

from __future__ import annotations

from collections import Counter

import pytest

from kitedash.domain.expand import expand
from kitedash.domain.experiment import LoadPlan
from kitedash.domain.run_order import as_written, planned_runs
from kitedash.domain.run_plan import AGAIN, MEASURED, stage_names
from tests.db.rows import a_spec

NAMES = ("a", "b", "c", "d")
FOUR = tuple({"name": name, "engine_args": {"max-num-seqs": number}} for number, name in enumerate(NAMES, start=1))


def order(
    seed: int = 1, *, repeats: int = 1, noise_floor: bool = True, baseline: str = "c"
) -> list[tuple[str, int, str]]:
    spec = a_spec(
        candidates=FOUR,
        baseline=baseline,
        repeats=repeats,
        noise_floor=noise_floor,
        load=LoadPlan(rates_per_s=(1, 2, 3), seed=seed),
    )
    return [(run.candidate.name, run.repeat, run.purpose) for run in planned_runs(spec, expand(spec))]


def test_every_repeat_is_a_block_of_all_candidates() -> None:
    found = order(repeats=3, noise_floor=False)
    blocks = [found[start : start + 4] for start in range(0, 12, 4)]
    assert [{repeat for _, repeat, _ in block} for block in blocks] == [{0}, {1}, {2}]
    assert [sorted(name for name, _, _ in block) for block in blocks] == [list(NAMES)] * 3
    assert {purpose for *_, purpose in found} == {MEASURED}


def test_the_baseline_is_measured_first_and_once_more_at_the_end() -> None:
    for seed in range(20):
        found = order(seed, repeats=2)
        assert found[0] == ("c", 0, MEASURED)
        assert found[-1] == ("c", 0, AGAIN)  # the first repeat, so that its requests are the same
        assert [purpose for *_, purpose in found].count(AGAIN) == 1


def test_the_order_follows_from_the_seed_and_nothing_else() -> None:
    assert order(7, repeats=3) == order(7, repeats=3)
    assert len({tuple(order(seed)) for seed in range(50)}) == 6  # all the orders of the three others


def test_each_place_of_a_later_block_goes_to_every_candidate_alike() -> None:
    """1,000 seeds: each of the four comes in each place 250 times, give or take 4.5 standard errors of 13.7."""
    places = Counter(
        (place, name) for seed in range(1_000) for place, (name, *_) in enumerate(order(seed, repeats=2)[4:8])
    )
    assert len(places) == 16
    assert all(abs(count - 250) < 62 for count in places.values())


def test_the_repeats_of_one_experiment_are_drawn_apart() -> None:
    same = sum(
        [n for n, *_ in found[4:8]] == [n for n, *_ in found[8:12]]
        for found in (order(s, repeats=3) for s in range(200))
    )
    assert same < 25  # 1 in 24 by chance, 8.3 of 200


def test_alone_a_candidate_has_nothing_to_be_told_apart_from() -> None:
    spec = a_spec(candidates=FOUR[:1], baseline="a", noise_floor=True)
    assert [run.purpose for run in planned_runs(spec, expand(spec))] == [MEASURED]


def test_the_second_measurement_has_no_quality_and_no_memory_stage() -> None:
    spec = a_spec(suites=({"name": "kitedash_repo"},), memory={})
    assert stage_names(spec, AGAIN) == ("prepare", "load")
    assert stage_names(spec) == ("prepare", "load", "quality:kitedash_repo", "memory")


@pytest.mark.parametrize("shuffled", [("d", "a", "c", "b"), ("b", "d", "a", "c")])
def test_candidates_are_shown_as_written_whatever_the_order_was(shuffled: tuple[str, ...]) -> None:
    spec = a_spec(candidates=FOUR, baseline="c")
    assert as_written(spec, shuffled) == ["c", "a", "b", "d"]


def test_candidates_that_the_file_has_no_more_come_last_and_keep_their_order() -> None:
    """As where a matrix holds an argument that this version does not know."""
    spec = a_spec(candidates=FOUR[:2], baseline="a", matrix={"no-such-argument": (1, 2)})
    assert as_written(spec, ("y", "b", "x", "a")) == ["a", "b", "y", "x"]
