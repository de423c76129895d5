"""File locks: one worker a slot, one user a device. The kernel lets go of them however their holder ends."""

from __future__ import annotations

import fcntl
import os
import re
import time
from pathlib import Path

from kitedash.domain.errors import KiteDashError

RETRY_INTERVAL_S = 0.1


class BusyError(KiteDashError):
    """Another process holds the lock."""


class FileLock:
    """Held from `acquire` on until its descriptor and every inherited copy of it are closed."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a+", encoding="utf-8")

    @property
    def fd(self) -> int:
        return self._file.fileno()

    def acquire(self, holder: str, timeout_s: float = 0.0) -> bool:
        """False where it is still held elsewhere after the time-out; else `holder` is noted for others to read."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    return False
                time.sleep(RETRY_INTERVAL_S)
        self._file.seek(0)
        self._file.truncate()
        self._file.write(holder)
        self._file.flush()
        return True

    def holder(self) -> str:
        self._file.seek(0)
        return self._file.read().strip()

    def release(self) -> None:
        self._file.close()


def hold_slot(slot: str, locks_dir: Path) -> FileLock:
    """The slot's lock, for as long as this process lives. Raises BusyError with one sentence."""
    lock = FileLock(locks_dir / f"slot-{_file_name(slot)}.lock")
    if not lock.acquire(f"process {os.getpid()}"):
        holder = lock.holder()
        lock.release()
        raise BusyError(f"another worker ({holder}) already serves slot {slot}")
    return lock


def hold_devices(ids: tuple[str, ...], slot: str, locks_dir: Path, timeout_s: float) -> list[FileLock]:
    """The locks of all devices, in a fixed order. Engines inherit them, so a device stays locked until the last
    process of a former engine is gone: `timeout_s` is how long to wait for that.

    Raises BusyError with one sentence.
    """
    held: list[FileLock] = []
    for name in sorted(ids):
        lock = FileLock(locks_dir / f"device-{_file_name(name)}.lock")
        held.append(lock)
        if not lock.acquire(f"slot {slot} (process {os.getpid()})", timeout_s):
            holder = lock.holder()
            for other in held:
                other.release()
            raise BusyError(f"device {name} is still in use by {holder} or by an engine that it left behind")
    return held


def _file_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.+-]", "_", text)
