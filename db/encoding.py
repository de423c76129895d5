"""What JSON and text columns can hold on every database, and back: no NUL, no lone surrogate, no bare infinity."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from kitedash.domain.results import Check, ServerFacts


def text(value: str) -> str:
    """`value` with what no database stores replaced by U+FFFD: NUL (Postgres) and surrogates that no UTF-8 has."""
    return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def may_be_id(value: str) -> bool:
    """Whether something can be stored under `value`. Control characters and lone surrogates, which a link may carry,
    are in no id, and Postgres refuses to look for some of them."""
    return value.isprintable()


def plain(value: Any) -> Any:
    """`value` as JSON types. Infinity and NaN become the texts "inf", "-inf" and "nan": JSON has no such numbers."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {text(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, (bool, int)):
        return value
    return text(str(value))


def number(value: Any) -> float | None:
    """The float that `plain` wrote."""
    return None if value is None else float(value)


def numbers(values: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in values.items()}


def checks(values: list[Any]) -> tuple[Check, ...]:
    """The checks of a block, from its JSON column."""
    return tuple(
        Check(
            name=value["name"],
            value=number(value["value"]),
            low=number(value["low"]),
            high=number(value["high"]),
            passed=value["passed"],
            sentence=value["sentence"],
        )
        for value in values
    )


def server_facts(stored: Mapping[str, Any] | None) -> ServerFacts | None:
    """The facts of a run, from its JSON column; None where the server was never ready."""
    if stored is None:
        return None
    return ServerFacts(**{**stored, "argv": tuple(stored["argv"])})
