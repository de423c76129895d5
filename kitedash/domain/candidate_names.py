"""Names of the candidates that a matrix makes: short, stable, only what differs ("fp8 · seqs 4 · no prefix cache")."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from kitedash.domain.engine_args import ALLOWED, QUANTIZATION
from kitedash.domain.experiment import ArgValue

SEPARATOR = " · "
MAX_LENGTH = 80


def generated_name(differing: Mapping[str, ArgValue], *, dtype: str | None) -> str:
    """The name of one combination. `differing` holds the matrix keys that have more than one value, in the file's
    order; `dtype` is the combination's, which names the weights where they are not quantised."""
    parts = [_part(key, value, dtype=None if "dtype" in differing else dtype) for key, value in differing.items()]
    name = SEPARATOR.join(part for part in parts if part) or "default"
    if len(name) > MAX_LENGTH:
        digest = hashlib.sha256(name.encode()).hexdigest()[:8]
        name = f"{name[: MAX_LENGTH - 9].rstrip(' ·')} {digest}"
    return name


def same_name(one: str, other: str) -> bool:
    """Equal but for case, spaces and how the parts are parted: "fp8, seqs 4" finds "fp8 · seqs 4"."""
    return _plain(one) == _plain(other)


def _plain(name: str) -> list[str]:
    return re.split(r"[\s·,;/|]+", name.strip().casefold())


def _part(key: str, value: ArgValue, *, dtype: str | None) -> str:
    if key == "model":
        return re.sub(r"[^A-Za-z0-9._+=-]+", "-", str(value).rstrip("/").rsplit("/", 1)[-1]).strip("-._+= ")
    if key == QUANTIZATION:
        return str(value) if value != "none" else dtype or "unquantised"
    label = ALLOWED[key].label
    if isinstance(value, bool):
        if key == "enforce-eager" and not value:
            return "compiled"
        return label if value else f"no {label}"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return f"{label} {text}" if label else text
