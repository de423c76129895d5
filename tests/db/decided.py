"""An experiment with results, stored as a worker would, and decisions on it: for the tests of records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy.orm import Session, sessionmaker

from db import experiments, results, runs
from kitedash.domain.experiment import Candidate
from kitedash.domain.results import BlockResult, LevelStatus, SuiteResult
from kitedash.services import decide
from kitedash.services.actor import Actor
from kitedash.services.decide import DraftView
from kitedash.services.records import RecordView
from tests.db.rows import NOON
from tests.unit.services.decisions import WRITTEN, candidates
from tests.unit.services.evidence import FACTS, SPEC

ENGINEER = Actor("Ann", "engineer")
PRICES = """
prices:
  - {device: cpu, kind: cpu, usd_per_hour: 2.5, source: a list, date: 2026-11-30}
"""


def store_experiment(store: sessionmaker[Session], experiment_id: str = "e1", *, only: int = 4) -> None:
    """float32 (the baseline) and fp8 on the front, slow dominated, broken failed: the first `only` of them."""
    with store.begin() as session:
        experiments.add(session, experiment_id, SPEC, "0" * 64, created_by="a test", now=NOON)
        for position, found in enumerate(candidates()[:only]):
            name, run_id = found.candidate.name, f"{experiment_id}-{found.candidate.name}"
            runs.add(
                session,
                run_id,
                experiment_id=experiment_id,
                position=position,
                repeat=0,
                candidate=Candidate(name=name, model="m", engine_args={"gpu-memory-utilization": 0.9}),
                is_baseline=position == 0,
                queue="cpu",
                now=NOON,
            )
            runs.begin(session, run_id, "a worker", NOON)
            if found.error:
                runs.fail(session, run_id, found.error, NOON)
                continue
            runs.set_facts(session, run_id, FACTS)
            for level in found.levels:
                results.store_level(session, run_id, level)
                results.store_block(session, run_id, _block(level.rate_per_s, name), NOON)
            for suite in found.suites.values():
                stored = SuiteResult(suite.name, suite.role, suite.version, suite.answers[: 400 if only > 1 else 3])
                results.store_suite(session, run_id, stored, NOON)
            runs.finish(session, run_id, NOON)


def _block(rate_per_s: float, name: str) -> BlockResult:
    return BlockResult(
        rate_per_s=rate_per_s,
        block=0,
        seed=1,
        status=LevelStatus.OK,
        reason="",
        checks=(),
        n_requests=400,
        n_failed=0,
        duration_s=30.0,
        schedule_sha256="5" * 64,
        requests_blob=f"requests of {name} at {rate_per_s}".encode(),
    )


def a_draft(
    experiment_id: str = "e1",
    candidate_name: str = "fp8",
    content: Mapping[str, Any] = WRITTEN,
    *,
    supersedes: int | None = None,
    actor: Actor = ENGINEER,
) -> DraftView:
    return decide.save_draft(
        actor,
        experiment_id=experiment_id,
        candidate_name=candidate_name,
        content=content,
        targets=SPEC.targets,
        supersedes=supersedes,
    )


def accepted(found: DraftView, *, actor: Actor = ENGINEER) -> RecordView:
    read = decide.as_it_would_read(found)
    return decide.accept(actor, found.id, revision=found.revision, read_sha256=read.sha256)


def decided(experiment_id: str = "e1", *, supersedes: int | None = None, title: str = "Serve fp8") -> RecordView:
    return accepted(a_draft(experiment_id, content={**WRITTEN, "title": title}, supersedes=supersedes))
