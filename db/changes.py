"""Whether anything that a page shows has changed since it was drawn: one small query, asked every few seconds."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.encoding import may_be_id
from db.models import Run, Stage
from kitedash.domain.results import StageStatus


def token(session: Session, experiment_id: str | None, *, progress: bool = False) -> str:
    """Differs once anything of this experiment's runs was stored, or a run anywhere was queued or changed its state.

    What other experiments' runs store while they are under way does not change it. How far a stage is changes it only
    with `progress`, for pages that show it.
    """
    if experiment_id is not None and not may_be_id(experiment_id):
        experiment_id = None  # there is no such experiment
    mine = sa.func.coalesce(sa.func.sum(sa.case((Run.experiment_id == experiment_id, Run.revision), else_=0)), 0)
    query = sa.select(Run.status, sa.func.count(), mine).group_by(Run.status).order_by(Run.status)
    rows = session.execute(query).all()
    counts = " ".join(f"{status} {count}" for status, count, _ in rows)
    found = f"{counts} / {sum(revision for _, _, revision in rows)}"
    return f"{found} / {_progress(session, experiment_id)}" if progress else found


def _progress(session: Session, experiment_id: str | None) -> str:
    """Of the stages that are under way: one for each of the experiment's running runs."""
    query = sa.select(Stage.run_id, Stage.name, Stage.done, Stage.total, Stage.note).join(Run, Run.id == Stage.run_id)
    under_way = query.where(Run.experiment_id == experiment_id, Stage.status == StageStatus.RUNNING)
    return "; ".join(" ".join(map(str, row)) for row in session.execute(under_way.order_by(Stage.run_id, Stage.name)))
