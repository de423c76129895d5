"""The guard, with real processes: whoever is killed, nothing of the tree is left."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from kitedash.running.guard import GUARD, guarded_spawn
from tests.worker.processes import marked, wait_for

pytestmark = pytest.mark.worker

ENVIRONMENT = {"PATH": os.environ["PATH"]}
# an engine in miniature: a child that left the session and ignores SIGTERM, and a grandchild below each
STUBBORN_TREE = "setsid sh -c 'trap \"\" TERM; sleep 300; : {mark}' & sh -c 'sleep 300; : {mark}' & wait; : {mark}"
STARTER = """
    import asyncio, os, sys
    from pathlib import Path
    from kitedash.running.guard import guarded_spawn

    async def main():
        spawn = guarded_spawn(grace_s=0.3)
        process = await spawn(["sh", "-c", sys.argv[1]], env=dict(os.environ), log_path=Path(sys.argv[2]))
        print(process.pid, flush=True)
        await asyncio.sleep(300)

    asyncio.run(main())
"""


@pytest.fixture
def mark() -> Iterator[str]:
    mark = f"kitedash-test-{uuid.uuid4().hex}"
    yield mark
    for process in marked(mark):
        process.kill()


@pytest.fixture
def starter(mark: str, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has started the stubborn tree under a guard, as a worker starts an engine."""
    command = [sys.executable, "-c", textwrap.dedent(STARTER), STUBBORN_TREE.format(mark=mark), str(tmp_path / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip().isdigit()
        wait_for(lambda: len(_commands(mark)) == 3, 5, "the tree to stand")
        yield process
        process.kill()


def _guards(mark: str) -> list[psutil.Process]:
    """The outer guard first: it is the parent of the other."""
    guards = [process for process in marked(mark) if any(str(GUARD) in part for part in process.cmdline())]
    pids = {guard.pid for guard in guards}
    return sorted(guards, key=lambda guard: guard.ppid() in pids)


def _commands(mark: str) -> list[psutil.Process]:
    """The shells of the tree: neither guards nor the starter."""
    return [process for process in marked(mark) if process.name() == "sh"]


async def test_status_and_output_are_handed_on(tmp_path: Path) -> None:
    spawn = guarded_spawn(grace_s=0.3)
    log = tmp_path / "logs" / "run.log"
    for script, status in (("echo out; echo err >&2; exit 0", 0), ("exit 3", 3), ("kill -KILL $$", 137)):
        process = await spawn(["sh", "-c", script], env=ENVIRONMENT, log_path=log)
        assert await process.wait() == process.returncode == status
        await process.stop()
    assert log.read_text() == "out\nerr\n"


async def test_a_missing_program_is_a_status_and_a_line(tmp_path: Path) -> None:
    process = await guarded_spawn()(["no-such-program"], env=ENVIRONMENT, log_path=tmp_path / "log")
    assert await process.wait() == 127
    assert (tmp_path / "log").read_text() == "no-such-program: No such file or directory\n"


async def test_the_environment_is_complete(tmp_path: Path) -> None:
    process = await guarded_spawn()(["env"], env={**ENVIRONMENT, "ONLY": "this"}, log_path=tmp_path / "log")
    await process.wait()
    seen = set((tmp_path / "log").read_text().splitlines())
    coerced = {"LC_CTYPE=C.UTF-8"}  # Python sets it for itself where no locale is given (PEP 538)
    assert seen - coerced == {"ONLY=this", f"PATH={ENVIRONMENT['PATH']}"}


async def test_stop_returns_when_the_whole_tree_is_gone(mark: str, tmp_path: Path) -> None:
    process = await guarded_spawn(grace_s=0.5)(
        ["sh", "-c", STUBBORN_TREE.format(mark=mark)], env=ENVIRONMENT, log_path=tmp_path / "log"
    )
    await asyncio.to_thread(wait_for, lambda: len(_commands(mark)) == 3, 5, "the tree to stand")
    await asyncio.wait_for(process.stop(), 3)
    assert marked(mark) == []
    await process.stop()  # again: no error


async def test_a_program_that_ends_takes_what_it_left_behind_with_it(mark: str, tmp_path: Path) -> None:
    script = f"setsid sh -c 'sleep 300; : {mark}' & exit 5"
    process = await guarded_spawn(grace_s=0.3)(["sh", "-c", script], env=ENVIRONMENT, log_path=tmp_path / "log")
    assert await asyncio.wait_for(process.wait(), 3) == 5
    assert marked(mark) == []


def test_killing_the_starter_clears_the_tree(starter: subprocess.Popen[bytes], mark: str) -> None:
    starter.kill()
    wait_for(lambda: not marked(mark), 3, "the tree to be gone")


@pytest.mark.parametrize("which", [0, 1], ids=["outer", "inner"])
def test_killing_the_starter_and_a_guard_clears_the_tree(
    starter: subprocess.Popen[bytes], mark: str, which: int
) -> None:
    guard = _guards(mark)[which]
    starter.kill()
    guard.kill()
    wait_for(lambda: not marked(mark), 3, "the tree to be gone")


@pytest.mark.parametrize("which", [0, 1], ids=["outer", "inner"])
def test_killing_a_guard_alone_clears_the_tree(starter: subprocess.Popen[bytes], mark: str, which: int) -> None:
    _guards(mark)[which].kill()
    wait_for(lambda: not _commands(mark), 3, "the tree to be gone")


def test_killing_the_starter_and_both_guards_at_once_kills_the_program(
    starter: subprocess.Popen[bytes], mark: str
) -> None:
    outer, inner = _guards(mark)
    (program,) = [process for process in inner.children() if process.name() == "sh"]
    for victim in (starter.pid, outer.pid, inner.pid):
        os.kill(victim, signal.SIGSTOP)  # so that none of them can act while the others are killed
    for victim in (starter.pid, outer.pid, inner.pid):
        os.kill(victim, signal.SIGKILL)
    wait_for(lambda: not program.is_running() or program.status() == psutil.STATUS_ZOMBIE, 3, "the program to be gone")


async def test_the_program_inherits_the_locks(mark: str, tmp_path: Path) -> None:
    path = tmp_path / "device.lock"
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        spawn = guarded_spawn(lock_fds=[lock.fileno()], grace_s=0.3)
        process = await spawn(["sh", "-c", f"sleep 300; : {mark}"], env=ENVIRONMENT, log_path=tmp_path / "log")
        await asyncio.to_thread(wait_for, lambda: _commands(mark), 5, "the program to start")
    with path.open("w") as other:
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        await process.stop()
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
