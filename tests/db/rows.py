"""An experiment with its runs, stored without a queue: what the tests of the repositories start from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import sqlalchemy as sa
from sqlalchemy.orm import Session, sessionmaker

from db import experiments, runs
from db.models import Run
from kitedash.domain.experiment import Candidate, ExperimentSpec, Guardrails, LoadPlan, Targets, Workload
from kitedash.domain.results import RunStatus

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def a_spec(name: str = "speeds", **changes: object) -> ExperimentSpec:
    values: dict[str, object] = {
        "name": name,
        "model": "SmolLM2-135M-Instruct",
        "candidates": ({"name": "float32"}, {"name": "bf16", "engine_args": {"dtype": "bfloat16"}}),
        "baseline": "float32",
        "workload": Workload(),
        "load": LoadPlan(rates_per_s=(1, 2, 3)),
        "targets": Targets(ttft_p90_ms=900, cost_per_1000_requests_usd=1, pass_rate=0.5),
        "guardrails": Guardrails(tpot_p90_ms=100),
        "noise_floor": False,
    }
    return ExperimentSpec.model_validate(values | changes)


def stored_runs(
    store: sessionmaker[Session], *run_ids: str, experiment_id: str = "e1", queue: str = "cpu", now: datetime = NOON
) -> None:
    with store.begin() as session:
        experiments.add(session, experiment_id, a_spec(), "0" * 64, created_by="a test", now=now)
        for position, run_id in enumerate(run_ids):
            runs.add(
                session,
                run_id,
                experiment_id=experiment_id,
                position=position,
                repeat=0,
                candidate=Candidate(name=run_id, model="m"),
                is_baseline=position == 0,
                queue=queue,
                now=now,
            )


@contextmanager
def going_on(session: Session, run_id: str) -> Iterator[None]:
    """For what a test stores of a run that is over: inside, the run counts as under way, and then as it did before."""
    row = sa.update(Run).where(Run.id == run_id)
    status = runs.get(session, run_id).status
    session.execute(row.values(status=RunStatus.RUNNING))
    yield
    session.execute(row.values(status=status))
