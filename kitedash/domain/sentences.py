"""Parts of the sentences that refuse an input: what it holds, what is known, what was probably meant."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable


def not_known(name: str, allowed: Iterable[str]) -> str:
    """ "is not known (did you mean a?); allowed: a, b" """
    return _with_hint("is not known", name, list(allowed), "allowed")


def not_among(name: str, candidates: Iterable[str]) -> str:
    """ "is none of the candidates (did you mean a?); they are: a, b" """
    return _with_hint("is none of the candidates", name, list(candidates), "they are")


def _with_hint(said: str, name: str, names: list[str], lead: str) -> str:
    close = difflib.get_close_matches(name[:200], names, n=1, cutoff=0.5)
    hint = f" (did you mean {close[0]}?)" if close else ""
    return f"{said}{hint}; {lead}: {', '.join(names) or 'nothing'}"


def shown(value: object) -> str:
    """A value as an error may quote it: short, on one line."""
    if value is None:
        return "an empty value"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "an infinite number"
    if isinstance(value, dict):
        return "a group of keys"
    if isinstance(value, list | tuple):
        return "a list"
    text = repr(value) if isinstance(value, str) else str(value)[:400]
    return text if len(text) <= 60 else text[:57] + "..."
