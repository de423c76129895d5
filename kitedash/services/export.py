"""A view as JSON, and a table as CSV, for scripts and spreadsheets: the same numbers that a page draws."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import BaseModel

from kitedash.domain.csv_cell import Cell, csv_cell


def as_json(view: Any) -> str:
    """Indented JSON of view models and of what they hold; times in ISO 8601.

    JSON has no infinity, so a latency beyond any bound is the text "inf"; what is not established is null.
    """
    return json.dumps(plain(view), indent=2, ensure_ascii=False, allow_nan=False)


def plain(value: Any) -> Any:
    """`value` as JSON types."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, (bool, int)):
        return value
    return str(value)


def as_csv(rows: Sequence[Mapping[str, Cell]]) -> str:
    """One line a row under the names of the columns, which are those of the first row; "" without rows."""
    if not rows:
        return ""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(rows[0])
    writer.writerows([csv_cell(row[name]) for name in rows[0]] for row in rows)
    return text.getvalue()
