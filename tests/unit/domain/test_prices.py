"""The price book."""

from __future__ import annotations

import pytest

from kitedash.domain.errors import InvalidInput, NotFound
from kitedash.domain.prices import parse_price_book

BOOK = """\
prices:
  - {device: cpu, kind: cpu, usd_per_hour: 0.1, source: list, date: 2026-05-07}
  - {device: AMD EPYC, kind: cpu, usd_per_hour: 0.2, source: list, date: 2026-05-07, estimate: true}
  - {device: H200, usd_per_hour: 4, source: list, date: 2026-05-07}
  - {device: A100 80GB, usd_per_hour: 2.5, source: list, date: 2026-05-07}
  - {device: A100, usd_per_hour: 1.5, source: list, date: 2026-05-07}
  - {device: L4, usd_per_hour: 0.8, source: list, date: 2026-05-07}
"""


@pytest.mark.parametrize(
    ("name", "kind", "usd_per_hour"),
    [
        ("NVIDIA H200", "gpu", 4),
        ("2 x NVIDIA H200", "gpu", 4),
        ("NVIDIA A100-SXM4-80GB", "gpu", 2.5),
        ("NVIDIA A100-PCIE-40GB", "gpu", 1.5),
        ("nvidia l4", "gpu", 0.8),
        ("AMD EPYC 9R14", "cpu", 0.2),
        ("Intel(R) Xeon(R) Platinum 8488C", "cpu", 0.1),
        ("", "cpu", 0.1),
    ],
)
def test_the_entry_with_most_words_fits(name: str, kind: str, usd_per_hour: float) -> None:
    assert parse_price_book(BOOK).of(name, kind).usd_per_hour == usd_per_hour


@pytest.mark.parametrize("name", ["NVIDIA GH200 480GB", "NVIDIA L40S", "NVIDIA H200 MIG 1g.18gb", "AMD EPYC"])
def test_no_price_is_better_than_a_wrong_one(name: str) -> None:
    with pytest.raises(NotFound, match=r"no entry that fits .*; its gpu entries are: H200, A100 80GB, A100, L4"):
        parse_price_book(BOOK).of(name, "gpu")


def test_two_kinds_of_gpu_in_one_slot_have_no_one_price() -> None:
    with pytest.raises(NotFound, match=r"several entries that fit .*: H200 and L4; keep one"):
        parse_price_book(BOOK).of("2 x NVIDIA H200 + NVIDIA L4", "gpu")


def test_source_and_date_are_kept() -> None:
    price = parse_price_book(BOOK).of("AMD EPYC", "cpu")
    assert price.source_text == "estimate: list"
    assert price.date.isoformat() == "2026-05-07"


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("0.8", "0", "prices[5].usd_per_hour: must be above 0, not 0"),
        ("0.8", ".nan", "prices[5].usd_per_hour: must be a finite number, not NaN"),
        ("0.8", "'0.8'", "prices[5].usd_per_hour: must be a number, not '0.8'; leave out the quotes"),
        ("source: list, ", "", "prices[0].source: is missing (where the price is from)"),
        ("2026-05-07", "in May", "prices[0].date: must be a day such as 2026-11-30, not 'in May'"),
        ("estimate: true", "estimate: on", "prices[1].estimate: must be true or false, not 'on'"),
        ("kind: cpu", "kind: tpu", "prices[0].kind: must be 'gpu' or 'cpu', not 'tpu'"),
        ("device: L4", "device: h200", "prices[5].device: fits the same devices as prices[2]"),
        ("device: L4", "device: '-'", "prices[5].device: must hold a letter or digit, not '-'"),
        ("prices:", "price:", "price: is not known (did you mean prices?); allowed: prices"),
        (BOOK, "prices: []", "prices: holds 0 values; at least 1"),
        (BOOK, "[]", "prices: a price book is the key prices with a list of entries, not a list"),
    ],
)
def test_what_is_wrong_is_one_sentence(old: str, new: str, sentence: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_price_book(BOOK.replace(old, new, 1))
    assert str(caught.value) == sentence
