"""Text that a spreadsheet would run is escaped; everything else is as it was."""

from __future__ import annotations

import pytest

from kitedash.domain.csv_cell import Cell, csv_cell


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "-", "=HYPERLINK(1)"])
def test_formulas_become_text(text: str) -> None:
    assert csv_cell(text) == "'" + text


@pytest.mark.parametrize("text", ["", "a=b", "it's", "'=1", "1-2", " =1", "Base", "Ünïcode"])
def test_other_text_is_left_alone(text: str) -> None:
    assert csv_cell(text) == text


@pytest.mark.parametrize(
    ("value", "cell"),
    [(-0.25, "-0.25"), (-3, "-3"), (0.1 + 0.2, "0.30000000000000004"), (None, ""), (True, "true"), (False, "false")],
)
def test_numbers_stay_numbers(value: Cell, cell: str) -> None:
    assert csv_cell(value) == cell


def test_a_list_is_one_cell_with_spaces_between_its_numbers() -> None:
    assert csv_cell([20.0, 40.123456789, None]) == "20 40.1235 null"
    assert csv_cell([]) == ""
