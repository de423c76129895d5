"""How numbers are written: three significant digits, and never a number where there is none."""

from __future__ import annotations

import pytest

from kitedash.domain.wording import listed, milliseconds, number, percent, rate, usd


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (1_661.4, "1,660"),
        (999.6, "1,000"),
        (812.0, "812"),
        (48.34, "48.3"),
        (0.17361, "0.174"),
        (0.9, "0.900"),
        (0, "0"),
        (-2.5, "-2.50"),
        (None, "–"),
        (float("nan"), "–"),
        (float("inf"), "–"),
    ],
)
def test_three_significant_digits(value: float | None, written: str) -> None:
    assert number(value) == written


def test_units() -> None:
    assert (milliseconds(812), usd(0.9), rate(0.5), percent(0.7083)) == ("812 ms", "0.900 USD", "0.5/s", "70.8 %")
    assert {milliseconds(None), usd(None), rate(None), percent(None)} == {"–"}


def test_lists() -> None:
    assert [listed([]), listed(["a"]), listed(["a", "b"]), listed(("a", "b", "c"))] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]
