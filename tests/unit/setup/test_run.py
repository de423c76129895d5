"""Which steps are due: after a change, after a loss, after an interruption; and what is remembered."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from setup import run as setup_run
from setup import steps as setup_steps
from setup.checks import SetupError
from setup.commands import Commands, Done
from setup.run import is_done, read_stamp, set_up, write_stamp
from setup.steps import Machine, Step, fingerprint, installing_marker, torch_pin

ROOT = Path(__file__).resolve().parents[3]


class Recorder:
    """Three steps that write a file each into `root`, as the real ones do, and note that they ran."""

    def __init__(self, root: Path) -> None:
        self.root, self.ran = root, list[str]()
        self.wanted = {"environment": "1", "packages": "1", "model": "1"}
        self.fails: dict[str, Exception] = {}
        (root / "setup").mkdir(parents=True)

    def steps(self, machine: Machine, *, with_dev: bool) -> list[Step]:
        return [
            Step(name, name, wanted, self._file(name).exists, self._run(machine, name))
            for name, wanted in self.wanted.items()
        ]

    def _file(self, name: str) -> Path:
        return self.root / ("data" if name == "model" else ".venv") / name

    def _run(self, machine: Machine, name: str) -> Callable[[], None]:
        def run() -> None:
            self.ran.append(name)
            if name in self.fails:
                raise self.fails[name]
            if name == "environment":
                setup_steps.shutil.rmtree(machine.venv, ignore_errors=True)
            self._file(name).parent.mkdir(exist_ok=True)
            self._file(name).touch()

        return run

    def set_up(self) -> list[str]:
        """Runs the set-up and returns which steps ran."""
        self.ran.clear()
        set_up(self.root, with_dev=False)
        return list(self.ran)


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    found = Recorder(tmp_path / "clone")
    monkeypatch.delenv("KITEDASH_DATA_DIR")
    monkeypatch.setattr(setup_run, "steps", found.steps)
    monkeypatch.setattr(setup_run, "detect_device", lambda: "cpu")
    return found


def test_a_repeat_runs_nothing(recorder: Recorder, capsys: pytest.CaptureFixture[str]) -> None:
    assert recorder.set_up() == ["environment", "packages", "model"]
    assert "[2/3] packages" in capsys.readouterr().out
    assert recorder.set_up() == []
    assert "KiteDash is set up" in capsys.readouterr().out


def test_changed_requirements_run_their_step_alone(recorder: Recorder) -> None:
    recorder.set_up()
    recorder.wanted["packages"] = "2"
    assert recorder.set_up() == ["packages"]
    assert recorder.set_up() == []


def test_what_was_lost_is_made_again(recorder: Recorder) -> None:
    recorder.set_up()
    (recorder.root / "data" / "model").unlink()
    assert recorder.set_up() == ["model"]


def test_a_new_environment_is_filled_again(recorder: Recorder) -> None:
    recorder.set_up()
    recorder.wanted["environment"] = "another Python"
    assert recorder.set_up() == ["environment", "packages", "model"]


@pytest.mark.parametrize("error", [SetupError("no"), KeyboardInterrupt(), RuntimeError()])
def test_a_step_that_ended_badly_runs_again(recorder: Recorder, error: Exception) -> None:
    recorder.set_up()
    recorder.wanted["packages"], recorder.fails["packages"] = "2", error
    with pytest.raises(type(error)):
        recorder.set_up()
    recorder.wanted["packages"] = "1"  # also where the files are put back: what was installed is unknown
    recorder.fails.clear()
    assert recorder.set_up() == ["packages"]


def test_after_an_installation_that_was_cut_off_the_environment_is_made_anew(
    recorder: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder.set_up()
    installing_marker(recorder.root / ".venv").touch()
    assert recorder.set_up() == ["environment", "packages", "model"]
    assert "made anew" in capsys.readouterr().out
    assert recorder.set_up() == []


@pytest.mark.parametrize("broken", ["", "{", "[1]"])
def test_a_broken_stamp_is_an_empty_one(tmp_path: Path, broken: str) -> None:
    write_stamp(tmp_path, {"packages": "1"})
    assert read_stamp(tmp_path) == {"packages": "1"}
    (tmp_path / setup_run.STAMP).write_text(broken)
    assert read_stamp(tmp_path) == {}


def test_done_is_both_there_and_wanted() -> None:
    def step(wanted: str, is_there: bool) -> Step:
        return Step("s", "s", wanted, lambda: is_there, lambda: None)

    assert is_done(step("1", True), {"s": "1"})
    assert not is_done(step("1", True), {"s": "0"})
    assert not is_done(step("1", True), {})
    assert not is_done(step("1", False), {"s": "1"})
    assert is_done(step("", True), {})  # no fingerprint: looking is enough


def test_a_fingerprint_follows_content(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    (tmp_path / "b").write_text("2")
    first = fingerprint(tmp_path, ["a", "b"])
    assert first == fingerprint(tmp_path, ["a", "b"])
    (tmp_path / "b").write_text("3")
    assert len({first, fingerprint(tmp_path, ["a", "b"]), fingerprint(tmp_path, ["a", "b"], "more")}) == 3


class Pip(Commands):
    """Stands for pip: plays the given results and notes the arguments."""

    def __init__(self, folder: Path, results: list[Done]) -> None:
        super().__init__(folder / "setup.log", 0)
        self.results, self.seen = results, list[list[str]]()

    def capture(self, argv: object, **_: object) -> Done:
        assert isinstance(argv, list)
        self.seen.append([str(part) for part in argv][4:])
        return self.results.pop(0)


def machine_with(folder: Path, results: list[Done]) -> tuple[Machine, Pip]:
    pip = Pip(folder, results)
    (folder / ".venv").mkdir()
    (folder / "requirements-cpu.txt").write_text("-r requirements-common.txt\ntorch==2.13.0+cpu\n")
    return Machine(folder, "cpu", folder / "data", pip), pip


OK = Done(0, "")
NO_TORCH = Done(1, "ERROR: No matching distribution found for torch==2.13.0+cpu\n")


def test_pytorch_s_index_is_not_asked_where_pip_finds_torch_itself(tmp_path: Path) -> None:
    machine, pip = machine_with(tmp_path, [OK])
    setup_steps._torch_cpu(machine)
    assert pip.seen == [["--no-deps", "torch==2.13.0+cpu"]]


def test_pytorch_s_index_is_asked_for_torch_alone_where_pip_does_not(tmp_path: Path) -> None:
    machine, pip = machine_with(tmp_path, [NO_TORCH, OK])
    setup_steps._torch_cpu(machine)
    assert pip.seen[1] == ["--no-deps", "--index-url", setup_steps.TORCH_CPU_INDEX, "torch==2.13.0+cpu"]
    assert not installing_marker(machine.venv).exists()


def test_torch_from_nowhere_is_one_sentence(tmp_path: Path) -> None:
    machine, _ = machine_with(tmp_path, [NO_TORCH, NO_TORCH])
    with pytest.raises(SetupError, match="PIP_FIND_LINKS") as raised:
        setup_steps._torch_cpu(machine)
    assert "\n" not in str(raised.value)
    assert not installing_marker(machine.venv).exists()


def test_a_pip_that_died_while_writing_leaves_its_marker(tmp_path: Path) -> None:
    machine, _ = machine_with(tmp_path, [Done(1, "ERROR: [Errno 28] No space left on device\n")])
    with pytest.raises(SetupError, match="disk is full"):
        setup_steps._pip_install(machine, "-r", "requirements-cpu.txt")
    assert installing_marker(machine.venv).exists()


def test_the_real_lists_pin_torch_for_their_hardware() -> None:
    assert torch_pin((ROOT / "requirements-cpu.txt").read_text()) == "torch==2.13.0+cpu"
    assert "torch===2.13.0\n" in (ROOT / "requirements.txt").read_text()


def test_everything_direct_is_pinned() -> None:
    for path in ROOT.glob("requirements*.txt"):
        for line in path.read_text().splitlines():
            assert not line or line.startswith(("#", "-r ", "-c ")) or "==" in line, f"{path.name}: {line}"


def test_pins_agree_with_the_constraints() -> None:
    """A direct pin that differs from constraints.txt would make the list unsolvable."""
    pins = dict(line.lower().split("==") for line in (ROOT / "constraints.txt").read_text().split("\n") if "==" in line)
    for name in ("requirements-common.txt", "requirements-dev.txt", "requirements.txt", "requirements-cpu.txt"):
        for line in (ROOT / name).read_text().lower().splitlines():
            package, _, version = line.split("[")[0].partition("==") if "[" not in line else _extra(line)
            if version and package in pins and not line.startswith("#"):
                assert pins[package] == version, f"{name}: {line}"


def _extra(line: str) -> tuple[str, str, str]:
    package, _, rest = line.partition("[")
    return package, "==", rest.partition("==")[2]


def test_a_program_s_output_is_logged_and_its_failure_is_one_sentence(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as lock:
        commands = Commands(tmp_path / "log", lock.fileno())
        script = "import sys; print('out'); print('why', file=sys.stderr); sys.exit(3)"
        with pytest.raises(SetupError, match=r"^Trying failed \(why\): the whole output is in .*log\.$"):
            commands.run([sys.executable, "-c", script], cwd=tmp_path, what="Trying")
    assert "out\nwhy\n" in (tmp_path / "log").read_text()


def test_a_pip_that_outlives_its_set_up_keeps_the_folder_locked(tmp_path: Path) -> None:
    """The set-up is killed; what it had started goes on: the lock must be held as long as that lives."""
    (tmp_path / "setup").mkdir()
    script = (
        "import os, sys; from pathlib import Path\n"
        "from setup.run import _one_at_a_time; from setup.commands import Commands\n"
        "root = Path(sys.argv[1])\n"
        "with _one_at_a_time(root) as lock:\n"
        "    Commands(root / 'log', lock).capture(['sh', '-c', 'echo $$ > pid; exec sleep 60'], cwd=root)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    first = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], env=env)
    deadline = time.monotonic() + 30
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    first.kill()
    first.wait()
    orphan = int((tmp_path / "pid").read_text())
    handle = os.open(tmp_path / "setup", os.O_RDONLY)
    try:
        with pytest.raises(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.kill(orphan, 9)
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                assert time.monotonic() < deadline
                time.sleep(0.02)
    finally:
        os.close(handle)


def test_the_stamp_is_readable_json(tmp_path: Path) -> None:
    write_stamp(tmp_path, {"a": "1"})
    assert json.loads((tmp_path / setup_run.STAMP).read_text()) == {"a": "1"}
    assert [path.name for path in tmp_path.iterdir()] == [setup_run.STAMP]
