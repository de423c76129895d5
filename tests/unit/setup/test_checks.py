"""What can be wrong with a machine, and the sentence that says what to do."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

from setup import checks
from setup.bootstrap import wrong_python
from setup.checks import SetupError, check_disk, detect_device, explain_pip

ROOT = Path(__file__).resolve().parents[3]
LOG = Path("setup.log")


@pytest.mark.parametrize("version", [(2, 7), (3, 6), (3, 10)])
def test_an_old_python_is_told_what_to_do(version: tuple[int, int]) -> None:
    said = wrong_python(*version, "/usr/bin/python3")
    assert f"/usr/bin/python3 is {version[0]}.{version[1]}: install a newer one" in said


@pytest.mark.parametrize("version", [(3, 11), (3, 12), (3, 20), (4, 0)])
def test_a_newer_python_is_fine(version: tuple[int, int]) -> None:
    assert wrong_python(*version, "python") == ""


def test_an_old_python_can_read_the_file_that_refuses_it() -> None:
    source = (ROOT / "setup" / "bootstrap.py").read_text(encoding="utf-8")
    tree = ast.parse(source, feature_version=(3, 4))
    newer = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr | ast.NamedExpr | ast.AnnAssign)]
    assert newer == []
    before_the_check = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert {alias.name for node in before_the_check for alias in node.names} == {"os", "sys"}


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage:
        free = 3 * 2**30

    monkeypatch.setattr(checks.shutil, "disk_usage", lambda path: Usage)
    with pytest.raises(SetupError, match=r"has 3\.0 GiB free, but the set-up needs 7 GiB: free some space"):
        check_disk(tmp_path / "not" / "there" / "yet", "cpu")
    Usage.free = 8 * 2**30
    check_disk(tmp_path, "cpu")
    with pytest.raises(SetupError, match="needs 20 GiB"):
        check_disk(tmp_path, "gpu")


def test_a_gpu_is_seen_by_its_device_file(tmp_path: Path) -> None:
    (tmp_path / "nvidia0").touch()
    assert detect_device(tmp_path) == "gpu"


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ("echo 'GPU 0: NVIDIA H200 (UUID: GPU-1)'", "gpu"),
        ("echo 'NVIDIA-SMI has failed'; exit 9", "cpu"),
        ("echo 'No devices were found'", "cpu"),
    ],
)
def test_a_gpu_is_seen_by_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, kind: str) -> None:
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    assert detect_device(tmp_path) == kind


def test_no_gpu_without_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert detect_device(tmp_path) == "cpu"


NO_NETWORK = """WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(...)': /simple/x/
ERROR: Could not find a version that satisfies the requirement streamlit==1.67.0 (from versions: none)
ERROR: No matching distribution found for streamlit==1.67.0
"""
NO_BUILD = """ERROR: Could not find a version that satisfies the requirement torch==2.13.0+cpu (from versions: 2.13.0)
ERROR: No matching distribution found for torch==2.13.0+cpu
"""
DISK = "Installing collected packages: torch\nERROR: Could not install: [Errno 28] No space left on device\n"
HASH = "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated\n"


@pytest.mark.parametrize(
    ("output", "says", "is_untouched"),
    [
        (NO_NETWORK, "registry can't be reached: check the network", True),
        (NO_BUILD, r"pip finds no torch==2\.13\.0\+cpu for this Python", True),
        (DISK, "disk is full: free some space", False),
        (HASH, r"not what requirements-data\.txt pins", True),
        ("ERROR: something else\n", r"pip failed \(something else\): the whole output is in setup\.log", False),
        ("", "without a reason", False),
    ],
)
def test_why_pip_failed(output: str, says: str, is_untouched: bool) -> None:
    error = explain_pip(output, LOG)
    assert error.is_untouched is is_untouched
    with pytest.raises(SetupError, match=says):
        raise error
    assert "\n" not in str(error)
