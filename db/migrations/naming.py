"""Which tables Alembic may see."""

from __future__ import annotations

from typing import Any

from db.models import Base


def is_own(name: str | None, kind: str, _parents: Any) -> bool:
    """DBOS keeps its tables in the same database: those are neither compared nor touched."""
    return kind != "table" or name in Base.metadata.tables
