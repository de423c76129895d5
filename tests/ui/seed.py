"""Experiments in a real database, stored through the repositories as a worker would: for tests and screenshots only.

By hand: `python -m tests.ui.seed DATA_FOLDER` prints the ids of what it stored.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from uuid import UUID

from sqlalchemy.orm import Session

from db import engine, experiments, memory, results, runs, stages, workers
from kitedash.domain.experiment import (
    Candidate,
    CandidateSpec,
    ExperimentSpec,
    LoadPlan,
    MemoryPlan,
    SuiteChoice,
    Targets,
    Workload,
)
from kitedash.domain.results import Answer, LevelStatus, SuiteResult
from tests.ui import builders, memory_steps, request_blobs

RATES = (1.0, 2.0, 4.0)
SUITES = (("kitedash_repo", "repository", 60, 0.5), ("hellaswag_100", "public", 100, 0.36))
# name, kernel, P90 TTFT at 1/s in ms, the rate from which on it is overloaded, pass rate on the repository suite
CANDIDATES = (
    ("float32", "CPUDefaultLinear", 260, 9.0, 0.62),
    ("bfloat16", "CPUDefaultLinear", 900, 2.0, 0.62),
    ("fp8", "dequantised to bfloat16", 1_150, 2.0, 0.57),
    ("int8", "CPUInt8ScaledMM", 230, 9.0, 0.60),
    ("int8 no-prefix-cache", "CPUInt8ScaledMM", 520, 4.0, 0.60),
    ("int8 max-num-seqs=2", "CPUInt8ScaledMM", 265, 4.0, 0.60),
    ("float32 no-prefix-cache", "CPUDefaultLinear", 640, 4.0, 0.62),
    ("float32 max-num-seqs=2", "CPUDefaultLinear", 300, 4.0, 0.62),
)
WORKLOAD = Workload(input_tokens=306, shared_prefix_tokens=290, output_tokens=20)
RUNS_OUT_OF_MEMORY = "fp8"  # in its memory stage
HAS_INVALID_BLOCK = "int8 no-prefix-cache"  # at the lowest rate, beside the six that count


@dataclass(frozen=True)
class Seeded:
    """The ids of the experiments, by the state that they show."""

    many: str
    one: str
    running: str
    failed: str


def seed(data_dir: Path) -> Seeded:
    """Stores four experiments in `data_dir`/kitedash.db."""
    now = datetime.now(UTC)
    ids = Seeded(*(str(UUID(int=n << 124 | n)) for n in (1, 2, 3, 4)))
    with engine.sessions(f"sqlite:///{data_dir / 'kitedash.db'}").begin() as session:
        _experiment(session, ids.failed, 4, now - timedelta(hours=4))
        for n in range(4):
            _failed(session, f"{ids.failed[:8]}-{n}", data_dir, now)
        _experiment(session, ids.running, 8, now - timedelta(hours=3))
        _finished(session, f"{ids.running[:8]}-0", 0, now)
        _measured(session, f"{ids.running[:8]}-3", 3, now)
        _failed(session, f"{ids.running[:8]}-2", data_dir, now)
        _experiment(session, ids.one, 1, now - timedelta(hours=2), ttft_p90_ms=700)
        _finished(session, f"{ids.one[:8]}-0", 0, now)
        _experiment(session, ids.many, 8, now - timedelta(hours=1), memory_plan=memory_steps.PLAN)
        for n in range(8):
            _finished(session, f"{ids.many[:8]}-{n}", n, now, with_memory=True)
    return ids


def _experiment(
    session: Session,
    experiment_id: str,
    count: int,
    at: datetime,
    *,
    ttft_p90_ms: float = 800,
    memory_plan: MemoryPlan | None = None,
) -> None:
    chosen = CANDIDATES[:count]
    spec = ExperimentSpec(
        name="quickstart",
        model="SmolLM2-135M-Instruct",
        candidates=tuple(CandidateSpec(name=name) for name, *_ in chosen),
        baseline="float32",
        workload=WORKLOAD,
        load=LoadPlan(rates_per_s=RATES),
        suites=tuple(SuiteChoice(name=name) for name, *_ in SUITES),
        targets=Targets(ttft_p90_ms=ttft_p90_ms, cost_per_1000_requests_usd=0.1, pass_rate=0.5),
        guardrails=builders.GUARDRAILS,
        memory=memory_plan,
    )
    experiments.add(session, experiment_id, spec, experiment_id.replace("-", "") * 2, created_by="a test", now=at)
    for position, (name, *_) in enumerate(chosen):
        runs.add(
            session,
            f"{experiment_id[:8]}-{position}",
            experiment_id=experiment_id,
            position=position,
            repeat=0,
            candidate=Candidate(name=name, model=spec.model),
            is_baseline=position == 0,
            queue="cpu",
            now=at,
        )


def _started(session: Session, run_id: str, number: int, now: datetime) -> None:
    runs.begin(session, run_id, "test-host:cpu", now - timedelta(minutes=9))
    runs.set_facts(session, run_id, builders.facts(CANDIDATES[number][1]))
    stages.stage_begin(session, run_id, "prepare", 0, 1, now - timedelta(minutes=9))
    stages.stage_finish(session, run_id, "prepare", now - timedelta(minutes=8))
    stages.stage_begin(session, run_id, "load", 1, 18, now - timedelta(minutes=8))


def _load(session: Session, run_id: str, number: int) -> None:
    *_, first_ms, overloaded_from, _ = CANDIDATES[number]
    for rate in RATES:
        full = rate >= overloaded_from
        latency = first_ms * rate**0.45 * (25 if full else 1)
        level = builders.level(rate, latency, status=LevelStatus.OVERLOADED if full else LevelStatus.OK)
        reason = "the number of requests in the system keeps growing" if full else ""
        if CANDIDATES[number][0] == HAS_INVALID_BLOCK and rate == RATES[0]:
            reason = f"1 of 7 blocks invalid: {request_blobs.LATE.name}: {request_blobs.LATE.sentence}"
        results.store_level(session, run_id, replace(level.summary, reason=reason))
        for block in request_blobs.blocks(rate, latency, level.summary.status):
            results.store_block(session, run_id, block)
    if CANDIDATES[number][0] == HAS_INVALID_BLOCK:
        results.store_block(session, run_id, request_blobs.invalid_block(RATES[0]))


def _measured(session: Session, run_id: str, number: int, now: datetime) -> None:
    """Load is done; the first suite is under way."""
    _started(session, run_id, number, now)
    _load(session, run_id, number)
    stages.stage_finish(session, run_id, "load", now - timedelta(minutes=2))
    stages.stage_begin(session, run_id, "quality:kitedash_repo", 2, 60, now - timedelta(minutes=2))
    stages.stage_advance(session, run_id, "quality:kitedash_repo", 23, 60, "item 24 of 60")
    alive = now + timedelta(hours=1)  # however long the test takes
    workers.beat(
        session, "test-host:cpu", host="test-host", pid=4242, queue="cpu", device_name="AMD EPYC 7B13", now=alive
    )


def _finished(session: Session, run_id: str, number: int, now: datetime, *, with_memory: bool = False) -> None:
    _started(session, run_id, number, now)
    _load(session, run_id, number)
    stages.stage_finish(session, run_id, "load", now - timedelta(minutes=2))
    for position, (suite, role, n, chance) in enumerate(SUITES, start=2):
        stages.stage_begin(session, run_id, f"quality:{suite}", position, n, now - timedelta(minutes=2))
        passing = CANDIDATES[number][4] if role == "repository" else 0.4
        results.store_suite(session, run_id, _suite(suite, role, n, chance, passing, number))
        stages.stage_finish(session, run_id, f"quality:{suite}", now - timedelta(minutes=1))
    if with_memory:
        _memory(session, run_id, number, now)
    runs.finish(session, run_id, now)


def _memory(session: Session, run_id: str, number: int, now: datetime) -> None:
    name = CANDIDATES[number][0]
    steps = memory_steps.steps(
        WORKLOAD,
        batch_limit=2 if "max-num-seqs=2" in name else 32,
        dies_at_tokens=6_000 if name == RUNS_OUT_OF_MEMORY else None,
    )
    stages.stage_begin(session, run_id, "memory", len(SUITES) + 2, len(steps), now - timedelta(minutes=1))
    for step in steps:
        memory.store_step(session, run_id, step, now)
    stages.stage_finish(session, run_id, "memory", now)


def _suite(suite: str, role: str, n: int, chance: float, passing: float, number: int) -> SuiteResult:
    hard = Random(suite)  # an item is as hard for every candidate: answers are paired
    flips = Random(f"{suite} {number}")
    answers = []
    for i in range(n):
        passed = (hard.random() < passing) != (flips.random() < 0.04)
        cut_off = not passed and i % 7 == 3
        answers.append(
            Answer(
                item_id=f"{suite}-{i}",
                cluster=f"file-{i % 12}",
                kind="completion",
                text=f"=value_{i} **{i}**\n" + "and so on " * 20 * cut_off,
                finish_reason="length" if cut_off else "stop",
                score=float(passed),
                passed=passed,
                prompt_sha256=f"{i:064x}",
                reference=f"=value_{i}",
                tokens_out=64 if cut_off else 7,
            )
        )
    return SuiteResult(suite, role, "v1", tuple(answers), chance)


def _failed(session: Session, run_id: str, data_dir: Path, now: datetime) -> None:
    sentence = "The engine ended before it was ready: ValueError: not enough memory for 2 GiB of KV cache."
    runs.begin(session, run_id, "test-host:cpu", now - timedelta(minutes=9))
    log = data_dir / "logs" / f"{run_id}.log"
    log.parent.mkdir(exist_ok=True)
    log.write_text("INFO 11-30 starting vLLM\nERROR ValueError: not enough memory for 2 GiB of KV cache\n")
    runs.set_log_path(session, run_id, f"logs/{run_id}.log")
    stages.stage_begin(session, run_id, "prepare", 0, 1, now - timedelta(minutes=9))
    stages.stage_fail(session, run_id, "prepare", sentence, now - timedelta(minutes=8))
    runs.fail(session, run_id, sentence, now - timedelta(minutes=8))


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    print(seed(folder))
