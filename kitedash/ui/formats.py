"""Numbers as people read them: `domain.wording` with intervals and sample sizes, durations and moments."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from kitedash.domain import wording
from kitedash.domain.results import Estimate

MISSING = wording.UNKNOWN

Writer = Callable[[float], str]  # a number with its unit
Words = Callable[[str], str]

number = wording.number
ms = wording.milliseconds
usd = wording.usd
share = wording.percent
rate = wording.rate
minutes = wording.minutes
time_range = wording.time_range


def interval(estimate: Estimate | None, number: Callable[[float], str]) -> str:
    """The 95 % interval, such as `290 to 340`, or `≥ 290` where the other bound is not established."""
    if estimate is None or estimate.value is None:
        return MISSING
    if estimate.low is None and estimate.high is None:
        return estimate.note or "too few"
    if estimate.low is None:
        return f"≤ {number(estimate.high)}" if estimate.high is not None else MISSING
    if estimate.high is None:
        return f"≥ {number(estimate.low)}"
    return f"{number(estimate.low)} to {number(estimate.high)}"


def with_interval(estimate: Estimate | None, number: Callable[[float], str]) -> str:
    """Value, interval and sample size, such as `312 ms (95 %: 290 ms to 340 ms; n = 480)`."""
    if estimate is None or estimate.value is None:
        return (estimate.note if estimate else "") or MISSING
    if estimate.low is None and estimate.high is None and not estimate.n:
        return number(estimate.value)
    bounds = interval(estimate, number)
    label = "95 %: " if estimate.low is not None or estimate.high is not None else ""
    size = f"; n = {estimate.n:,}" if estimate.n else ""
    return f"{number(estimate.value)} ({label}{bounds}{size})"


def duration(span: timedelta) -> str:
    """Such as `42 s`, `3 min 05 s`, `2 h 10 min`."""
    seconds = max(0, int(span.total_seconds()))
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3_600:
        return f"{seconds // 60} min {seconds % 60:02d} s"
    return f"{seconds // 3_600} h {seconds % 3_600 // 60:02d} min"


def moment(at: datetime) -> str:
    """UTC to the minute, such as `2026-11-30 16:05 UTC`."""
    return at.strftime("%Y-%m-%d %H:%M UTC")


def shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def plain(value: float) -> str:
    """A number as a person wrote it: `300`, `0.05`."""
    return f"{value:.6f}".rstrip("0").rstrip(".") if abs(value) < 1e6 else f"{value:,.0f}"
