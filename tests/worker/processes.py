"""Looks at the processes of this machine, so that a test can say what is left of a tree."""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil


def marked(mark: str) -> list[psutil.Process]:
    """Living processes (zombies do not count) whose command line holds the mark."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and any(mark in part for part in process.cmdline()):
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_for(condition: Callable[[], object], timeout_s: float, what: str) -> float:
    """Seconds until the condition held. Fails the test when it does not in time."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > timeout_s:
            raise AssertionError(f"not within {timeout_s:g} s: {what}")
        time.sleep(0.02)
    return time.monotonic() - began
