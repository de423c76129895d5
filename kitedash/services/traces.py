"""Recorded traces: import, list, export. A name stands for one content for ever, so that a workload means one thing."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

from db import traces as stored
from db.engine import hold_write_lock, sessions
from db.traces import TraceHead as TraceHead
from kitedash.domain.errors import InvalidInput
from kitedash.domain.sentences import shown
from kitedash.domain.trace import Unit, parse, short_prompts
from kitedash.domain.workload import NAME
from kitedash.services.actor import Actor, require
from kitedash.settings import settings

IMPORT_LOCK = 0x54524143  # "TRAC": one import at a time, so that each finds the names that are taken


def import_trace(
    actor: Actor, name: str, content: bytes, *, source: str, unit: Unit = "s", sort: bool = False
) -> TraceHead:
    """Stores the trace in a CSV or JSON Lines file under a name. The same requests again change nothing.

    Raises NotAllowed, and InvalidInput: for what is wrong with the file, or where the name stands for another trace.
    """
    require(actor, "engineer", "import traces")
    if re.fullmatch(NAME, name) is None:
        raise InvalidInput(
            "name",
            "must have letters, digits, spaces and . _ - (at most 80 characters, a letter or digit first), not "
            f"{shown(name)}",
        )
    trace = parse(content, source=source, unit=unit, sort=sort)
    with sessions(settings().url).begin() as session:
        hold_write_lock(session, IMPORT_LOCK)
        stored.add(session, name, trace, imported_by=actor.name, now=datetime.now(UTC))
    return next(head for head in traces() if head.name == name)


def traces() -> tuple[TraceHead, ...]:
    """All of them by name."""
    with sessions(settings().url)() as session:
        return tuple(stored.heads(session))


def export_trace(name: str) -> bytes:
    """The trace as KiteDash's own CSV, which imports to an equal one. Raises NotFound."""
    with sessions(settings().url)() as session:
        return stored.content(session, name)


def note_on(name: str) -> str:
    """What to know before the trace is replayed as chat, or "". Raises NotFound."""
    return short_prompts(name, _shortest_prompt_tokens(settings().url, name))


@lru_cache(maxsize=256)
def _shortest_prompt_tokens(url: str, name: str) -> int:
    """A name stands for one content for ever, so it is read once."""
    with sessions(url)() as session:
        return parse(stored.content(session, name)).shortest_prompt_tokens
