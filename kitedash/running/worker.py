"""The worker: one process a slot, which takes run after run from its queue.

`python -m kitedash.running.worker SLOT` serves one slot.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from datetime import UTC, datetime

from dbos import DBOS, DBOSConfig
from sqlalchemy.exc import SQLAlchemyError

from db import engine, workers
from kitedash.domain.errors import KiteDashError
from kitedash.measuring.device import detect
from kitedash.measuring.server import VLLM, EngineProgram
from kitedash.running import stops, workflow
from kitedash.running.context import WorkerContext
from kitedash.running.guard import CLEARING_S, guarded_spawn
from kitedash.running.janitor import adopt_orphans, settle_ended
from kitedash.running.locks import hold_devices, hold_slot
from kitedash.running.queue import APPLICATION, APPLICATION_VERSION, serializer
from kitedash.running.slots import Slot, parse_slot
from kitedash.settings import settings

HEARTBEAT_S = 2.0
BEATS_PER_ROUND = 15  # the janitor's
FAREWELL_S = 0.3
REFUSED = 3  # exit status of a worker that can't serve its slot: to start it again is no use
ENDS = frozenset({signal.SIGTERM, signal.SIGINT})
LOGGER = logging.getLogger(__name__)


def serve(slot: Slot, *, program: EngineProgram = VLLM) -> None:
    """Runs until SIGTERM or SIGINT, which end the process at once: the guards clear what it started, and the run that
    was under way goes on at the next start.

    Raises BusyError where another worker serves the slot or holds its devices, InvalidInput where this machine has
    no such device.
    """
    config = settings()
    slot_lock = hold_slot(slot.name, config.locks_dir)
    device = detect(slot.ids)
    if device.kind == "gpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(slot.ids)
    clearing_s = config.engine_stop_grace_s + 2 * CLEARING_S
    device_locks = hold_devices(slot.ids, slot.name, config.locks_dir, clearing_s)
    worker = WorkerContext(
        slot=slot.name,
        device=device,
        sessions=engine.sessions(config.url),
        settings=config,
        spawn=guarded_spawn(lock_fds=[lock.fd for lock in device_locks], grace_s=config.engine_stop_grace_s),
        program=program,
    )
    workflow.configure(worker)
    ends = _catch_ends()
    _launch(slot, worker)
    threading.Thread(target=_keep_beating, args=(slot, worker), name="heartbeat", daemon=True).start()
    print(f"worker {slot.name} serves queue {slot.queue} on {device.name}", flush=True)
    _wait_for_end(ends)
    _leave(slot, worker)
    slot_lock.release()  # named here so that it lives as long as the process


def _catch_ends() -> int:
    """From now on SIGTERM and SIGINT are only written down, in the pipe whose read end is returned.

    The kernel may give the signal to any thread. Where it isn't the main one, a main thread that waits for a lock or
    an event sleeps on and Python never runs a handler; a pipe that whichever thread fills wakes it.
    """
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)  # as Python asks of it
    for number in ENDS:
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    return read_end


def _wait_for_end(read_end: int) -> None:
    while not ENDS.intersection(os.read(read_end, 512)):  # a byte a signal: its number
        pass


def _launch(slot: Slot, worker: WorkerContext) -> None:
    config = worker.settings
    options: DBOSConfig = {
        "name": APPLICATION,
        "system_database_url": engine.parse_url(config.url).render_as_string(hide_password=False),
        "executor_id": slot.name,
        "application_version": APPLICATION_VERSION,
        "serializer": serializer(),
        "log_level": "ERROR",
        "run_migrations": False,  # the database is up to date once its sessions are there
        "use_listen_notify": False,
    }
    DBOS(config=options)
    DBOS.listen_queues([slot.queue])  # must come before the launch, or every queue is served
    DBOS.launch()
    settle_ended(slot, worker.sessions, ())
    DBOS.register_queue(slot.queue, worker_concurrency=1, polling_interval_sec=config.poll_interval_s)


def _keep_beating(slot: Slot, worker: WorkerContext) -> None:
    started_at = datetime.now(UTC)
    pause = threading.Event()
    for beat in itertools.count():
        try:
            with worker.sessions.begin() as session:
                workers.beat(
                    session,
                    slot.name,
                    host=slot.host,
                    pid=os.getpid(),
                    queue=slot.queue,
                    devices=slot.ids,
                    device_name=worker.device.name,
                    started_at=started_at,
                    now=datetime.now(UTC),
                )
            if beat % BEATS_PER_ROUND == 0:
                settle_ended(slot, worker.sessions, workflow.active_runs())
                adopt_orphans(slot, worker.device.name, worker.sessions)
        except Exception as error:  # whatever it is: a worker without a heartbeat would be taken for dead
            LOGGER.warning("no heartbeat: %s", error)  # the database may be back at the next one
        pause.wait(HEARTBEAT_S)


def _leave(slot: Slot, worker: WorkerContext) -> None:
    """Ends the process without cleaning up by hand: the lifelines close with it. The row goes if there is time."""
    for run_id in workflow.active_runs():
        stops.note(worker.settings.locks_dir, run_id)

    def farewell() -> None:
        with contextlib.suppress(SQLAlchemyError), worker.sessions.begin() as session:
            workers.remove(session, slot.name)

    goodbye = threading.Thread(target=farewell, daemon=True)
    goodbye.start()
    goodbye.join(FAREWELL_S)
    os._exit(0)


def main(arguments: Sequence[str], *, program: EngineProgram = VLLM) -> int:
    try:
        serve(parse_slot(arguments[0] if arguments else "cpu"), program=program)
    except engine.StorageError as error:  # the database may be back in a moment
        print(error, file=sys.stderr)
        return 1
    except KiteDashError as error:
        print(error, file=sys.stderr)
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
