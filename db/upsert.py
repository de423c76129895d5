"""INSERT ... ON CONFLICT DO UPDATE, as both databases know it: what makes storing a result repeatable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from db.models import Base


def upsert(
    session: Session,
    table: type[Base],
    rows: Sequence[Mapping[str, Any]],
    *,
    on_conflict: Mapping[str, Any] | None = None,
) -> None:
    """Inserts the rows; where one with the same primary key is stored, its other columns are replaced.

    `on_conflict` gives columns that are computed from what is stored instead, such as a count of executions.
    """
    if not rows:
        return
    make_insert = sqlite.insert if session.get_bind().dialect.name == "sqlite" else postgresql.insert
    statement: Any = make_insert(table)
    keys = [column.name for column in sa.inspect(table).primary_key]
    replaced = {name: statement.excluded[name] for name in rows[0] if name not in keys}
    statement = statement.on_conflict_do_update(index_elements=keys, set_={**replaced, **(on_conflict or {})})
    # Without ORM events: many rows go in one executemany, and loaded objects are refreshed by the reads below.
    session.flush()
    session.connection().execute(statement, [dict(row) for row in rows])
