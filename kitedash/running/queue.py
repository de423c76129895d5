"""The way into the queue, for whoever launches and cancels. Nothing here starts a thread or runs a workflow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import sqlalchemy as sa
from dbos import DBOSClient, DBOSPortableJSONSerializer, EnqueueOptions, Serializer

from db.engine import make_engine

APPLICATION = "kitedash"
APPLICATION_VERSION = "1"  # fixed by hand: a version made from the code would strand every run queued before a change
WORKFLOW = "run"


def serializer() -> Serializer:
    """JSON: with DBOS's default, pickle, whoever can write the database could run code in a worker."""
    return DBOSPortableJSONSerializer()


def queue_name(device_kind: Literal["cpu", "gpu"], devices: int) -> str:
    """The queue that slots of this kind and size serve."""
    return "cpu" if device_kind == "cpu" else f"gpu-{devices}"


def enqueue_in(connection: sa.Connection, run_id: str, queue: str, url: str = "", *, priority: int = 1) -> None:
    """Puts a run into a queue within the caller's transaction: its row and its place become true together.

    The workflow's id is the run's. Queued twice, it runs once. The lowest priority (from 1 on) goes first; among
    equals the queue's own times decide, which are equal within a transaction. `url` is not needed: the connection
    knows.
    """
    options: EnqueueOptions = {
        "workflow_name": WORKFLOW,
        "queue_name": queue,
        "workflow_id": run_id,
        "app_version": APPLICATION_VERSION,
        "priority": priority,
    }
    with _client(connection.engine) as client:
        client.enqueue_in_transaction(connection, options, run_id)


def cancel(url: str, run_id: str) -> None:
    """Cancels a run, queued or running; a running one's processes are gone within seconds. No error if it is over."""
    engine = make_engine(url)
    try:
        with _client(engine) as client:
            client.cancel_workflow(run_id)
    finally:
        engine.dispose()


def is_cancelled(url: str, run_id: str) -> bool:
    """What the queue says; asked by a client, since within a workflow DBOS would make the question a step of it."""
    engine = make_engine(url)
    try:
        with _client(engine) as client:
            found = client.list_workflows(workflow_ids=[run_id], load_input=False, load_output=False)
            return any(workflow.status == "CANCELLED" for workflow in found)
    finally:
        engine.dispose()


@contextmanager
def _client(engine: sa.Engine) -> Iterator[DBOSClient]:
    """A client on an engine that stays the caller's; lazy, since that engine has been used already."""
    client = DBOSClient(system_database_engine=engine, serializer=serializer(), application_name=APPLICATION, lazy=True)
    try:
        yield client
    finally:
        client.destroy()
