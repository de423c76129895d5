"""Alembic's entry. `db.schema` hands its connection over; a developer's `alembic revision` uses the settings."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import context

from db.engine import make_engine
from db.migrations.naming import is_own
from db.models import Base
from kitedash.settings import settings


def run(connection: sa.Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        include_name=is_own,
        render_as_batch=connection.dialect.name == "sqlite",  # SQLite alters a table by copying it
    )
    with context.begin_transaction():
        context.run_migrations()


handed_over: sa.Connection | None = context.config.attributes.get("connection")
if handed_over is not None:
    run(handed_over)
else:
    with make_engine(settings().url).connect() as own:
        run(own)
        own.commit()
