"""Each test of this folder that takes `url` runs on SQLite, and on Postgres where a server can be started."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.orm import Session, sessionmaker

from db.engine import dispose_engines, sessions
from kitedash.services import launch_check
from kitedash.settings import settings
from tests.db.postgres import NoPostgresError, PostgresServer


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    try:
        server = PostgresServer()
    except NoPostgresError as reason:
        pytest.skip(f"Postgres not tested: {reason}")
    yield server
    server.stop()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path, empty_database: Path) -> Iterator[str]:
    """A database that is up to date and has no rows."""
    if request.param == "sqlite":
        (tmp_path / "data").mkdir()
        shutil.copy(empty_database, tmp_path / "data" / "kitedash.db")
        yield f"sqlite:///{tmp_path / 'data' / 'kitedash.db'}"
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        yield server.shared_database()
    dispose_engines()


@pytest.fixture(params=["sqlite", "postgres"])
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database without tables."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'data' / 'kitedash.db'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.new_database()


@pytest.fixture
def on_url(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The services work on `url`, with a data folder of their own, as on a machine without a GPU."""
    monkeypatch.setenv("KITEDASH_DATABASE_URL", url)
    monkeypatch.setenv("KITEDASH_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setattr(launch_check, "gpu_count", lambda: 0)
    settings.cache_clear()
    yield
    settings.cache_clear()


@pytest.fixture
def store(url: str) -> sessionmaker[Session]:
    return sessions(url)
