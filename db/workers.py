"""Worker slots and their heartbeats: which queues are served right now."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import Worker
from db.upsert import upsert

MAX_HEARTBEAT_AGE_S = 15.0  # a worker beats every few seconds; what is silent for longer is taken for dead


def beat(
    session: Session,
    slot: str,
    *,
    host: str,
    pid: int,
    queue: str,
    devices: Sequence[str] = (),
    device_name: str = "",
    started_at: datetime | None = None,
    now: datetime | None = None,
) -> None:
    """The slot is alive. `slot` names it over all machines, such as "host:0+1"."""
    now = now or datetime.now(UTC)
    row = {
        "slot": slot,
        "host": host,
        "pid": pid,
        "queue": queue,
        "devices": list(devices),
        "device_name": device_name[:200],
        "started_at": started_at or now,
        "heartbeat_at": now,
    }
    kept = {} if started_at is not None else {"started_at": Worker.started_at}
    upsert(session, Worker, [row], on_conflict=kept)


def every(session: Session) -> Sequence[Worker]:
    """All slots that ever beat and were not taken back, dead ones too."""
    return session.scalars(sa.select(Worker).order_by(Worker.slot), execution_options={"populate_existing": True}).all()


def alive(session: Session, now: datetime | None = None, max_age_s: float = MAX_HEARTBEAT_AGE_S) -> Sequence[Worker]:
    """The slots whose last heartbeat is at most `max_age_s` old."""
    oldest = (now or datetime.now(UTC)) - timedelta(seconds=max_age_s)
    return [worker for worker in every(session) if worker.heartbeat_at >= oldest]


def remove(session: Session, slot: str) -> None:
    """The slot ended in order: it is not missed."""
    session.execute(sa.delete(Worker).where(Worker.slot == slot))
