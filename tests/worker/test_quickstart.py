"""`kitedash quickstart` and `kitedash demo` as processes: they start what is missing, and leave nothing behind.

The experiment names a model that does not exist, so that its runs fail in the first stage: these tests are about the
commands, not about measuring.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from db import runs, workers
from db.engine import dispose_engines, sessions
from db.models import Run
from kitedash.domain.experiment import ExperimentSpec
from kitedash.domain.experiment_file import to_yaml
from tests.db.rows import a_spec
from tests.worker.conftest import SPEC, Home

pytestmark = pytest.mark.worker
ROOT = Path(__file__).resolve().parents[2]
COMMAND = """
import sys
from pathlib import Path
from kitedash import cli, cli_quickstart
cli_quickstart.FILE = Path(sys.argv.pop(1))
cli.main()
"""


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "data"
    dispose_engines()


@pytest.fixture
def kitedash(data_dir: Path, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    file = tmp_path / "quickstart.yaml"
    file.write_text(to_yaml(a_spec(model=str(data_dir / "models" / "missing"))))
    environment = {**os.environ, "KITEDASH_DATA_DIR": str(data_dir), "CUDA_VISIBLE_DEVICES": ""}
    environment.pop("KITEDASH_DATABASE_URL", None)
    started = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, str(file), *arguments],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        with process:
            process.kill()


def test_quickstart_leaves_the_work_to_a_live_worker_and_prints_the_table(home: Home, tmp_path: Path) -> None:
    """The whole path on the scripted engine: launched before, two candidates measured and the baseline once more for
    the noise floor, table, exit status 0."""
    candidates = [{"name": "first"}, {"name": "second", "engine_args": {"max-num-seqs": 4}}]
    spec = ExperimentSpec.model_validate({**SPEC, "candidates": candidates, "baseline": "first", "noise_floor": True})
    file = tmp_path / "quickstart.yaml"
    file.write_text(to_yaml(spec))
    environment = {**os.environ, "KITEDASH_DATA_DIR": str(home.data_dir)}

    def kitedash(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", COMMAND, str(file), *map(str, arguments)]
        return subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240, check=False
        )

    for run in json.loads(kitedash("launch", file, "--once", "--json").stdout)["runs"]:
        shutil.copytree(home.traffic, home.data_dir / "work" / run["id"] / "load" / home.traffic.name)
    home.start_worker()
    home.wait_until(lambda: alive(home.data_dir), "a heartbeat")
    ended = kitedash("quickstart")
    assert ended.returncode == 0, ended.stderr
    assert "started a worker" not in ended.stderr
    assert re.search(r"2/3 second: load \d/\d", ended.stderr)
    assert "2/3 second: finished" in ended.stderr
    assert "3/3 first again: finished" in ended.stderr
    assert re.search(r"^first \(baseline\)", ended.stdout, re.MULTILINE)
    assert re.search(r"^second ", ended.stdout, re.MULTILINE)
    assert re.search(
        r"^Noise floor: the baseline measured twice differs by [\d.]+ % in P90 TTFT, [\d.]+ % in P90 TPOT and [\d.]+ % "
        r"in deployed cost \(the largest of 3 rates\)\.$",
        ended.stdout,
        re.MULTILINE,
    )
    assert statuses(home.data_dir) == ["finished"] * 3
    with home.session() as session:
        of_again = runs.stages(session, [run.id for run in session.query(Run).filter_by(purpose="again")])
    ((_, stages),) = of_again.items()
    assert [stage.name for stage in stages] == ["prepare", "load"]


def alive(data_dir: Path) -> bool:
    with sessions(f"sqlite:///{data_dir / 'kitedash.db'}")() as session:
        return bool(workers.alive(session))


def statuses(data_dir: Path) -> list[str]:
    with sessions(f"sqlite:///{data_dir / 'kitedash.db'}")() as session:
        return [run.status for run in session.query(Run).order_by(Run.position)]


def wait_for(happens: Callable[[], object], timeout_s: float = 90.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not happens():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


def children_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def test_quickstart_starts_a_worker_follows_it_and_a_repeat_runs_nothing(
    kitedash: Callable[..., subprocess.Popen[str]], data_dir: Path
) -> None:
    first = kitedash("quickstart")
    output, progress = first.communicate(timeout=120)
    assert first.returncode == 1, progress  # no run finished
    assert "started a worker" in progress
    assert "1/2 float32: failed: " in progress
    assert "float32 (baseline)" in output
    assert statuses(data_dir) == ["failed", "failed"]
    with sessions(f"sqlite:///{data_dir / 'kitedash.db'}").begin() as session:
        for run in session.query(Run):  # as if they had finished, which is what a repeat finds as a rule
            run.status = "finished"
    second = kitedash("quickstart", "--json")
    output, progress = second.communicate(timeout=60)
    assert (second.returncode, progress) == (0, "")
    assert [candidate["name"] for candidate in json.loads(output)["candidates"]] == ["float32", "bf16"]
    assert len(statuses(data_dir)) == 2


def test_ctrl_c_leaves_the_queue_as_it_was_and_no_process(
    kitedash: Callable[..., subprocess.Popen[str]], data_dir: Path
) -> None:
    process = kitedash("quickstart")
    assert process.stderr is not None
    assert "started a worker" in process.stderr.readline()
    children = children_of(process)
    assert children
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert "goes on where this ended" in said
    assert not any(child.is_running() for child in children)
    assert set(statuses(data_dir)) <= {"queued", "failed"}  # whatever the worker had time for, none half done


def test_a_worker_does_not_outlive_a_killed_parent(kitedash: Callable[..., subprocess.Popen[str]]) -> None:
    process = kitedash("quickstart")
    assert process.stderr is not None
    assert "started a worker" in process.stderr.readline()
    children = children_of(process)
    process.kill()
    process.wait()
    wait_for(lambda: not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children), 20)


def test_demo_serves_a_dashboard_and_a_second_one_finds_it(
    kitedash: Callable[..., subprocess.Popen[str]], data_dir: Path
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    demo = kitedash("demo", "--port", str(port))
    assert demo.stdout is not None
    line = demo.stdout.readline()
    assert line.startswith(f"The dashboard is at http://127.0.0.1:{port} "), line
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/_stcore/health")
    assert connection.getresponse().status == 200
    connection.close()
    began = time.monotonic()
    second = kitedash("demo")
    output, _ = second.communicate(timeout=30)
    assert (second.returncode, output) == (
        0,
        f"The demo is running already: the dashboard is at http://127.0.0.1:{port}.\n",
    )
    assert time.monotonic() - began < 10
    wait_for(lambda: statuses(data_dir) == ["failed", "failed"])
    children = children_of(demo)
    demo.send_signal(signal.SIGINT)
    demo.communicate(timeout=40)
    assert demo.returncode == 0
    assert not any(child.is_running() for child in children)
    with sessions(f"sqlite:///{data_dir / 'kitedash.db'}")() as session:
        assert workers.every(session) == []  # the worker said goodbye
        assert runs.count(session) == 2
