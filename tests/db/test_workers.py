"""Heartbeats: a slot is alive while it beats."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy.orm import Session, sessionmaker

from db import workers
from tests.db.rows import NOON

pytestmark = pytest.mark.database


def test_a_slot_is_alive_for_as_long_as_it_beats(store: sessionmaker[Session]) -> None:
    with store.begin() as session:
        workers.beat(session, "h:cpu", host="h", pid=1, queue="cpu", now=NOON)
        workers.beat(session, "h:0", host="h", pid=2, queue="gpu-1", devices=("0",), device_name="H200", now=NOON)
    soon, later = NOON + timedelta(seconds=10), NOON + timedelta(seconds=20)
    with store.begin() as session:
        workers.beat(session, "h:0", host="h", pid=3, queue="gpu-1", devices=("0",), device_name="H200", now=soon)
    with store.begin() as session:
        assert [worker.slot for worker in workers.alive(session, soon, 15)] == ["h:0", "h:cpu"]
        (worker,) = workers.alive(session, later, 15)
        assert (worker.slot, worker.pid, worker.devices, worker.started_at) == ("h:0", 3, ["0"], NOON)
        workers.remove(session, "h:0")
        assert [worker.slot for worker in workers.every(session)] == ["h:cpu"]
