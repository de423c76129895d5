"""Canonical JSON: one text for one content, so that a hash of the text is a hash of the content.

Keys in the order of their code points, no spaces, text as it is (UTF-8, only what JSON must escape is escaped), whole
numbers as numbers. A number with a fraction is decimal text in quotes: the fewest digits that read back to the same
double, without an exponent ("564.2", "1.0", "0.0000001"), since writers of JSON differ in how they write floats. What
is beyond any bound is "inf" or "-inf", and no number at all is "nan". Times are ISO 8601 in UTC ending in Z.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from math import isfinite
from numbers import Integral, Real
from typing import Any

from pydantic import BaseModel

from kitedash.domain.schema_base import Strict


def canonical(value: Any) -> str:
    """The canonical JSON of plain values, dataclasses and pydantic models.

    Raises TypeError on any other type, and ValueError on text that no UTF-8 can hold.
    """
    return written(plain(value))


def written(value: Any) -> str:
    """The canonical text of what is plain already, such as a parsed canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    text.encode()  # a lone surrogate would only fail when the hash or the file is made
    return text


def sha256_of(text: str) -> str:
    """SHA-256 of the text's UTF-8, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def plain(value: Any) -> Any:
    """`value` as the groups, lists, texts and whole numbers that canonical JSON is made of."""
    if isinstance(value, Strict):
        return plain({name: getattr(value, name) for name in type(value).model_fields if value.is_written(name)})
    if isinstance(value, BaseModel):
        return plain({name: getattr(value, name) for name in type(value).model_fields})
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {_key(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return _single(value)


def _single(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)  # an enumeration's member as its text
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return decimal_text(float(value))
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise TypeError("a time needs its zone")
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no canonical JSON")


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"a key must be text, not {type(key).__name__}")
    return str(key)


def decimal_text(value: float) -> str:
    """A double as plain decimal text that reads back to the same double."""
    if not isfinite(value):
        return repr(value)  # inf, -inf or nan
    text = format(Decimal(repr(value)), "f")
    return text if "." in text else f"{text}.0"
