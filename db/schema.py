"""Brings a database up to date: Alembic for KiteDash's own tables, DBOS's migrations for the queue's.

The usual case, nothing to do, imports neither of the two: it compares two stored versions with what is installed.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version as installed_version
from pathlib import Path

import sqlalchemy as sa

from db.engine import StorageError, make_engine, name_of
from db.models import PackageSchema

HEAD = "0004"  # the newest revision in migrations/versions (a test holds it to that)
MIGRATIONS = Path(__file__).resolve().parent / "migrations"
POSTGRES_LOCK = 0x4B495445  # "KITE"
LOCK_TIMEOUT_S = 120.0


def migrate(url: sa.URL) -> None:
    """See `db.engine.migrate`."""
    file = Path(url.database or "") if url.get_backend_name() == "sqlite" else None
    engine = make_engine(url.render_as_string(hide_password=False))
    try:
        if (file is None or file.exists()) and is_current(engine):
            return
        with _one_at_a_time(engine, file):
            if not is_current(engine):
                _upgrade(engine, file)
    except sa.exc.DBAPIError as error:
        raise StorageError(_sentence(url, error)) from error
    except OSError as error:
        raise StorageError(f"The database's folder {file and file.parent} can't be used: {error.strerror}.") from error
    finally:
        engine.dispose()


def is_current(engine: sa.Engine) -> bool:
    """Whether both sets of tables are those of the installed code; False also where there are none yet."""
    package = sa.select(PackageSchema.version).where(PackageSchema.package == "dbos")
    with engine.connect() as connection:
        if stored_revision(connection) != HEAD:
            return False
        return connection.scalar(package) == installed_version("dbos")


def stored_revision(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    revision: str | None = connection.scalar(sa.text("SELECT version_num FROM alembic_version"))
    return revision


def _upgrade(engine: sa.Engine, file: Path | None) -> None:
    if file is not None:
        with engine.connect() as connection:
            # Stored in the file, so once is enough; readers then never wait for the writer.
            connection.exec_driver_sql("PRAGMA journal_mode = WAL")
    with engine.begin() as connection:
        if file is not None:
            connection.exec_driver_sql("BEGIN IMMEDIATE")  # sqlite3 begins none before DDL: all or nothing
        _upgrade_own(connection)
    _upgrade_dbos(engine.url)
    mark = {"package": "dbos", "version": installed_version("dbos")}
    with engine.begin() as connection:
        connection.execute(sa.delete(PackageSchema).where(PackageSchema.package == "dbos"))
        connection.execute(sa.insert(PackageSchema).values(**mark))


def _upgrade_own(connection: sa.Connection) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    revision = stored_revision(connection)
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if revision is not None and revision not in known:
        raise StorageError(
            f"The database {name_of(connection.engine.url)} was made by a newer KiteDash (schema {revision}, this one "
            f"knows up to {HEAD}): update KiteDash, or choose another data folder with KITEDASH_DATA_DIR."
        )
    command.upgrade(config, "head")


def _upgrade_dbos(url: sa.URL) -> None:
    from dbos import DBOS
    from dbos._error import DBOSException

    try:
        DBOS.migrate(url.render_as_string(hide_password=False))
    except DBOSException as error:
        raise StorageError(f"The queue's tables in {name_of(url)} could not be brought up to date: {error}.") from error


@contextmanager
def _one_at_a_time(engine: sa.Engine, file: Path | None) -> Iterator[None]:
    if file is None:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            deadline = time.monotonic() + LOCK_TIMEOUT_S
            # Polled: DBOS builds indexes concurrently, which waits for every open statement, also for one that
            # waits for this lock.
            while not connection.scalar(sa.select(sa.func.pg_try_advisory_lock(POSTGRES_LOCK))):
                if time.monotonic() > deadline:
                    raise StorageError("Another process has been updating the database for two minutes; try again.")
                time.sleep(0.2)
            try:
                yield
            finally:
                connection.scalar(sa.select(sa.func.pg_advisory_unlock(POSTGRES_LOCK)))
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    # The folder itself is locked, so that nothing is left lying about; the kernel frees it if the process dies.
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _sentence(url: sa.URL, error: sa.exc.DBAPIError) -> str:
    reason = " ".join(str(error.orig).split())
    if "not a database" in reason:
        return f"{name_of(url)} is not an SQLite database: move it away, or choose another with KITEDASH_DATABASE_URL."
    return f"The database {name_of(url)} can't be used: {reason.rstrip('.')}."
