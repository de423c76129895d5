"""How measuring starts other programs. The worker hands in a spawn that puts each of them under a guard
(`kitedash/running/guard.py`); `direct_spawn` is the plain one, for tools that end with the terminal they run in."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import psutil

STOP_GRACE_S = 2.0
# all that a child may see of this process's environment: neither secrets nor the team's own variables
PASSED_ON = (
    *("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "XDG_CACHE_HOME", "HF_HOME", "VIRTUAL_ENV"),
    *("LD_LIBRARY_PATH", "LD_PRELOAD", "CUDA_HOME", "CUDA_PATH", "TRITON_CACHE_DIR", "NCCL_P2P_DISABLE"),
)


def clean_environment() -> dict[str, str]:
    """The least that a child needs to run: what it is given beyond that is said where it is started."""
    return {name: os.environ[name] for name in PASSED_ON if name in os.environ}


class Process(Protocol):
    """A started program with everything that it started in turn."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None:
        """None while it runs; 128 + signal number, or minus that number, where a signal ended it."""

    async def wait(self) -> int:
        """Waits for its end; returns the exit status."""

    async def stop(self) -> None:
        """Ends the whole tree and returns when it is gone. Stopping what has ended is no error."""


class Spawn(Protocol):
    """Starts `argv` (no shell) with `env` as its complete environment; both its outputs are appended to `log_path`."""

    async def __call__(self, argv: Sequence[str], *, env: Mapping[str, str], log_path: Path) -> Process: ...


async def direct_spawn(argv: Sequence[str], *, env: Mapping[str, str], log_path: Path) -> Process:
    """A `Spawn` without a guard: what it starts outlives a killed parent, so the worker never uses it."""
    with log_path.open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=dict(env),
            start_new_session=True,
        )
    return _DirectProcess(process)


class _DirectProcess:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    async def wait(self) -> int:
        return await self._process.wait()

    async def stop(self) -> None:
        try:
            root = psutil.Process(self.pid)
            tree = [*root.children(recursive=True), root]
        except psutil.NoSuchProcess:
            await self._process.wait()
            return
        for process in tree:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.terminate()
        _, alive = await asyncio.to_thread(psutil.wait_procs, tree[:-1], timeout=STOP_GRACE_S)
        for process in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        try:
            await asyncio.wait_for(self._process.wait(), STOP_GRACE_S)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
