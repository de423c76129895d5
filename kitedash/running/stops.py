"""Counts how often a worker was told to end during a run: such an end is no loss and must not count towards giving
the run up. Kept in a file of its own, since the worker has no time for the database when it is told to end."""

from __future__ import annotations

import contextlib
from pathlib import Path


def note(locks_dir: Path, run_id: str) -> None:
    """One more ordered end while the run was under way."""
    with (locks_dir / f"stops-{run_id}").open("a", encoding="ascii") as file:
        file.write(".")


def count(locks_dir: Path, run_id: str) -> int:
    with contextlib.suppress(FileNotFoundError):
        return (locks_dir / f"stops-{run_id}").stat().st_size
    return 0


def forget(locks_dir: Path, run_id: str) -> None:
    (locks_dir / f"stops-{run_id}").unlink(missing_ok=True)
