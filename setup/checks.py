"""What can be wrong with a machine, each said in one sentence that tells what to do."""

from __future__ import annotations

import errno
import re
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Literal

DeviceKind = Literal["cpu", "gpu"]
GIB = 2**30
NEEDS_GIB: dict[DeviceKind, float] = {"cpu": 7.0, "gpu": 20.0}  # the environment, pip's downloads, model, checkpoints

NETWORK_SIGNS = re.compile(
    r"Failed to establish a new connection|NewConnectionError|Temporary failure in name resolution|"
    r"Name or service not known|Network is unreachable|Connection refused|Connection reset|ConnectTimeout|"
    r"Read timed out|ReadTimeout|ProxyError|SSLError|Max retries exceeded|getaddrinfo failed|HTTP error 5\d\d",
    re.IGNORECASE,
)


class SetupError(Exception):
    """`str(error)` is the one sentence. `is_untouched`: the environment is as it was before the step."""

    def __init__(self, sentence: str, *, is_untouched: bool = False) -> None:
        super().__init__(sentence)
        self.is_untouched = is_untouched


def detect_device(dev: Path = Path("/dev")) -> DeviceKind:
    """Whether this machine has an NVIDIA GPU that its driver makes usable."""
    if (dev / "nvidia0").exists():
        return "gpu"
    program = shutil.which("nvidia-smi")
    if program is None:
        return "cpu"
    try:
        listed = subprocess.run([program, "-L"], capture_output=True, text=True, timeout=30, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return "cpu"
    return "gpu" if listed.returncode == 0 and "GPU 0" in listed.stdout else "cpu"


def check_disk(folder: Path, device: DeviceKind) -> None:
    """Raises SetupError where the disk of `folder` can't take a full installation."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free_gib = shutil.disk_usage(existing).free / GIB
    if free_gib < NEEDS_GIB[device]:
        raise SetupError(
            f"The disk of {folder} has {free_gib:.1f} GiB free, but the set-up needs {NEEDS_GIB[device]:.0f} GiB: "
            "free some space, or move the clone to a larger disk, and start again."
        )


def check_port(host: str, port: int) -> None:
    """Raises SetupError where the dashboard could not listen on `host`:`port`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: a port in TIME_WAIT is free
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise SetupError(
                    f"Port {port} of {host} is in use (a KiteDash that is already running would be at "
                    f"http://{host}:{port}): stop what uses it, or choose another port, as in "
                    f"`KITEDASH_DASHBOARD_PORT={port + 1 if port < 65535 else port - 1} make demo`."
                ) from error
            raise SetupError(
                f"The dashboard can't listen on port {port} of {host} ({error.strerror}): "
                "choose others with KITEDASH_DASHBOARD_HOST and KITEDASH_DASHBOARD_PORT."
            ) from error


def explain_pip(output: str, log: Path) -> SetupError:
    """Why pip failed, from what it printed. pip resolves and downloads everything before it changes anything."""
    if "No space left on device" in output:
        return SetupError(
            "The disk is full: free some space (pip also unpacks in the folder TMPDIR names, /tmp by default) "
            "and start again."
        )
    if "DO NOT MATCH THE HASHES" in output:
        return SetupError(
            f"A package's content is not what requirements-data.txt pins: do not use it, and see {log}.",
            is_untouched=True,
        )
    if NETWORK_SIGNS.search(output):
        return SetupError(
            "The Python package registry can't be reached: check the network or pip's configuration "
            "(`pip config list`) and start again; nothing has to be undone.",
            is_untouched=True,
        )
    missing = re.search(r"No matching distribution found for (\S+)", output)
    if missing:
        return SetupError(
            f"pip finds no {missing[1]} for this Python and processor: use Python 3.11 to 3.13 on 64-bit x86 Linux, "
            "or a registry that has it (`pip config list` shows the one in use).",
            is_untouched=True,
        )
    errors = [line.removeprefix("ERROR: ") for line in output.splitlines() if line.startswith("ERROR: ")]
    return SetupError(f"pip failed ({errors[0] if errors else 'without a reason'}): the whole output is in {log}.")
