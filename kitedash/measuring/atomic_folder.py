"""A folder that is there and complete, or not there at all, however many processes make it and whoever is killed."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kitedash.domain.errors import KiteDashError

GIB = 2**30


class DiskFullError(KiteDashError):
    """There is no room for what is to be made; nothing half-made is left."""


def build_folder(target: Path, build: Callable[[Path], None], *, needs_bytes: int, what: str) -> Path:
    """Makes `target` by calling `build` with an empty folder beside it, which is then renamed to `target`.

    Returns at once where `target` exists. Of several processes one builds and the others wait for it. What a killed
    builder left behind is removed by the next. `what` names the thing in messages ("the default model");
    `needs_bytes` is checked before building.

    Raises DiskFullError where the disk has no room, or ran out of it; what `build` raises passes through.
    """
    if target.is_dir():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target):
            if not target.is_dir():
                _remove_leftovers(target)
                _check_room(target, needs_bytes, what)
                _build_and_rename(target, build)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFullError(_no_room(target, needs_bytes, what)) from error
        raise
    except Exception as error:
        # libraries written in other languages wrap the system's error and keep only its text
        if os.strerror(errno.ENOSPC) in str(error):
            raise DiskFullError(_no_room(target, needs_bytes, what)) from error
        raise
    return target


@contextmanager
def _locked(target: Path) -> Iterator[None]:
    """The kernel drops the lock with the process that holds it, so a killed builder blocks nobody."""
    with (target.parent / f".{target.name}.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _leftover_prefix(target: Path) -> str:
    return f".{target.name}.building-"


def _remove_leftovers(target: Path) -> None:
    for leftover in target.parent.glob(f"{_leftover_prefix(target)}*"):
        shutil.rmtree(leftover, ignore_errors=True)


def _build_and_rename(target: Path, build: Callable[[Path], None]) -> None:
    work = Path(tempfile.mkdtemp(prefix=_leftover_prefix(target), dir=target.parent))
    try:
        build(work)
        work.chmod(0o755)  # mkdtemp and some writers make private files, but another user's worker may share them
        for path in work.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
            _flush_to_disk(path)
        _flush_to_disk(work)
        work.rename(target)
        _flush_to_disk(target.parent)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _flush_to_disk(path: Path) -> None:
    """Without it a power cut can leave the renamed folder with empty files."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _check_room(target: Path, needs_bytes: int, what: str) -> None:
    if shutil.disk_usage(target.parent).free < needs_bytes:
        raise DiskFullError(_no_room(target, needs_bytes, what))


def _no_room(target: Path, needs_bytes: int, what: str) -> str:
    return (
        f"the disk of {target.parent} has no room for {what}, which needs about {needs_bytes / GIB:.1f} GiB: "
        "free some space, or choose another folder with KITEDASH_DATA_DIR, and start again"
    )
