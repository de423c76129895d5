"""The price book: what one hour of one device costs, with where the number comes from and from when it is."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date as Date  # noqa: N812 - a field below is called date
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from kitedash.domain import plain_yaml
from kitedash.domain.errors import InvalidInput, NotFound
from kitedash.domain.schema_base import Strict, broken_rule
from kitedash.domain.schema_errors import check_plain, first_sentence
from kitedash.domain.sentences import shown

CPU = "cpu"


class Price(Strict):
    """One entry. It fits a device whose name holds every word of `device`, such as H200 in "NVIDIA H200"; an entry
    of kind cpu with the device `cpu` fits every processor. On a CPU the price is that of the whole machine."""

    device: str = Field(min_length=1, max_length=100, description="words of the device's name, or cpu")
    kind: Literal["gpu", "cpu"] = Field("gpu", description="gpu or cpu")
    usd_per_hour: float = Field(gt=0, le=100_000, allow_inf_nan=False, description="USD an hour of one device")
    source: str = Field(min_length=1, max_length=500, description="where the price is from")
    date: Date = Field(description="the day of the price, such as 2026-11-30")
    estimate: bool = Field(False, description="true where the price is a guess and not read from a list")

    @model_validator(mode="after")
    def _has_words(self) -> Price:
        if not _words(self.device):
            raise broken_rule("device", f"must hold a letter or digit, not {shown(self.device)}")
        return self

    @property
    def words(self) -> frozenset[str]:
        words = _words(self.device)
        return words - {CPU} if self.kind == CPU else words

    @property
    def source_text(self) -> str:
        """The source as it is shown beside a cost."""
        return f"estimate: {self.source}" if self.estimate else self.source


class PriceBook(Strict):
    prices: tuple[Price, ...] = Field(min_length=1, max_length=1_000, description="the entries")

    @model_validator(mode="after")
    def _no_twins(self) -> PriceBook:
        seen: dict[tuple[str, frozenset[str]], int] = {}
        for index, price in enumerate(self.prices):
            key = (price.kind, price.words)
            if key in seen:
                raise broken_rule(f"prices[{index}].device", f"fits the same devices as prices[{seen[key]}]")
            seen[key] = index
        return self

    def of(self, name: str, kind: str) -> Price:
        """The entry with the most words that are all in the device's name.

        Raises NotFound where none fits, or two fit equally well. A slice of a GPU (MIG) is not priced as a whole one.
        """
        words = _words(name)
        fitting = [price for price in self.prices if price.kind == kind and price.words <= words]
        if "mig" in words:
            fitting = [price for price in fitting if "mig" in price.words]
        if not fitting:
            there = ", ".join(price.device for price in self.prices if price.kind == kind) or "none"
            raise NotFound(f"The price book has no entry that fits {name!r} ({kind}); its {kind} entries are: {there}")
        most = max(len(price.words) for price in fitting)
        best = [price for price in fitting if len(price.words) == most]
        if len(best) > 1:
            both = " and ".join(price.device for price in best)
            raise NotFound(f"The price book has several entries that fit {name!r} ({kind}): {both}; keep one")
        return best[0]


def parse_price_book(text: str, *, source: str = "") -> PriceBook:
    """The price book in a YAML text of the form `prices: [{device, usd_per_hour, source, date}]`.

    Raises InvalidInput with one sentence that names the field.
    """
    data: Any = plain_yaml.load(text, source=source)
    if not isinstance(data, Mapping):
        raise InvalidInput("prices", f"a price book is the key prices with a list of entries, not {shown(data)}")
    check_plain(data)
    try:
        return PriceBook.model_validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        raise InvalidInput(*first_sentence(error.errors(include_url=False), PriceBook)) from None
    except ValueError as error:
        raise InvalidInput("prices", f"a price book holds plain values only ({error})") from None


def _words(name: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z0-9]+", name.casefold()))
