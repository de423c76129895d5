"""Migrations: up to date with the models, safe in two processes at once, and honest about what they can't open."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from db import schema
from db.engine import StorageError, make_engine, migrate
from db.migrations.naming import is_own
from db.models import Base
from kitedash.domain.errors import InvalidInput

pytestmark = pytest.mark.database
ROOT = Path(__file__).resolve().parents[2]
FIRST_ROWS = (
    "INSERT INTO experiments (id, name, created_at, created_by, spec, spec_sha256) "
    "VALUES ('e', 'first', '2026-11-30', 'local', '{}', 'a')",
    "INSERT INTO runs (id, experiment_id, position, repeat, candidate_name, candidate, is_baseline, queue, status, "
    "error, attempts, worker, log_path, created_at, revision) "
    "VALUES ('r', 'e', 0, 0, 'bf16', '{}', true, 'cpu', 'finished', '', 1, '', '', '2026-11-30', 0)",
    "INSERT INTO stages (run_id, name, position, status, done, total, note, executions, started_at) "
    "VALUES ('r', 'load', 0, 'finished', 1, 1, '', 1, '2026-11-30')",
)


def test_the_head_that_the_code_expects_is_the_newest_revision() -> None:
    config = Config()
    config.set_main_option("script_location", str(schema.MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_heads() == [schema.HEAD]


def test_the_migrated_database_has_exactly_the_tables_of_the_models(new_url: str) -> None:
    migrate(new_url)
    engine = make_engine(new_url)
    with engine.connect() as connection:
        options = {"compare_type": True, "compare_server_default": True, "include_name": is_own}
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, Base.metadata) == []
    engine.dispose()


def test_a_database_of_every_earlier_revision_is_brought_up_to_date_with_its_rows(new_url: str) -> None:
    """Rows with children are what an upgrade that copies tables would lose, or refuse."""
    migrate(new_url)
    engine = make_engine(new_url)
    config = Config()
    config.set_main_option("script_location", str(schema.MIGRATIONS))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, "0001")
    with engine.begin() as connection:
        for statement in FIRST_ROWS:
            connection.execute(sa.text(statement))
    engine.dispose()
    migrate(new_url)
    engine = make_engine(new_url)
    with engine.connect() as connection:
        assert schema.stored_revision(connection) == schema.HEAD
        assert connection.scalar(sa.text("SELECT count(*) FROM stages JOIN runs ON runs.id = run_id")) == 1
        context = MigrationContext.configure(connection, opts={"include_name": is_own})
        assert compare_metadata(context, Base.metadata) == []
    engine.dispose()


def test_dbos_finds_its_own_tables_there(new_url: str) -> None:
    migrate(new_url)
    engine = make_engine(new_url)
    inspector = sa.inspect(engine)
    schema_name = "dbos" if engine.dialect.name == "postgresql" else None
    assert {"workflow_status", "operation_outputs"} <= set(inspector.get_table_names(schema=schema_name))
    engine.dispose()


def test_sqlite_is_left_in_wal_mode_and_enforces_foreign_keys(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a/b/kitedash.db"  # the folders are made
    migrate(url)
    engine = make_engine(url)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
        with pytest.raises(sa.exc.IntegrityError):
            connection.execute(
                sa.text(
                    "INSERT INTO stages (run_id, name, position, status, done, total, note, executions, started_at)"
                    " VALUES ('nowhere', 'load', 0, 'running', 0, 0, '', 1, '2026-11-30')"
                )
            )
    engine.dispose()


def test_a_second_migration_changes_nothing_and_takes_under_half_a_second(new_url: str) -> None:
    migrate(new_url)
    began = time.perf_counter()
    migrate(new_url)
    assert time.perf_counter() - began < 0.5


def test_three_processes_migrate_one_new_database_at_once(new_url: str) -> None:
    code = "import sys; from db.engine import migrate; migrate(sys.argv[1])"
    processes = [
        subprocess.Popen([sys.executable, "-c", code, new_url], cwd=ROOT, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    errors = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], errors
    engine = make_engine(new_url)
    assert schema.is_current(engine)
    engine.dispose()


def test_an_interrupted_first_migration_is_taken_up_again(new_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(_url: sa.URL) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(schema, "_upgrade_dbos", killed)
        with pytest.raises(KeyboardInterrupt):
            migrate(new_url)
    migrate(new_url)
    engine = make_engine(new_url)
    assert schema.is_current(engine)
    engine.dispose()


def test_a_database_newer_than_the_code_is_refused_in_one_sentence(new_url: str) -> None:
    migrate(new_url)
    engine = make_engine(new_url)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(StorageError, match=r"made by a newer KiteDash .*9999.* update KiteDash"):
        migrate(new_url)


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "kitedash.db"
    file.write_text("shopping list: eggs, flour, sugar, and a great deal of patience" * 20)
    before = file.read_bytes()
    with pytest.raises(StorageError, match="is not an SQLite database"):
        migrate(f"sqlite:///{file}")
    assert file.read_bytes() == before


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"folder .*file.* can't be used"):
        migrate(f"sqlite:///{tmp_path}/file/kitedash.db")


def test_a_server_that_does_not_answer_is_named_without_its_password() -> None:
    with pytest.raises(StorageError) as caught:
        migrate("postgresql://kite:secret@127.0.0.1:9/kitedash")
    assert "127.0.0.1" in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["", "kitedash.db", "sqlite://", "sqlite:///:memory:", "mysql://h/d", "sqlite:///a?b=c"]
)
def test_other_addresses_are_refused_with_what_is_allowed(url: str) -> None:
    with pytest.raises(InvalidInput, match=r"KITEDASH_DATABASE_URL: .*sqlite:////.*postgresql://"):
        migrate(url)
