"""Tables of plain text: aligned whatever is in them, and harmless to a terminal."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kitedash.cli_text import duration, one_line, table, width


def test_columns_are_aligned_also_with_wide_and_combining_letters() -> None:
    assert table(("A", "B"), [("x", "1"), ("风筝", "2"), ("e\u0301", "3")]).split("\n") == [
        "A     B",
        "x     1",
        "风筝  2",
        "e\u0301     3",
    ]
    assert width("风筝e\u0301") == 5


def test_no_rows_leave_the_headings() -> None:
    assert table(("RUN", "STATUS"), []) == "RUN  STATUS"


def test_what_a_terminal_would_obey_is_taken_out() -> None:
    assert one_line("a\x1b[2Jb\nc\x9bd") == "a [2Jb c d"
    assert one_line("x" * 200) == "x" * 99 + "…"


@pytest.mark.parametrize(("seconds", "shown"), [(0, "0:00"), (65.9, "1:05"), (3_600, "1:00:00"), (90_061, "25:01:01")])
def test_durations(seconds: float, shown: str) -> None:
    assert duration(timedelta(seconds=seconds)) == shown
