"""Folders that are complete or not there, with real processes that are really killed."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kitedash.domain.errors import KiteDashError
from kitedash.measuring.atomic_folder import build_folder

ROOT = Path(__file__).resolve().parents[3]

# A builder that writes one file, says so, and goes on when told to: TARGET, a file to wait for, a name to write.
BUILDER = """
import sys, time
from pathlib import Path
from kitedash.measuring.atomic_folder import build_folder
target, go, name = map(Path, sys.argv[1:])
def build(folder):
    (folder / "first").write_text(name.name)
    print("half done", flush=True)
    while not go.exists():
        time.sleep(0.01)
    (folder / "second").write_text(name.name)
build_folder(target, build, needs_bytes=0, what="a thing")
"""


def start_builder(target: Path, go: Path, name: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", BUILDER, str(target), str(go), name]
    return subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True
    )


def fill(folder: Path) -> None:
    (folder / "file").write_text("content")


def test_a_folder_is_made_once(tmp_path: Path) -> None:
    target, calls = tmp_path / "deep" / "target", []

    def build(folder: Path) -> None:
        calls.append(folder)
        assert folder.parent == target.parent  # the same file system, or the rename would be a copy
        assert not target.exists()
        fill(folder)

    for _ in range(2):
        assert build_folder(target, build, needs_bytes=0, what="a thing") == target
    assert len(calls) == 1
    assert (target / "file").read_text() == "content"
    assert target.stat().st_mode & 0o777 == 0o755


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    def build(folder: Path) -> None:
        fill(folder)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        build_folder(tmp_path / "target", build, needs_bytes=0, what="a thing")
    assert [path.name for path in tmp_path.iterdir()] == [".target.lock"]


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        RuntimeError("I/O error: No space left on device (os error 28)"),
    ],
)
def test_a_disk_that_fills_up_is_one_sentence(tmp_path: Path, error: Exception) -> None:
    def build(folder: Path) -> None:
        raise error

    with pytest.raises(KiteDashError, match=r"has no room for a thing, which needs about 0\.5 GiB") as raised:
        build_folder(tmp_path / "target", build, needs_bytes=2**29, what="a thing")
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "target").exists()


def test_a_disk_that_is_too_small_is_seen_before_building(tmp_path: Path) -> None:
    with pytest.raises(KiteDashError, match="no room"):
        build_folder(tmp_path / "target", lambda folder: pytest.fail("built"), needs_bytes=2**60, what="a thing")


def test_a_killed_builder_leaves_no_folder_and_blocks_nobody(tmp_path: Path) -> None:
    target = tmp_path / "target"
    builder = start_builder(target, tmp_path / "never", "killed")
    assert builder.stdout is not None
    assert builder.stdout.readline() == "half done\n"
    assert not target.exists()
    builder.send_signal(signal.SIGKILL)
    builder.wait()
    builder.stdout.close()
    assert not target.exists()
    assert len(list(tmp_path.glob(".target.building-*"))) == 1  # what it left behind
    build_folder(target, fill, needs_bytes=0, what="a thing")
    assert [path.name for path in target.iterdir()] == ["file"]
    assert not list(tmp_path.glob(".target.building-*"))


def test_of_two_builders_one_builds_and_the_other_waits(tmp_path: Path) -> None:
    target, go = tmp_path / "target", tmp_path / "go"
    first = start_builder(target, go, "first")
    assert first.stdout is not None
    assert first.stdout.readline() == "half done\n"
    second = start_builder(target, go, "second")
    time.sleep(1.0)
    assert second.poll() is None
    go.touch()
    assert (first.wait(30), second.wait(30)) == (0, 0)
    assert second.stdout is not None
    assert second.stdout.read() == ""  # it never built
    assert {path.name: path.read_text() for path in target.iterdir()} == {"first": "first", "second": "first"}
    first.stdout.close()
    second.stdout.close()
