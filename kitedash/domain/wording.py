"""How numbers are written in sentences and tables, once: three significant digits, units, "–" where unknown."""

from __future__ import annotations

from math import floor, isfinite, log10

UNKNOWN = "–"


def number(value: float | None) -> str:
    """Three significant digits with thousands separators: 1,660 / 48.3 / 0.0174; unknown: "–"."""
    if value is None or not isfinite(value):
        return UNKNOWN
    if value == 0:
        return "0"
    decimals = 2 - floor(log10(abs(value)))
    return f"{round(value, decimals):,.{max(0, decimals)}f}"


def milliseconds(value: float | None) -> str:
    return UNKNOWN if value is None else f"{number(value)} ms"


def usd(value: float | None) -> str:
    return UNKNOWN if value is None else f"{number(value)} USD"


def rate(value: float | None) -> str:
    """A rate as it was written down, such as "0.5/s"."""
    return UNKNOWN if value is None else f"{value:g}/s"


def percent(share: float | None) -> str:
    return UNKNOWN if share is None else f"{100 * share:.1f} %"


def listed(parts: list[str] | tuple[str, ...]) -> str:
    """ "a", "a and b", "a, b and c"."""
    if len(parts) < 2:
        return "".join(parts)
    return ", ".join(parts[:-1]) + " and " + parts[-1]
