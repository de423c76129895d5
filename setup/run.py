"""Runs the steps that are due, says what it does and how long it took, and remembers what is done."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import platform
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from setup.checks import SetupError, check_port, detect_device
from setup.commands import Commands
from setup.steps import ROOT, Machine, Step, installing_marker, steps

STAMP = "kitedash-setup.json"


def main(arguments: Sequence[str]) -> int:
    """Exit status 0 when everything is set up; 1 with one sentence when something is in the way."""
    options = _parser().parse_args(arguments)
    try:
        set_up(ROOT, with_dev=options.with_dev, for_dashboard=options.for_dashboard, only=options.only)
    except SetupError as error:
        print(f"\n{error}", flush=True)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted: the next run goes on here, and repairs what was left half-done.", flush=True)
        return 130
    return 0


def set_up(root: Path, *, with_dev: bool, for_dashboard: bool = False, only: Sequence[str] = ()) -> None:
    """Brings `root`'s environment, model and database to what its files ask for. Raises SetupError."""
    began = time.monotonic()
    with _one_at_a_time(root) as lock:
        device = detect_device()
        data_dir = Path(os.environ.get("KITEDASH_DATA_DIR") or root / "data").expanduser().absolute()
        machine = Machine(root, device, data_dir, Commands(data_dir / "setup.log", lock))
        if installing_marker(machine.venv).exists():
            print("The last set-up was stopped while packages were written, so .venv is made anew.", flush=True)
            shutil.rmtree(machine.venv)
        chosen = [step for step in steps(machine, with_dev=with_dev) if not only or step.name in only]
        due = [step for step in chosen if not is_done(step, read_stamp(machine.venv))]
        if not due:
            print(f"KiteDash is set up ({time.monotonic() - began:.1f} s).", flush=True)
            return
        if for_dashboard and any(step.name == "packages" for step in due):
            # only before a long installation: later, `kitedash demo` knows a dashboard of its own from a stranger
            check_port(*_dashboard_address())
        kind = "an NVIDIA GPU" if device == "gpu" else "no NVIDIA GPU, so vLLM's CPU build"
        print(f"Setting up KiteDash: Python {platform.python_version()}, {kind}.", flush=True)
        data_dir.mkdir(parents=True, exist_ok=True)
        machine.commands.log.write_text("", encoding="utf-8")
        for number, step in enumerate(chosen, 1):
            # asked again: a new environment undoes the steps that filled the old one
            if not is_done(step, read_stamp(machine.venv)):
                _run(machine, step, f"[{number}/{len(chosen)}]")
        print(f"KiteDash is set up ({time.monotonic() - began:.0f} s).", flush=True)


def is_done(step: Step, stamp: dict[str, str]) -> bool:
    """A step is done when what it made is still there and was made from what its inputs are now."""
    return step.is_there() and (not step.wanted or stamp.get(step.name) == step.wanted)


def read_stamp(venv: Path) -> dict[str, str]:
    """Step -> fingerprint of what it made. It lies in the environment, so that it goes where that goes."""
    try:
        stamp = json.loads((venv / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def write_stamp(venv: Path, stamp: dict[str, str]) -> None:
    draft = venv / f"{STAMP}.draft"
    draft.write_text(json.dumps(stamp, indent=1, sort_keys=True), encoding="utf-8")
    draft.replace(venv / STAMP)


def _run(machine: Machine, step: Step, count: str) -> None:
    print(f"{count} {step.title}", flush=True)
    began = time.monotonic()
    stamp = read_stamp(machine.venv)
    if stamp.pop(step.name, None) is not None:
        write_stamp(machine.venv, stamp)  # from here to its end the step counts as not done
    step.run()
    if step.wanted:
        write_stamp(machine.venv, read_stamp(machine.venv) | {step.name: step.wanted})
    print(f"      done in {time.monotonic() - began:.1f} s", flush=True)


@contextlib.contextmanager
def _one_at_a_time(root: Path) -> Iterator[int]:
    """Locks the folder itself, which leaves no lock file behind; the lock goes with the last process that holds it."""
    handle = os.open(root / "setup", os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Another set-up is at work in this folder; waiting for it.", flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


def _dashboard_address() -> tuple[str, int]:
    """As kitedash.settings reads them; that module can't be imported before its packages are there."""
    port = os.environ.get("KITEDASH_DASHBOARD_PORT", "8501")
    if not port.isascii() or not port.isdigit() or not 1 <= int(port) <= 65535:
        raise SetupError(f"KITEDASH_DASHBOARD_PORT must be a port from 1 to 65535, not {port!r}.")
    return os.environ.get("KITEDASH_DASHBOARD_HOST", "127.0.0.1"), int(port)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="setup/bootstrap.py", description="Sets up all that KiteDash needs.")
    parser.add_argument("--with-dev", action="store_true", help="also what tests and checks need")
    parser.add_argument("--for-dashboard", action="store_true", help="before installing, see that its port is free")
    parser.add_argument("--only", nargs="+", default=[], metavar="STEP", help="only these steps, by name")
    return parser
