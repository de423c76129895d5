"""The database's engine: SQLite in a file or Postgres, by one address (`KITEDASH_DATABASE_URL`)."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.orm import Session, sessionmaker

from kitedash.domain.errors import InvalidInput, KiteDashError

BUSY_TIMEOUT_S = 30.0  # as DBOS waits on the same file: a writer queues behind another instead of failing


class StorageError(KiteDashError):
    """The database can't be opened, read or brought up to date."""


def parse_url(url: str) -> sa.URL:
    """The address with its driver. Raises InvalidInput for anything but an SQLite file or Postgres."""
    field = "KITEDASH_DATABASE_URL"
    allowed = "use sqlite:////folder/file.db or postgresql://user@host/database"
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError:
        raise InvalidInput(field, f"this is no database address; {allowed}") from None
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        if not parsed.database or parsed.database == ":memory:" or parsed.query:
            raise InvalidInput(field, f"SQLite must be a plain file, since several processes share it; {allowed}")
        return parsed.set(drivername="sqlite")
    if backend == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    raise InvalidInput(field, f"{backend} is not supported; {allowed}")


def make_engine(url: str) -> sa.Engine:
    """An engine whose connections behave alike on both databases: foreign keys are enforced, writers wait.

    SQLite begins a transaction with the write lock at the first INSERT, UPDATE or DELETE, never in the middle of
    one: a reader that turns writer in a deferred transaction fails at once when another wrote since it began.
    """
    parsed = parse_url(url)
    if parsed.get_backend_name() == "sqlite":
        arguments: dict[str, Any] = {"timeout": BUSY_TIMEOUT_S, "isolation_level": "IMMEDIATE"}
        engine = sa.create_engine(parsed, connect_args=arguments, pool_size=5, max_overflow=20)
        event.listen(engine, "connect", _prepare_sqlite)
        return engine
    arguments = {"connect_timeout": 10, "application_name": "kitedash"}
    return sa.create_engine(parsed, connect_args=arguments, pool_size=5, max_overflow=10, pool_pre_ping=True)


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    # NORMAL is durable against a crash of the process (with WAL), and spares an fsync a commit.
    for pragma in ("foreign_keys = ON", "synchronous = NORMAL"):
        connection.execute(f"PRAGMA {pragma}")


def session_factory(engine: sa.Engine) -> sessionmaker[Session]:
    """Sessions whose objects stay readable after the commit (relationships still raise when lazily loaded)."""
    return sessionmaker(engine, expire_on_commit=False)


def migrate(url: str) -> None:
    """Brings the database up to date: KiteDash's tables and those of DBOS, in a folder that is made if need be.

    Safe to repeat and to run in several processes at once; when nothing is to be done it costs two small reads.
    Raises StorageError with one sentence.
    """
    from db import schema  # here, so that whoever only reads need not know of migrations

    schema.migrate(parse_url(url))


_engines: dict[str, sa.Engine] = {}
_engines_lock = threading.Lock()


def sessions(url: str) -> sessionmaker[Session]:
    """Sessions on this process's one engine for `url`; the first call brings the database up to date."""
    with _engines_lock:
        if url not in _engines:
            migrate(url)
            _engines[url] = make_engine(url)
        return session_factory(_engines[url])


def dispose_engines() -> None:
    """Closes this process's connections; the next `sessions` opens new ones."""
    with _engines_lock:
        for engine in _engines.values():
            engine.dispose()
        _engines.clear()


def hold_write_lock(session: Session, key: int) -> None:
    """From here to the end of the transaction no other transaction that asks for the same key goes on.

    What was read before it must be read again. On SQLite it is the file's write lock, whatever the key.
    """
    connection = session.connection()
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(key)))


def name_of(url: sa.URL) -> str:
    """The address as a person may see it: a file's path, or a server's address without the password."""
    if url.get_backend_name() == "sqlite":
        return str(Path(url.database or ""))
    return url.render_as_string(hide_password=True)
