"""Starts every child of a stage under a guard, so that nothing outlives the worker (see guard_process.py)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from kitedash.measuring.process import Process, Spawn

GUARD = Path(__file__).with_name("guard_process.py")
CLEARING_S = 3.0  # what a guard may take beyond the grace before it is helped along


def guarded_spawn(*, lock_fds: Sequence[int] = (), grace_s: float = 2.0) -> Spawn:
    """A `Spawn` whose processes end, with all that they started, when this process ends in any way.

    `lock_fds` are open, locked files that the started program inherits: a device stays locked while it lives.
    `grace_s` is the time between terminate and kill.
    """

    async def spawn(argv: Sequence[str], *, env: Mapping[str, str], log_path: Path) -> Process:
        log_path.parent.mkdir(parents=True, exist_ok=True)
        read_end, write_end = os.pipe()
        try:
            with log_path.open("ab") as log:
                guard = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-I", "-S", str(GUARD)),
                    *(str(read_end), str(grace_s), ",".join(map(str, lock_fds))),
                    *argv,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=dict(env),
                    pass_fds=(read_end, *lock_fds),
                    start_new_session=True,
                )
        except BaseException:
            os.close(write_end)  # a guard that was started after all reads end of file and ends
            raise
        finally:
            os.close(read_end)
        return GuardedProcess(guard, write_end, grace_s)

    return spawn


class GuardedProcess:
    """`pid` is the guard's: the program and all that it starts are its descendants."""

    def __init__(self, guard: asyncio.subprocess.Process, lifeline: int, grace_s: float) -> None:
        self._guard = guard
        self._lifeline: int | None = lifeline
        self._grace_s = grace_s

    @property
    def pid(self) -> int:
        return self._guard.pid

    @property
    def returncode(self) -> int | None:
        return self._guard.returncode

    async def wait(self) -> int:
        status = await self._guard.wait()
        self._close_lifeline()
        return status

    async def stop(self) -> None:
        """Returns when the tree is gone, also when it is called again or was interrupted before."""
        self._close_lifeline()
        try:
            await asyncio.wait_for(asyncio.shield(self._guard.wait()), self._grace_s + CLEARING_S)
        except TimeoutError:
            for process in _tree(self.pid):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            await self._guard.wait()

    def _close_lifeline(self) -> None:
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None


def _tree(pid: int) -> list[psutil.Process]:
    try:
        root = psutil.Process(pid)
        return [*root.children(recursive=True), root]
    except psutil.NoSuchProcess:
        return []
