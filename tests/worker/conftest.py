"""A data folder of its own for each test, workers as processes of their own, runs queued as the product queues them."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy.orm import Session

from db import engine, experiments, runs
from db.models import Run, Stage
from kitedash.domain.experiment import Candidate, ExperimentSpec
from kitedash.measuring.endpoint import Endpoint
from kitedash.measuring.process import direct_spawn
from kitedash.measuring.traffic import ensure_traffic
from kitedash.running import queue
from kitedash.settings import PROJECT_ROOT
from tests.worker.processes import marked, wait_for
from tests.worker.tiny_model import make_model

START_TIMEOUT_S = 60.0  # a worker imports for seconds on a busy machine
RUN_TIMEOUT_S = 90.0
SPEC: dict[str, Any] = {
    "name": "worker test",
    "model": "tiny",
    "candidates": [{"name": "only"}],
    "baseline": "only",
    "workload": {
        "users": 1,
        "requests_per_user_per_day": 1000,
        "input_tokens": 120,
        "shared_prefix_tokens": 60,
        "output_tokens": 4,
        "arrivals": "constant",
    },
    "load": {"rates_per_s": [5, 6, 7], "blocks": 2, "block_duration_s": 1.0, "request_timeout_s": 10},
    "targets": {"ttft_p90_ms": 500, "cost_per_1000_requests_usd": 1, "pass_rate": 0.5},
    "guardrails": {"tpot_p90_ms": 100},
    "noise_floor": False,
}


@dataclass
class Home:
    """A data folder with its database, and the workers on it. The folder's path marks all their processes."""

    data_dir: Path
    traffic: Path  # written beforehand, since writing prompts takes longer than all the rest
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"sqlite:///{self.data_dir / 'kitedash.db'}"

    def session(self) -> Session:
        return engine.sessions(self.url)()

    def start_worker(self, script: dict[str, Any] | None = None, **environment: str) -> subprocess.Popen[bytes]:
        output = (self.data_dir / "worker.out").open("ab")
        worker = subprocess.Popen(
            [sys.executable, "-m", "tests.worker.scripted_worker", "cpu"],
            cwd=PROJECT_ROOT,
            env={
                **os.environ,
                "KITEDASH_DATA_DIR": str(self.data_dir),
                "KITEDASH_POLL_INTERVAL_S": "0.1",
                "KITEDASH_ENGINE_STOP_GRACE_S": "0.5",
                "SCRIPTED_ENGINE": json.dumps({"first_token_ms": 5, "token_ms": 1, **(script or {})}),
                **environment,
            },
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        output.close()
        self.workers.append(worker)
        return worker

    def queue_run(
        self, candidate: dict[str, Any] | None = None, *, finished: Sequence[str] = (), **changes: Any
    ) -> str:
        """A run of an experiment of its own, queued in the transaction that stores it. `finished` stages count as
        done already; `changes` are to SPEC."""
        spec = ExperimentSpec.model_validate({**SPEC, **changes})
        run_id, experiment_id, now = str(uuid.uuid4()), str(uuid.uuid4()), datetime.now(UTC)
        with engine.sessions(self.url).begin() as session:
            experiments.add(session, experiment_id, spec, "0" * 64, created_by="test", now=now)
            runs.add(
                session,
                run_id,
                experiment_id=experiment_id,
                position=0,
                repeat=0,
                candidate=Candidate.model_validate({"name": "only", "model": "tiny", **(candidate or {})}),
                is_baseline=True,
                queue="cpu",
                now=now,
            )
            for position, stage in enumerate(finished):
                runs.stage_begin(session, run_id, stage, position, 1, now)
                runs.stage_finish(session, run_id, stage, now)
            queue.enqueue_in(session.connection(), run_id, "cpu", self.url)
        shutil.copytree(self.traffic, self.data_dir / "work" / run_id / "load" / self.traffic.name)
        return run_id

    def run(self, run_id: str) -> Run:
        with self.session() as session:
            return runs.get(session, run_id)

    def stages(self, run_id: str) -> dict[str, Stage]:
        with self.session() as session:
            return {stage.name: stage for stage in runs.stages(session, [run_id])[run_id]}

    def log(self, run_id: str) -> str:
        return (self.data_dir / self.run(run_id).log_path).read_text()

    def wait_until(self, condition: Callable[[], object], what: str, timeout_s: float = RUN_TIMEOUT_S) -> float:
        try:
            return wait_for(condition, timeout_s, what)
        except AssertionError as error:
            output = (self.data_dir / "worker.out").read_text()[-3_000:]
            logs = "\n".join(path.read_text()[-3_000:] for path in (self.data_dir / "logs").glob("*.log"))
            raise AssertionError(f"{error}\n--- worker\n{output}\n--- runs\n{logs}") from None

    def wait_for_status(self, run_id: str, *statuses: str) -> str:
        self.wait_until(lambda: self.run(run_id).status in statuses, f"run {statuses}")
        return self.run(run_id).status

    def wait_for_stage(self, run_id: str, name: str, done: int = 0) -> None:
        def reached() -> bool:
            stage = self.stages(run_id).get(name)
            return stage is not None and stage.status == "running" and stage.done >= done

        self.wait_until(reached, f"stage {name} under way")

    def children(self) -> list[psutil.Process]:
        """Every process that belongs to this folder, the workers themselves left out."""
        own = {worker.pid for worker in self.workers}
        return [process for process in marked(str(self.data_dir)) if process.pid not in own]

    def engines(self) -> list[psutil.Process]:
        """The scripted engines, without their guards."""
        return [
            process
            for process in self.children()
            if "tests.scripted_engine" in process.cmdline() and "-I" not in process.cmdline()
        ]


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def written_traffic(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec = ExperimentSpec.model_validate(SPEC)
    nowhere = Endpoint("http://127.0.0.1:1", "", "tiny", tiny_model, 2_048, prefix_caching=True, block_size=16)
    work_dir = tmp_path_factory.mktemp("traffic")
    return asyncio.run(
        ensure_traffic(nowhere, workload=spec.workload, plan=spec.load, spawn=direct_spawn, work_dir=work_dir)
    )


@pytest.fixture
def home(tmp_path: Path, tiny_model: Path, written_traffic: Path, empty_database: Path) -> Iterator[Home]:
    home = Home(tmp_path / "data", written_traffic)
    shutil.copytree(tiny_model, home.data_dir / "models" / "tiny")
    shutil.copy(empty_database, home.data_dir / "kitedash.db")
    yield home
    for worker in home.workers:
        worker.kill()
        worker.wait()
    engine.dispose_engines()
    deadline = time.monotonic() + 5
    while home.children() and time.monotonic() < deadline:
        time.sleep(0.05)
    left = home.children()
    for process in left:
        process.kill()
    assert not left, f"left behind: {[process.cmdline() for process in left]}"
