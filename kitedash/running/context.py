"""What the stages of one run share: what to do, where to store, how to start processes, and the run's one server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy.orm import Session, sessionmaker

from db import experiments, runs
from kitedash.domain.experiment import Candidate, ExperimentSpec
from kitedash.domain.run_plan import MEASURED
from kitedash.measuring.device import Device
from kitedash.measuring.process import Spawn
from kitedash.measuring.server import VLLM, EngineProgram, VllmServer
from kitedash.running.model import resolved_model
from kitedash.settings import Settings


@dataclass(frozen=True)
class WorkerContext:
    """What all runs of a worker share. `device` is the slot's."""

    slot: str
    device: Device
    sessions: sessionmaker[Session]
    settings: Settings
    spawn: Spawn
    program: EngineProgram = VLLM


@dataclass
class RunContext:
    worker: WorkerContext
    run_id: str
    spec: ExperimentSpec
    candidate: Candidate
    repeat: int = 0
    purpose: str = MEASURED
    server: VllmServer | None = field(default=None, init=False)

    @property
    def log_path(self) -> Path:
        return self.worker.settings.data_dir / relative_log_path(self.run_id)

    @property
    def work_dir(self) -> Path:
        """For prompt files and what children write; of no use once the run is over."""
        folder = self.worker.settings.data_dir / "work" / self.run_id
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    async def get_server(self, say: Callable[[str], None]) -> VllmServer:
        """The run's server object, made on first use; the process behind it is `ensure`'s business."""
        if self.server is None:
            settings = self.worker.settings
            self.server = VllmServer(
                candidate=self.candidate,
                model=await resolved_model(self.candidate, settings, self.worker.spawn, self.log_path, say),
                device=self.worker.device,
                spawn=self.worker.spawn,
                log_path=self.log_path,
                start_timeout_s=settings.server_start_timeout_s,
                cpu_kv_cache_gib=settings.cpu_kv_cache_gib,
                program=self.worker.program,
            )
        return self.server

    async def stop_server(self) -> None:
        if self.server is not None:
            await self.server.stop()

    def log(self, text: str) -> None:
        """A line of KiteDash's own in the run's log, between those of the engine."""
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("a", encoding="utf-8") as file:
            file.write(f"[kitedash {datetime.now(UTC):%Y-%m-%d %H:%M:%S}] {text.rstrip()}\n")


def relative_log_path(run_id: str) -> str:
    """Relative to the data folder, as it is stored."""
    return f"logs/{run_id}.log"


def load_context(worker: WorkerContext, run_id: str) -> RunContext:
    """The run as stored. Raises NotFound."""
    with worker.sessions() as session:
        run = runs.get(session, run_id)
        spec = experiments.spec_of(experiments.get(session, run.experiment_id))
        return RunContext(worker, run_id, spec, runs.candidate_of(run), run.repeat, run.purpose)
