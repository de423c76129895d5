"""Several processes that do the same thing at the same moment."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_TIMEOUT_S = 120.0


def at_once(code: str, arguments: Sequence[Sequence[str]]) -> list[str]:
    """What each process printed: one for each of `arguments`, on the database of this process's environment.

    The code prints "ready" once it has all it needs and goes on when it has read a line: so none waits for another's
    imports. Each must end with status 0; none is left behind.
    """
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, *own],
            cwd=ROOT,
            env=os.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for own in arguments
    ]
    try:
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in started:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        answers = [process.communicate(timeout=_TIMEOUT_S)[0].strip() for process in started]
    finally:
        for process in started:
            process.kill()
            process.communicate()
    assert [process.returncode for process in started] == [0] * len(started)
    return answers
