"""Each test of this folder that takes `url` runs on SQLite, and on Postgres where a server can be started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.orm import Session, sessionmaker

from db.engine import dispose_engines, sessions
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
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database without rows: on SQLite not even made yet."""
    if request.param == "sqlite":
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
def store(url: str) -> sessionmaker[Session]:
    return sessions(url)
