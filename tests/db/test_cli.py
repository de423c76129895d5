"""The command line over a real database: what is printed, for people and for scripts, and how it exits."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from db import runs
from db.engine import dispose_engines, sessions
from kitedash.cli import app
from kitedash.domain.experiment_file import to_yaml
from kitedash.services import launch_check
from kitedash.settings import settings
from tests.db.rows import a_spec

pytestmark = pytest.mark.database
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("KITEDASH_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("KITEDASH_DATABASE_URL", raising=False)
    monkeypatch.setattr(launch_check, "gpu_count", lambda: 0)
    settings.cache_clear()
    yield tmp_path / "data"
    settings.cache_clear()
    dispose_engines()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "speeds.yaml"
    path.write_text(to_yaml(a_spec()))
    return path


def kitedash(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def launched(file: Path) -> dict[str, object]:
    answer: dict[str, object] = json.loads(kitedash("launch", file, "--json").stdout)
    return answer


def test_launch_lists_the_runs_and_warns_where_no_worker_is_live(file: Path) -> None:
    result = kitedash("launch", file)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert "(speeds), 2 runs:" in lines[0]
    assert [line.split()[1] for line in lines[2:]] == ["float32", "bf16"]
    assert lines[1].index("STATUS") == lines[2].index("queued") == lines[3].index("queued")  # aligned
    assert "Warning: 2 runs wait in queue cpu, which no live worker serves" in result.stderr


def test_launch_once_names_what_was_launched_before(file: Path) -> None:
    first = launched(file)["experiment_id"]
    again = json.loads(kitedash("launch", file, "--once", "--json").stdout)
    assert again["experiment_id"] == first
    assert len(again["runs"]) == 2
    assert launched(file)["experiment_id"] != first


def test_runs_show_and_cancel_agree(file: Path) -> None:
    answer = launched(file)
    first, second = (run["id"] for run in answer["runs"])  # type: ignore[attr-defined]
    shown = json.loads(kitedash("show", first[:8], "--json").stdout)
    assert (shown["id"], shown["status"], shown["queue_position"]) == (first, "queued", 1)
    cancelled = json.loads(kitedash("cancel", first[:8], "--json").stdout)
    assert cancelled == {"ended": [first], "stopping": [], "already_over": []}
    listed = json.loads(kitedash("runs", "--json").stdout)
    assert {run["id"]: run["status"] for run in listed["runs"]} == {first: "cancelled", second: "queued"}
    text = kitedash("cancel", "--experiment", answer["experiment_id"]).stdout
    assert text == f"{second} cancelled\n{first} already over, unchanged\n"


def test_text_of_runs_and_of_one_run(file: Path, data_dir: Path) -> None:
    run_id = launched(file)["runs"][0]["id"]  # type: ignore[index]
    (data_dir / "logs").mkdir()
    (data_dir / "logs" / "r.log").write_text("".join(f"log line {i}\n" for i in range(9)))
    with sessions(settings().url).begin() as session:
        runs.begin(session, run_id, "h:cpu")
        runs.set_log_path(session, run_id, "logs/r.log")
        runs.stage_begin(session, run_id, "load", 1, 9)
        runs.stage_advance(session, run_id, "load", 3, 9, "1.5 requests/s")
        runs.fail(session, run_id, "vLLM: no \x1b[31mmemory\x1b[0m")
    listing = kitedash("runs").stdout
    (line,) = (line for line in listing.splitlines() if line.startswith(run_id[:8]))
    assert line.split()[1:6] == ["float32", "(baseline)", "failed", "load", "3/9"]
    assert "vLLM: no  [31mmemory" in line
    assert "\x1b" not in listing
    shown = kitedash("show", run_id, "--log", 2).stdout
    assert "candidate   float32 (baseline)" in shown
    assert shown.endswith("Log:\nlog line 7\nlog line 8\n")
    assert "\x1b" not in shown


def test_nothing_launched_yet_is_said(data_dir: Path) -> None:
    assert "No experiment has been launched" in kitedash("runs").stdout
    assert json.loads(kitedash("runs", "--json").stdout)["experiments"] == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("show", "nowhere"), "No run has the id 'nowhere'"),
        (("runs", "--experiment", "nowhere"), "No experiment has the id 'nowhere'"),
        (("cancel",), "cancel: name either a run or an experiment"),
        (("launch", "no-such-file.yaml"), "no-such-file.yaml: the file can't be read (No such file or directory)"),
        (("launch", "FILE", "--device", "tpu"), "--device: 'tpu' is not allowed; use cpu or gpu"),
        (("launch", "FILE", "--device", "gpu"), "no live worker serves queue gpu-1"),
        (("worker", "--slots", "x"), "slots: 'x' is no slot"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_exit_2(arguments: tuple[str, ...], sentence: str, file: Path) -> None:
    result = kitedash(*(file if argument == "FILE" else argument for argument in arguments))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("kitedash: ")
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_file_with_a_mistake_names_the_field(file: Path) -> None:
    file.write_text(file.read_text().replace("baseline: float32", "baseline: float23"))
    result = kitedash("launch", file)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert result.stderr.startswith("kitedash: baseline: ")


def test_a_database_that_is_none_is_one_sentence(data_dir: Path) -> None:
    data_dir.mkdir()
    (data_dir / "kitedash.db").write_text("no database" * 100)
    result = kitedash("runs")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "is not an SQLite database" in result.stderr


def test_a_busy_port_is_one_sentence(data_dir: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for command in ("dashboard", "demo"):
            result = kitedash(command, "--port", port)
            assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
            assert f"can't listen on 127.0.0.1 port {port} (Address already in use)" in result.stderr


def test_as_a_process_it_exits_with_2_and_without_a_traceback(data_dir: Path) -> None:
    environment = {**os.environ, "KITEDASH_DATA_DIR": str(data_dir)}
    command = [sys.executable, "-m", "kitedash", "show", "nowhere"]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "kitedash: No run has the id 'nowhere'.\n"


def test_listing_runs_loads_neither_the_queue_nor_statistics() -> None:
    """What makes `kitedash runs` answer at once; a stop-watch would measure the machine's other work."""
    heavy = ("dbos", "alembic", "scipy", "pandas", "torch", "vllm", "streamlit")
    code = f"""
import sys
import kitedash.cli, kitedash.cli_text, kitedash.services.runs
print([name for name in {heavy} if name in sys.modules])
"""
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"
