"""Runs the set-up's programs: output goes to a log, and a sign of life to the person who waits."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from setup.checks import SetupError

SIGN_OF_LIFE_S = 15.0


@dataclass(frozen=True)
class Done:
    returncode: int
    output: str


class Commands:
    """`lock` is an open, locked file that every program inherits: should this process be killed, a pip that goes on
    still keeps the next set-up waiting instead of having its environment removed under it."""

    def __init__(self, log: Path, lock: int) -> None:
        self.log = log
        self._lock = lock

    def capture(self, argv: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str] | None = None) -> Done:
        """Runs without a shell to the end; both outputs together."""
        command = [str(part) for part in argv]
        lines: list[str] = []
        with self.log.open("a", encoding="utf-8", buffering=1) as log:  # by line: people follow it
            log.write(f"$ {' '.join(command)}\n")
            with (
                subprocess.Popen(  # noqa: S603  (an argument vector, no shell)
                    command,
                    cwd=cwd,
                    env=_environment() | dict(env or {}),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    errors="replace",
                    pass_fds=[self._lock],
                ) as process,
                _signs_of_life(lines),
            ):
                assert process.stdout is not None
                for line in process.stdout:
                    lines.append(line)
                    log.write(line)
        return Done(process.returncode, "".join(lines))

    def run(self, argv: Sequence[str | Path], *, cwd: Path, what: str) -> None:
        """As `capture`; raises SetupError with the program's last line where it fails."""
        done = self.capture(argv, cwd=cwd)
        if done.returncode:
            said = [line.strip() for line in done.output.splitlines() if line.strip()]
            reason = said[-1] if said else f"exit status {done.returncode}"
            raise SetupError(f"{what} failed ({reason}): the whole output is in {self.log}.")

    def apt_install(self, packages: Sequence[str], why: str) -> None:
        """Installs Debian packages where this process may; otherwise one sentence says what to type."""
        names = " ".join(packages)
        apt = shutil.which("apt-get")
        if apt is None:
            raise SetupError(f"Missing on this machine: {names} ({why}). Install them, then start again.")
        if os.geteuid() != 0:
            raise SetupError(f"Missing on this machine: {why}. Run `sudo apt-get install {names}`, then start again.")
        silent = {"DEBIAN_FRONTEND": "noninteractive"}
        self.capture([apt, "update"], cwd=Path("/"), env=silent)  # where it fails, the lists at hand may still do
        install = [apt, "install", "--yes", "--no-install-recommends", *packages]
        if self.capture(install, cwd=Path("/"), env=silent).returncode:
            raise SetupError(
                f"`apt-get install {names}` failed ({why}): check the network and the package sources, "
                f"then start again; the whole output is in {self.log}."
            )


@contextlib.contextmanager
def _signs_of_life(lines: Sequence[str]) -> Iterator[None]:
    """Says now and then how long it has taken and what was printed last, also while nothing is printed."""
    began, is_over = time.monotonic(), threading.Event()

    def say() -> None:
        while not is_over.wait(SIGN_OF_LIFE_S):
            last = next((line.strip() for line in reversed(lines) if line.strip()), "")
            print(f"      {time.monotonic() - began:.0f} s: {last[:90]}", flush=True)

    teller = threading.Thread(target=say, daemon=True)
    teller.start()
    try:
        yield
    finally:
        is_over.set()
        teller.join()


def _environment() -> dict[str, str]:
    """This process's, less what would let packages from outside the environment in."""
    kept = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
    return kept | {
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INPUT": "1",
        "PIP_PROGRESS_BAR": "off",
        "PYTHONNOUSERSITE": "1",
        "PYTHONUNBUFFERED": "1",
    }
