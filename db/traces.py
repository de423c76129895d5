"""Traces as stored: one content for each name, never changed. Functions take a session and commit nothing."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import Trace as TraceRow
from kitedash.domain.errors import InvalidInput, NotFound
from kitedash.domain.trace import Trace


@dataclass(frozen=True)
class TraceHead:
    """What a trace is, without its requests. `span_s` is from the first one to the last, `sha256` of its canonical
    file."""

    name: str
    sha256: str
    n_requests: int
    span_s: float
    longest_request_tokens: int
    imported_at: datetime
    imported_by: str

    @property
    def rate_per_s(self) -> float:
        """As it was recorded."""
        return (self.n_requests - 1) / self.span_s


def add(session: Session, name: str, trace: Trace, *, imported_by: str, now: datetime) -> None:
    """Stores a trace under a name; one that is there with the same content stays as it is.

    Raises InvalidInput where the name stands for another content.
    """
    there = session.scalar(sa.select(TraceRow.sha256).where(TraceRow.name == name))
    if there is not None:
        if there != trace.sha256:
            raise InvalidInput("name", f"{name} is the name of another trace already; choose another name")
        return
    session.add(
        TraceRow(
            name=name,
            sha256=trace.sha256,
            n_requests=len(trace.rows),
            span_s=trace.span_s,
            longest_request_tokens=trace.longest_request_tokens,
            content=zlib.compress(trace.csv(), 6),
            imported_at=now,
            imported_by=imported_by,
        )
    )
    session.flush()


def heads(session: Session) -> list[TraceHead]:
    """All traces by name."""
    columns = [getattr(TraceRow, name) for name in TraceHead.__dataclass_fields__]
    return [TraceHead(*row) for row in session.execute(sa.select(*columns).order_by(TraceRow.name))]


def content(session: Session, name: str) -> bytes:
    """The canonical file. Raises NotFound."""
    found = session.scalar(sa.select(TraceRow.content).where(TraceRow.name == name))
    if found is None:
        raise NotFound(f"No trace has the name {name!r}.")
    return zlib.decompress(found)
