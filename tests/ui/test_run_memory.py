"""The memory section of a run's page: what was predicted, reported and seen, and where the candidate stops."""

from __future__ import annotations

from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest

from kitedash.services import run_page
from kitedash.services.memory_view import MemoryView
from kitedash.ui import memory_chart, theme
from kitedash.ui.components import run_detail_memory
from tests.ui.conftest import opened
from tests.ui.seed import Seeded

pytestmark = pytest.mark.ui


def _view(seeded: Seeded, number: int) -> MemoryView:
    detail = run_page.page(f"{seeded.many[:8]}-{number}")
    assert detail is not None
    assert detail.memory is not None
    return detail.memory


def _section(seeded: Seeded, run_id: str) -> AppTest:
    return opened("run", {"run": run_id, "f_section": "memory"})


def test_numbers_and_every_length_are_shown(own_database: Seeded) -> None:
    at = _section(own_database, f"{own_database.many[:8]}-0")
    numbers, lengths = (table.value for table in at.dataframe)
    shown = numbers.set_index("Number")
    assert list(shown.loc["KV bytes per token, a device"][["Predicted", "Reported"]]) == ["46,080 B", "46,091 B"]
    assert list(shown.loc["KV tokens"][["Predicted", "Reported"]]) == ["23,296", "23,296"]
    assert list(shown.loc["Longest prompt, tokens"][["Reported", "Seen"]]) == ["4,096", "4,080"]
    assert list(shown.loc["Requests at once of 326 tokens"][["Predicted", "Seen"]]) == ["32", "32"]
    # 727 blocks of 32: 1,024 + 38 - 1 tokens are 34 of them, 2,048 + 29 - 1 are 65, 4,080 + 16 - 1 are 128
    assert {row.Prompt: (row.Predicted, row.Seen) for row in lengths.itertuples()} == {
        **{128: (32, 32), 256: (32, 32), 310: (32, 32), 512: (32, 32)},
        **{1_024: (21, 21), 2_048: (11, 11), 4_080: (5, 5), 8_192: (0, 0)},
    }


def test_the_chart_has_every_outcome_and_all_limits_in_both_themes(own_database: Seeded) -> None:
    view = _view(own_database, 0)
    for ink in (theme.LIGHT, theme.DARK):
        drawn = str(memory_chart.memory_chart(view, ink).to_dict())
        for text in ("KV cache full, predicted", "batch limit 32", "longest request 4,096", "preempted", "refused"):
            assert text in drawn
    words = memory_chart.describe_memory(view)
    assert "2,048 prompt tokens: 11 ran at once (predicted 11), at 12 " in words


def test_what_stops_a_candidate_is_said_first(own_database: Seeded) -> None:
    said = run_detail_memory.sentence(_view(own_database, 2))
    assert said.startswith(
        "Of requests of the workload's size, 326 tokens, 14 ran at once. More were not tried: with 32 at once of 256 "
        "prompt tokens the engine ended (out of memory: "
    )
    at = _section(own_database, f"{own_database.many[:8]}-2")
    assert any("out of memory" in str(value) for value in at.dataframe[1].value["Beyond"])


def test_without_a_prediction_the_reason_stands_there(own_database: Seeded) -> None:
    view = _view(own_database, 0)
    assert view.room is not None
    hybrid = replace(view.room, bytes_per_token_predicted=None, no_prediction="the model mixes layers")
    rows = run_detail_memory.number_rows(replace(view, room=hybrid)).set_index("Number")
    assert rows.loc["KV bytes per token, a device", "What it is"] == "not comparable: no prediction"
    assert "by its reported size" in str(memory_chart.memory_chart(replace(view, room=hybrid), theme.LIGHT).to_dict())


def test_without_a_memory_stage_there_is_no_such_section(own_database: Seeded) -> None:
    detail = run_page.page(f"{own_database.one[:8]}-0")
    assert detail is not None
    assert detail.memory is None
    at = _section(own_database, f"{own_database.one[:8]}-0")
    assert "Memory" not in [tab.label for tab in at.tabs]
    assert not at.exception
