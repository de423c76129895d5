"""Several slots on one machine: a worker process each, started again when it dies, ended with this one."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from kitedash.running.guard import guarded_spawn
from kitedash.running.slots import Slot
from kitedash.running.worker import REFUSED, serve
from kitedash.settings import settings

RESTART_PAUSE_S = 2.0
WORKER_GRACE_S = 5.0  # a worker ends at once when told to


def supervise(slots: Sequence[Slot]) -> int:
    """Serves the slots until SIGTERM or SIGINT; returns the exit status. A single slot is served by this process.

    Raises BusyError or InvalidInput where a single slot can't be served; of several, those that can't are named.
    """
    if len(slots) == 1:
        serve(slots[0])
        return 0
    return asyncio.run(_supervise(slots))


async def _supervise(slots: Sequence[Slot]) -> int:
    tasks = [asyncio.create_task(_keep_serving(slot)) for slot in slots]

    def end() -> None:
        for task in tasks:
            task.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, end)
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException) and not isinstance(outcome, asyncio.CancelledError):
            raise outcome
    return 0 if any(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes) else REFUSED


async def _keep_serving(slot: Slot) -> None:
    """Returns only where the worker refuses."""
    log_path = settings().logs_dir / f"worker-{'+'.join(slot.ids)}.log"
    spawn = guarded_spawn(grace_s=WORKER_GRACE_S)
    while True:
        worker = await spawn(
            [sys.executable, "-m", "kitedash.running.worker", ",".join(slot.ids)], env=os.environ, log_path=log_path
        )
        print(f"worker {slot.name} started; its log is {log_path}", flush=True)
        try:
            status = await worker.wait()
        finally:
            await worker.stop()
        if status == REFUSED:
            print(f"worker {slot.name}: {await asyncio.to_thread(_last_line, log_path)}", file=sys.stderr, flush=True)
            return
        print(f"worker {slot.name} ended with status {status} and is started again", file=sys.stderr, flush=True)
        await asyncio.sleep(RESTART_PAUSE_S)


def _last_line(log_path: Path) -> str:
    lines = [line for line in log_path.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it gave no reason"
