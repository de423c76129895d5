from __future__ import annotations

import pytest

from kitedash.domain.results import LevelStatus
from kitedash.domain.run_plan import is_settled

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
