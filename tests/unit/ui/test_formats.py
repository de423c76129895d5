from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kitedash.domain.results import Estimate
from kitedash.ui import formats


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Estimate(312.4, 290, 341, 480), "312 ms (95 %: 290 ms to 341 ms; n = 480)"),
        (Estimate(312.4, None, None, 12, "too few"), "312 ms (too few; n = 12)"),
        (Estimate(312.4, 290, None, 12), "312 ms (95 %: ≥ 290 ms; n = 12)"),
        (Estimate(312.4, None, 341, 12), "312 ms (95 %: ≤ 341 ms; n = 12)"),
        (Estimate(None, None, None, 0, "too few"), "too few"),
        (Estimate(None), "–"),
        (Estimate(312.4), "312 ms"),
        (None, "–"),
    ],
)
def test_a_value_never_stands_without_what_is_known_of_its_interval(estimate: Estimate | None, text: str) -> None:
    assert formats.with_interval(estimate, formats.ms) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "0 s"), (59.9, "59 s"), (60, "1 min 00 s"), (3_599, "59 min 59 s"), (7_800, "2 h 10 min")],
)
def test_durations(seconds: float, text: str) -> None:
    assert formats.duration(timedelta(seconds=seconds)) == text


@pytest.mark.parametrize(
    ("value", "text"), [(300, "300"), (0.05, "0.05"), (0.000012, "0.000012"), (2_500_000, "2,500,000")]
)
def test_a_number_as_it_was_written(value: float, text: str) -> None:
    assert formats.plain(value) == text


def test_moments_name_their_zone() -> None:
    assert formats.moment(datetime(2026, 11, 30, 16, 5, 59, tzinfo=UTC)) == "2026-11-30 16:05 UTC"


def test_shortening_keeps_the_limit() -> None:
    assert formats.shorten("abcdef", 6) == "abcdef"
    assert formats.shorten("abcdefg", 6) == "abcde…"
