"""What earlier runs took, stage by stage: what estimates of a run's time rest on. Three queries; commits nothing."""

from __future__ import annotations

import math
from collections import defaultdict

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import LoadBlock, Run, Stage
from kitedash.domain.experiment import Candidate
from kitedash.domain.results import StageStatus
from kitedash.domain.run_plan import LOAD
from kitedash.domain.run_time import PastRun, RunKind, number_format_of

RECENT_RUNS = 50


def recent(session: Session, limit: int = RECENT_RUNS) -> tuple[PastRun, ...]:
    """The runs that were last begun and whose engine was ready once. Of their stages those that finished at the first
    attempt: one begun again says nothing of how long it takes."""
    facts = Run.server_facts
    device_name, start_up_s = facts["device_name"].as_string(), facts["start_up_s"].as_string()
    begun = (Run.started_at.is_not(None), device_name.is_not(None))
    columns = (Run.id, Run.candidate, device_name, start_up_s)
    found = session.execute(sa.select(*columns).where(*begun).order_by(Run.started_at.desc()).limit(limit)).all()
    run_ids = [run_id for run_id, *_ in found]
    stages: dict[str, list[Stage]] = defaultdict(list)
    ended = (Stage.status == StageStatus.FINISHED, Stage.executions == 1)
    for stage in session.scalars(sa.select(Stage).where(Stage.run_id.in_(run_ids), *ended)):
        stages[stage.run_id].append(stage)
    blocks = sa.select(LoadBlock.run_id, sa.func.count(), sa.func.sum(LoadBlock.duration_s))
    measured = {
        run_id: (count, seconds)
        for run_id, count, seconds in session.execute(
            blocks.where(LoadBlock.run_id.in_(run_ids)).group_by(LoadBlock.run_id)
        )
    }
    return tuple(
        _past_run(
            Candidate.model_validate(candidate), device, start_up, stages[run_id], *measured.get(run_id, (0, 0.0))
        )
        for run_id, candidate, device, start_up in found
    )


def _past_run(
    candidate: Candidate, device_name: str, start_up_s: str | None, stages: list[Stage], blocks: int, measured_s: float
) -> PastRun:
    start_up = math.inf if start_up_s is None else float(start_up_s)
    return PastRun(
        kind=RunKind(candidate.model, number_format_of(candidate), device_name),
        stage_s={stage.name: _seconds(stage) for stage in stages},
        start_up_s=start_up if math.isfinite(start_up) else None,
        measured_blocks=blocks,
        planned_blocks=next((stage.total for stage in stages if stage.name == LOAD), 0),
        measured_s=measured_s,
    )


def _seconds(stage: Stage) -> float:
    assert stage.finished_at is not None, "a finished stage has its end"
    return (stage.finished_at - stage.started_at).total_seconds()
