"""How numbers are written in sentences and tables, once: three significant digits, units, "–" where unknown."""

from __future__ import annotations

from math import ceil, floor, isfinite, log10

from kitedash.domain.run_time import Minutes

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


def minutes(value: float) -> str:
    """Whole minutes: "under 1 min", "12 min", "2 h 05 min"."""
    whole = round(value)
    if whole < 1:
        return "under 1 min"
    return f"{whole} min" if whole < 60 else f"{whole // 60} h {whole % 60:02d} min"


def time_range(time: Minutes) -> str:
    """The best guess with its range, rounded outward: "about 9 min (4 to 17 min)"."""
    low, high = minutes(floor(time.low)), minutes(ceil(time.high))
    if low == high:
        return low
    if time.low < 1:
        low = "0"
    elif (" h " in low) == (" h " in high):
        low = low.removesuffix(" min")
    middle = minutes(time.middle)
    return f"{middle if middle.startswith('under') else f'about {middle}'} ({low} to {high})"


def listed(parts: list[str] | tuple[str, ...]) -> str:
    """ "a", "a and b", "a, b and c"."""
    if len(parts) < 2:
        return "".join(parts)
    return ", ".join(parts[:-1]) + " and " + parts[-1]
