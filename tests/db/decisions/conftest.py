"""Prices in a book of their own, and a database with an experiment to decide on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.orm import Session, sessionmaker

from kitedash.settings import settings
from tests.db.decided import PRICES, store_experiment


@pytest.fixture(autouse=True)
def configured(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    book = tmp_path / "prices.yaml"
    book.write_text(PRICES, encoding="utf-8")
    monkeypatch.setenv("KITEDASH_DATABASE_URL", url)
    monkeypatch.setenv("KITEDASH_PRICE_BOOK", str(book))
    settings.cache_clear()
    yield
    settings.cache_clear()


@pytest.fixture
def filled(store: sessionmaker[Session]) -> sessionmaker[Session]:
    store_experiment(store)
    return store
