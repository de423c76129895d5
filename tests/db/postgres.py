"""A throw-away Postgres server for the tests, where one is installed: Unix socket only, no durability."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

import psycopg

from db.engine import make_engine, migrate

ROOT = Path("/usr/lib/postgresql")


class NoPostgresError(Exception):
    """Why no server can be started here."""


class PostgresServer:
    def __init__(self) -> None:
        programs = sorted(ROOT.glob("*/bin/pg_ctl"))
        if not programs:
            raise NoPostgresError(f"no Postgres server under {ROOT}")
        self.bin = programs[-1].parent
        self.user: str | None = None
        if os.geteuid() == 0:  # the server refuses to run as root
            try:
                self.user = pwd.getpwnam("postgres").pw_name
            except KeyError:
                raise NoPostgresError("running as root, and there is no user postgres to start the server as") from None
        self.folder = Path(tempfile.mkdtemp(prefix="kd-pg-"))
        if self.user:
            shutil.chown(self.folder, self.user)
        try:
            data = str(self.folder / "data")
            self._run("initdb", "-D", data, "-U", "kitedash", "-A", "trust", "-E", "UTF8", "-N")
            options = f"-k {self.folder} -c listen_addresses='' -c fsync=off -c synchronous_commit=off"
            self._run(
                "pg_ctl", "-D", str(self.folder / "data"), "-w", "-l", str(self.folder / "log"), "-o", options, "start"
            )
        except subprocess.CalledProcessError as error:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise NoPostgresError(f"the server did not start: {error.stdout[-300:]}") from error
        self._databases = 0
        self._shared = ""

    def _run(self, program: str, *arguments: str) -> None:
        # Output goes to a file: the server would keep a pipe open and never let a reader end.
        with tempfile.TemporaryFile() as output:
            command = [str(self.bin / program), *arguments]
            ended = subprocess.run(command, user=self.user, stdout=output, stderr=output, cwd="/", check=False)
            output.seek(0)
            text = output.read().decode(errors="replace")
        if ended.returncode:
            raise subprocess.CalledProcessError(ended.returncode, command, text)

    def new_database(self) -> str:
        """The address of an empty database."""
        self._databases += 1
        name = f"kd_{self._databases}"
        with psycopg.connect(host=str(self.folder), user="kitedash", dbname="postgres", autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return f"postgresql://kitedash@/{name}?host={self.folder}"

    def shared_database(self) -> str:
        """The address of a database that is up to date and empty of rows. One for all tests: making one takes long."""
        if not self._shared:
            self._shared = self.new_database()
            migrate(self._shared)
        engine = make_engine(self._shared)
        kept = ("alembic_version", "package_schemas", "dbos_migrations")
        with engine.begin() as connection:
            found = connection.exec_driver_sql(
                "SELECT schemaname, tablename FROM pg_tables WHERE schemaname IN ('public', 'dbos')"
            ).all()
            filled = ", ".join(f'"{schema}"."{table}"' for schema, table in found if table not in kept)
            connection.exec_driver_sql("ALTER TABLE decision_records DISABLE TRIGGER USER")  # which keep its rows
            connection.exec_driver_sql(f"TRUNCATE {filled} CASCADE")
            connection.exec_driver_sql("ALTER TABLE decision_records ENABLE TRIGGER USER")
        engine.dispose()
        return self._shared

    def stop(self) -> None:
        self._run("pg_ctl", "-D", str(self.folder / "data"), "-m", "immediate", "-w", "stop")
        shutil.rmtree(self.folder, ignore_errors=True)
