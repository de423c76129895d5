"""The worker and the dashboard as children of a command that supervises them: none outlives it."""

from __future__ import annotations

import ctypes
import http.client
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kitedash.domain.errors import KiteDashError
from kitedash.settings import PROJECT_ROOT, settings

PR_SET_PDEATHSIG = 1
STOP_TIMEOUT_S = 20.0  # a worker clears its engine's processes first


class PortBusyError(KiteDashError):
    """Something else listens where the dashboard is to."""


@dataclass
class Child:
    name: str
    process: subprocess.Popen[bytes]
    log_path: Path

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def last_line(self) -> str:
        """Of its log: as a rule the reason why it ended."""
        lines = self.log_path.read_text(encoding="utf-8", errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def stop(self) -> None:
        if not self.is_running:
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start(name: str, argv: Sequence[str]) -> Child:
    """`kitedash ARGV` as a child with its output in data_dir/logs/NAME.log.

    In a session of its own, so that Ctrl-C reaches the parent alone, which then ends its children in order; should
    the parent be killed, the kernel tells the child to end.
    """
    log_path = settings().logs_dir / f"{name}.log"
    log_path.parent.mkdir(parents=True, exist_ok=True)
    parent = os.getpid()
    libc = ctypes.CDLL(None)

    def end_with_parent() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it was killed before the kernel knew
            os._exit(1)

    with log_path.open("ab") as log:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and command
            [sys.executable, "-m", "kitedash", *argv],
            cwd=PROJECT_ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=end_with_parent,
        )
    return Child(name, process, log_path)


class ended_by_signal:  # noqa: N801 - used as a with-statement's verb
    """SIGTERM and SIGHUP end the command as Ctrl-C does: in order."""

    def __enter__(self) -> None:
        self._before = {number: signal.signal(number, self._interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @staticmethod
    def _interrupt(*_: Any) -> None:
        raise KeyboardInterrupt


def streamlit_argv(host: str, port: int) -> list[str]:
    """The dashboard's command line: safe settings, whatever a configuration file says."""
    options = {
        "server.address": host,
        "server.port": str(port),
        "server.headless": "true",
        "server.fileWatcherType": "none",
        "server.maxUploadSize": "20",
        "server.enableCORS": "true",
        "server.enableXsrfProtection": "true",
        "browser.gatherUsageStats": "false",
        "client.showErrorDetails": "none",
        "client.toolbarMode": "minimal",
    }
    flags = [f"--{name}={value}" for name, value in options.items()]
    return [sys.executable, "-m", "streamlit", "run", str(PROJECT_ROOT / "app.py"), *flags]


def address_of(host: str, port: int) -> str:
    return f"http://{_reachable(host)}:{port}"


def require_free_port(host: str, port: int) -> None:
    """Raises PortBusyError with one sentence where the dashboard could not listen."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        with closing(socket.socket(family, socket.SOCK_STREAM)) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        raise PortBusyError(
            f"The dashboard can't listen on {host} port {port} ({error.strerror or error}): free it, or choose another "
            f"port with --port or KITEDASH_DASHBOARD_PORT."
        ) from error


def is_healthy(host: str, port: int, timeout_s: float = 2.0) -> bool:
    """Whether a dashboard answers there."""
    connection = http.client.HTTPConnection(_reachable(host), port, timeout=timeout_s)
    with closing(connection):
        try:
            connection.request("GET", "/_stcore/health")
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False


def _reachable(host: str) -> str:
    return {"0.0.0.0": "127.0.0.1", "::": "localhost", "": "127.0.0.1"}.get(host, host)  # noqa: S104 - not bound here
