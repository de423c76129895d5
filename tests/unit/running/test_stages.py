from __future__ import annotations

import pytest

from kitedash.domain.experiment import ExperimentSpec, LoadPlan
from kitedash.domain.results import LevelStatus
from kitedash.domain.run_plan import AGAIN, LOAD, MEASURED, as_run, is_settled, least_blocks, likely_blocks
from kitedash.running.stages import units
from tests.unit.services.evidence import SPEC

OK, OVER, INVALID = LevelStatus.OK, LevelStatus.OVERLOADED, LevelStatus.INVALID


@pytest.mark.parametrize(
    ("blocks", "settled"),
    [
        ([], False),
        ([OVER], False),
        ([OVER, OVER], True),
        ([OVER, OK], False),
        ([OK, OVER, OVER, OVER], False),
        ([INVALID, INVALID], False),
        ([INVALID, OVER], False),
        ([INVALID, INVALID, INVALID], True),
        ([INVALID, OVER, INVALID], True),
        ([INVALID, INVALID, OK, INVALID], False),
    ],
)
def test_a_rate_gets_no_more_blocks_once_none_of_several_is_a_result(blocks: list[LevelStatus], settled: bool) -> None:
    assert is_settled(blocks) is settled


def searching(**changes: object) -> ExperimentSpec:
    """Rates of 1, 2 and 4/s with six blocks each, and a search."""
    load = LoadPlan.model_validate({**SPEC.load.model_dump(), "search": True, **changes})
    return SPEC.model_copy(update={"load": load})


def test_only_a_candidates_own_run_counts_the_blocks_of_a_search() -> None:
    spec = searching(search_most_blocks=20)
    assert units(spec, LOAD, MEASURED) == 3 * 6 + 20
    assert units(spec, LOAD, AGAIN) == 3 * 6
    assert units(SPEC, LOAD, MEASURED) == units(SPEC, LOAD, AGAIN) == 3 * 6
    assert as_run(spec, MEASURED) is spec
    assert as_run(spec, AGAIN).load == spec.load.model_copy(update={"search": False})


def test_a_searching_run_may_be_over_after_one_overloaded_rate() -> None:
    searched, listed = searching().load, SPEC.load
    # Listed: three rates of two overloaded blocks; once two are behind, the four that are left and two rates of two.
    assert [least_blocks(listed, past) for past in (0, 1, 2, 18)] == [6, 5, 8, 0]
    assert [least_blocks(searched, past) for past in (0, 1, 2, 5, 6, 18)] == [2, 1, 1, 1, 2, 0]


@pytest.mark.parametrize(
    ("changes", "further"),
    [
        # From a factor of 2 to one of 1.1 are three halvings of the logarithm (2, 1.41, 1.19, 1.09), one step beyond,
        # three blocks each, and the two ends whole.
        ({"search_most_blocks": 50}, 4 * 3 + 2 * 6),
        ({"search_most_blocks": 20}, 20),
        ({"search_most_blocks": 50, "search_precision": 1}, 3 + 12),  # as the listed ones are already
        ({"search_most_blocks": 50, "blocks": 2}, 4 * 2 + 2 * 2),
    ],
)
def test_how_many_blocks_a_search_likely_takes(changes: dict[str, object], further: int) -> None:
    load = searching(**changes).load
    assert likely_blocks(load) == 3 * load.blocks + further
