"""Price books for tests."""

from __future__ import annotations

from datetime import date

from kitedash.domain.prices import Price, PriceBook
from kitedash.services.pricing import Prices


def prices(cpu_usd_per_hour: float) -> Prices:
    """A book that knows the CPU only."""
    day = date(2026, 11, 30)
    return Prices(
        PriceBook(prices=(Price(device="cpu", kind="cpu", usd_per_hour=cpu_usd_per_hour, source="a list", date=day),))
    )
