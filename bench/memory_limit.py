"""`python -m bench.memory_limit FOLDER`: the memory stage on the real engine and the default model, once with its
worker killed in the middle and once without. Prints both; status 1 where a claim fails. About six minutes on two cores.

FOLDER becomes a data folder of its own (the model is unpacked into it); its runs can be looked at with the dashboard
afterwards. The KV cache is made small, 45 MiB, so that its limit comes soon.

Claims: the KV bytes a token predicted from the model's config are within 2 % of what vLLM reports; each prompt
length's measured limit is the predicted one, and one more did not run at once; both runs took the same steps to the
same outcomes, and none that was stored before the kill was taken again.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa

from db import engine, experiments, memory, runs
from db.models import MemoryStep as StepRow
from kitedash.domain.experiment import Candidate, ExperimentSpec
from kitedash.domain.memory_ladder import MemoryStep, limit_at
from kitedash.domain.results import RunStatus
from kitedash.measuring.model_store import DEFAULT_MODEL
from kitedash.running import queue
from kitedash.settings import PROJECT_ROOT

KILLED_AFTER_STEPS = 5
MOST_WAIT_S = 900.0
WITHIN = 0.02
ARGS = {
    "dtype": "float32",
    "max-model-len": 512,
    "max-num-seqs": 6,
    "block-size": 32,
    "kv-cache-memory-bytes": 45 * 2**20,
}
SPEC = ExperimentSpec.model_validate(
    {
        "name": "memory limit",
        "model": DEFAULT_MODEL,
        "candidates": [{"name": "small KV cache", "engine_args": ARGS}],
        "baseline": "small KV cache",
        "workload": {"input_tokens": 200, "shared_prefix_tokens": 100, "output_tokens": 24},
        "load": {"rates_per_s": [1, 2, 3]},
        "targets": {"ttft_p90_ms": 1_000, "cost_per_1000_requests_usd": 1, "pass_rate": 0.5},
        "guardrails": {"tpot_p90_ms": 500},
        "noise_floor": False,
        "memory": {"output_tokens": 8},
    }
)


class Home:
    """The data folder, and a worker on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.url = f"sqlite:///{self.folder / 'kitedash.db'}"
        self.sessions = engine.sessions(self.url)

    def queue_run(self) -> str:
        """A run whose load counts as measured: only its memory stage is of interest here."""
        run_id, experiment_id, now = str(uuid.uuid4()), str(uuid.uuid4()), datetime.now(UTC)
        with self.sessions.begin() as session:
            experiments.add(session, experiment_id, SPEC, "0" * 64, created_by="bench", now=now)
            candidate = Candidate(name="small KV cache", model=DEFAULT_MODEL, engine_args=ARGS)
            runs.add(
                session,
                run_id,
                experiment_id=experiment_id,
                position=0,
                repeat=0,
                candidate=candidate,
                is_baseline=True,
                queue="cpu",
                now=now,
            )
            runs.stage_begin(session, run_id, "load", 1, 1, now)
            runs.stage_finish(session, run_id, "load", now)
            queue.enqueue_in(session.connection(), run_id, "cpu", self.url)
        return run_id

    def start_worker(self) -> subprocess.Popen[bytes]:
        with (self.folder / "worker.out").open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "kitedash.running.worker", "cpu"],
                cwd=PROJECT_ROOT,
                env={**os.environ, "KITEDASH_DATA_DIR": str(self.folder)},
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def steps(self, run_id: str) -> list[MemoryStep]:
        with self.sessions() as session:
            return memory.steps(session, run_id)

    def stored_at(self, run_id: str) -> Mapping[tuple[int, int], datetime]:
        with self.sessions() as session:
            rows = session.scalars(sa.select(StepRow).where(StepRow.run_id == run_id)).all()
            return {(row.prompt_tokens, row.concurrency): row.stored_at for row in rows}

    def ended(self, run_id: str) -> bool:
        with self.sessions() as session:
            return RunStatus(runs.get(session, run_id).status).is_final


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench.memory_limit")
    parser.add_argument("folder", type=Path)
    home = Home(parser.parse_args(argv).folder)
    killed = home.queue_run()
    worker = home.start_worker()
    try:
        wait(lambda: len(home.steps(killed)) >= KILLED_AFTER_STEPS or home.ended(killed))
        worker.kill()
        worker.wait()
        before = home.stored_at(killed)
        print(f"worker killed after {len(before)} steps", flush=True)
        worker = home.start_worker()
        wait(lambda: home.ended(killed))
        undisturbed = home.queue_run()
        wait(lambda: home.ended(undisturbed))
    finally:
        worker.terminate()
        worker.wait()
    return report(home, killed, undisturbed, before)


def wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + MOST_WAIT_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the memory stage took too long")
        time.sleep(0.5)


def report(home: Home, killed: str, undisturbed: str, before: Mapping[tuple[int, int], datetime]) -> int:
    for name, run_id in (("killed in the middle", killed), ("undisturbed", undisturbed)):
        print(f"\n{name}:")
        for step in home.steps(run_id):
            share = "" if step.kv_share_max is None else f"{step.kv_share_max:.0%}"
            print(
                f"  {step.prompt_tokens:5} x {step.concurrency:3}, {step.output_tokens} out: {step.outcome:14} "
                f"KV {share:>4} {step.wall_s:5.1f} s  {step.reason[:90]}"
            )
    steps, after = home.steps(killed), home.stored_at(killed)
    room = steps[0].room
    print(
        f"\nKV bytes a token: predicted {room.bytes_per_token_predicted}, reported {room.bytes_per_token_reported}; "
        f"KV tokens: predicted {room.kv_tokens_predicted}, reported {room.kv_tokens_reported}"
    )
    claims = {
        "predicted KV bytes a token within 2 % of the reported": room.bytes_ratio is not None
        and abs(room.bytes_ratio - 1) <= WITHIN,
        "same steps, same outcomes": _outcomes(steps) == _outcomes(home.steps(undisturbed)),
        "nothing done twice": {key: after.get(key) for key in before} == before,
        "killed in the middle": 0 < len(before) < len(after),
    }
    for length in sorted({step.prompt_tokens for step in steps}):
        most, fewest = limit_at(steps, length)
        output = next(step.output_tokens for step in steps if step.prompt_tokens == length)
        predicted, binds = room.at_once(length, output)
        claims[f"{length} tokens: predicted {predicted} ({binds}), seen {most}"] = most == predicted and (
            fewest is None or fewest.concurrency == most + 1
        )
    print()
    for claim, kept in claims.items():
        print(f"{'ok' if kept else 'FAILED':6} {claim}")
    return 0 if all(claims.values()) else 1


def _outcomes(steps: Sequence[MemoryStep]) -> dict[tuple[int, int], str]:
    return {(step.prompt_tokens, step.concurrency): step.outcome for step in steps}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
