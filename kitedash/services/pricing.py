"""The price of the device that a candidate was measured on, from the price book in the settings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from kitedash.domain.errors import InvalidInput, NotFound
from kitedash.domain.prices import PriceBook, parse_price_book
from kitedash.domain.results import ServerFacts
from kitedash.settings import settings


@dataclass(frozen=True)
class Priced:
    """USD per device-hour, or the sentence that says why there is none."""

    devices: int
    usd_per_hour: float | None = None
    source: str = ""
    date: str = ""
    missing: str = ""


class Prices:
    """The price book as it is now; one that can't be read costs the view its costs, and nothing else. Equal where the
    books are."""

    def __init__(self, book: PriceBook | None = None) -> None:
        self._book, self._refusal = book, ""
        if book is None:
            self._book, self._refusal = _open_book(settings().price_book)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Prices) and (self._book, self._refusal) == (other._book, other._refusal)

    def __hash__(self) -> int:
        return hash((self._book, self._refusal))

    def of(self, facts: ServerFacts | None, devices: int) -> Priced:
        """Nothing is missing while the device is not known yet."""
        if facts is None:
            return Priced(devices)
        if self._book is None:
            return Priced(devices, missing=self._refusal)
        try:
            price = self._book.of(facts.device_name, facts.device_kind)
        except NotFound as error:
            return Priced(devices, missing=f"No cost: {error}.")
        return Priced(devices, price.usd_per_hour, price.source_text, price.date.isoformat())


def _open_book(path: Path) -> tuple[PriceBook | None, str]:
    try:
        return _parsed(path.read_text(encoding="utf-8"), path.name), ""
    except InvalidInput as error:
        return None, f"No cost: the price book {path.name} can't be used ({error})."
    except (OSError, UnicodeDecodeError):
        return None, f"No cost: the price book {path.name} can't be read; KITEDASH_PRICE_BOOK names the file."


@lru_cache(maxsize=4)
def _parsed(text: str, name: str) -> PriceBook:
    return parse_price_book(text, source=name)
