"""Whether anything that a page shows has changed since it was drawn: one small query, asked every few seconds."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import Run


def token(session: Session, experiment_id: str | None) -> str:
    """Differs once anything of this experiment's runs was stored, or a run anywhere was queued or changed its state.

    What other experiments' runs store while they are under way does not change it.
    """
    mine = sa.func.coalesce(sa.func.sum(sa.case((Run.experiment_id == experiment_id, Run.revision), else_=0)), 0)
    query = sa.select(Run.status, sa.func.count(), mine).group_by(Run.status).order_by(Run.status)
    rows = session.execute(query).all()
    counts = " ".join(f"{status} {count}" for status, count, _ in rows)
    return f"{counts} / {sum(revision for _, _, revision in rows)}"
