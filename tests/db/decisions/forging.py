"""Changes rows of a database as only its owner can, and says what verifying then finds."""

from __future__ import annotations

import sqlite3
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import make_url

from db.engine import make_engine
from kitedash.services import records


def problems(*, evidence: bool = True) -> list[tuple[str, str]]:
    return [(found.what, found.sentence) for found in records.verify_stored(evidence=evidence) if not found.ok]


def forge(url: str, statement: str, **values: Any) -> None:
    """What only the database's owner can do: take the triggers away, change a row, put them back."""
    engine = make_engine(url)
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(sa.text("ALTER TABLE decision_records DISABLE TRIGGER ALL"))
            connection.execute(sa.text(statement), values)
            connection.execute(sa.text("ALTER TABLE decision_records ENABLE TRIGGER ALL"))
        else:
            query = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'decision_records'"
            triggers = connection.execute(sa.text(query)).all()
            assert len(triggers) == 3
            for name, _ in triggers:
                connection.execute(sa.text(f"DROP TRIGGER {name}"))
            connection.execute(sa.text(statement), values)
            for _, sql in triggers:
                connection.execute(sa.text(sql))
    engine.dispose()


def forge_freely(url: str, statement: str) -> None:
    """As `forge`, on SQLite without foreign keys: a row may go that others refer to."""
    with sqlite3.connect(make_url(url).database or "") as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        assert connection.execute(statement).rowcount > 0
    connection.close()
