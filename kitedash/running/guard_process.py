"""python guard_process.py LIFELINE_FD GRACE_S KEPT_FDS COMMAND...: COMMAND's whole tree ends with its starter.

The starter holds the write end of a pipe and hands the read end down as LIFELINE_FD. However the starter ends,
kill -9 included, the kernel closes the write end; end of file there, or SIGTERM, means: terminate every descendant
and kill after GRACE_S what is left. As a sub-reaper a guard inherits orphans, so leaving the session is no way out.
KEPT_FDS (comma separated, may be empty) go on to COMMAND: locks that hold while anything of it lives.

Two guards, one above the other, watch the same lifeline: whichever is killed, the other one clears the tree. If both
are, the kernel kills COMMAND itself (PR_SET_PDEATHSIG). Standard library only, and run with -I -S: it starts in
milliseconds and cannot be broken by what is installed.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
SCAN_INTERVAL_S = 0.02
OUTER_DELAY_S = 0.5
LIBC = ctypes.CDLL(None, use_errno=True)


def main(arguments: list[str]) -> int:
    lifeline, grace_s, command = int(arguments[0]), float(arguments[1]), arguments[3:]
    kept = [int(number) for number in arguments[2].split(",") if number]
    os.set_inheritable(lifeline, False)

    def inner_guard() -> int:
        return watch(lambda: run(command, kept), lifeline, grace_s)

    # the outer guard leaves the terminating to the inner one, so that an engine is asked once, and then makes sure
    outer_grace_s = grace_s + OUTER_DELAY_S
    return watch(lambda: end_with_parent(inner_guard, signal.SIGTERM), lifeline, outer_grace_s, ask_all=False)


def watch(start: Callable[[], int], lifeline: int, grace_s: float, *, ask_all: bool = True) -> int:
    """Runs `start` in a child and returns its exit status once it and all it left behind are gone.

    `ask_all`: whether to terminate every descendant or, as long as it lives, the child alone.
    """
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    terminated: list[int] = []
    signal.signal(signal.SIGCHLD, lambda number, frame: None)  # only to be woken up
    signal.signal(signal.SIGTERM, lambda number, frame: terminated.append(number))
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    child = fork(start, close=(wake_read, wake_write))
    status: int | None = None
    while status is None and not terminated:
        status = reap().get(child)
        if status is None and not terminated:
            ready, _, _ = select.select([lifeline, wake_read], [], [])
            if wake_read in ready:
                os.read(wake_read, 512)
            if lifeline in ready and not os.read(lifeline, 1):
                break
    ended = end_tree(grace_s, None if ask_all or status is not None else child)
    status = ended.get(child, status)
    return 128 + signal.SIGTERM if status is None else exit_status(status)


def fork(start: Callable[[], int], close: tuple[int, int]) -> int:
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        for descriptor in close:
            os.close(descriptor)
        status = start()
    finally:
        os._exit(status)


def end_with_parent(start: Callable[[], int], number: int) -> int:
    """Runs `start`; the kernel sends the signal when the parent ends before."""
    parent = os.getppid()
    LIBC.prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the kernel was asked
        return 1
    return start()


def run(command: list[str], kept: list[int]) -> int:
    for descriptor in kept:
        os.set_inheritable(descriptor, True)

    def execute() -> NoReturn:
        try:
            os.execvp(command[0], command)  # noqa: S606 - an argument vector on purpose, no shell
        except OSError as error:
            os.write(2, f"{command[0]}: {error.strerror}\n".encode())
            os._exit(127)

    return end_with_parent(execute, signal.SIGKILL)


def end_tree(grace_s: float, ask_only: int | None) -> dict[int, int]:
    """Terminates, then kills, every descendant (`ask_only`, while it lives, is the one to terminate); returns the
    wait statuses of those reaped here."""
    kill_at = time.monotonic() + grace_s
    asked: set[int] = set()
    ended: dict[int, int] = {}
    while True:
        ended.update(reap())
        remaining = descendants(os.getpid())
        if not remaining:
            return ended
        late = time.monotonic() > kill_at
        spared = ask_only in remaining and not late
        for process in remaining:
            if late or not (process in asked or (spared and process != ask_only)):
                asked.add(process)
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(process, signal.SIGKILL if late else signal.SIGTERM)
        time.sleep(SCAN_INTERVAL_S)


def descendants(root: int) -> list[int]:
    """Every living descendant (zombies do not count), from /proc."""
    children: dict[int, list[tuple[int, str]]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with suppress(OSError, ValueError):  # it may end while it is looked at
                state, parent = read_stat(entry.name)
                children.setdefault(parent, []).append((int(entry.name), state))
    found: list[int] = []
    ahead = [root]
    while ahead:
        for process, state in children.get(ahead.pop(), []):
            ahead.append(process)
            if state not in "ZX":
                found.append(process)
    return found


def read_stat(process: str) -> tuple[str, int]:
    """State and parent of a process."""
    descriptor = os.open(f"/proc/{process}/stat", os.O_RDONLY)
    try:
        text = os.read(descriptor, 4096).decode(errors="replace")
    finally:
        os.close(descriptor)
    state, parent = text.rpartition(")")[2].split()[:2]  # the name in parentheses may itself hold any of these signs
    return state, int(parent)


def reap() -> dict[int, int]:
    ended: dict[int, int] = {}
    with suppress(ChildProcessError):
        while True:
            process, status = os.waitpid(-1, os.WNOHANG)
            if not process:
                break
            ended[process] = status
    return ended


def exit_status(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
