"""Experiments as stored. Functions take a session and commit nothing: the service owns the transaction."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.encoding import may_be_id
from db.models import Experiment, Run
from db.retries import retried
from kitedash.domain.errors import NotFound
from kitedash.domain.experiment import ExperimentSpec
from kitedash.domain.results import RunStatus


def add(
    session: Session,
    experiment_id: str,
    spec: ExperimentSpec,
    spec_sha256: str,
    *,
    created_by: str,
    now: datetime,
    launch_key: str | None = None,
) -> Experiment:
    experiment = Experiment(
        id=experiment_id,
        name=spec.name,
        created_at=now,
        created_by=created_by,
        spec=spec.model_dump(mode="json"),
        spec_sha256=spec_sha256,
        launch_key=launch_key,
    )
    session.add(experiment)
    session.flush()
    return experiment


def get(session: Session, experiment_id: str) -> Experiment:
    """Raises NotFound."""
    experiment = session.get(Experiment, experiment_id) if may_be_id(experiment_id) else None
    if experiment is None:
        raise NotFound(f"No experiment has the id {experiment_id!r}.")
    return experiment


def spec_of(experiment: Experiment) -> ExperimentSpec:
    """The experiment as it was launched."""
    return ExperimentSpec.model_validate(experiment.spec)


def find(session: Session, beginning: str) -> Experiment:
    """The one experiment whose id begins so. Raises NotFound for none and for several."""
    matching = Experiment.id.startswith(beginning, autoescape=True)
    found = session.scalars(sa.select(Experiment).where(matching).limit(2)).all() if may_be_id(beginning) else []
    if len(found) != 1:
        raise NotFound(f"{'Several experiments have' if found else 'No experiment has'} the id {beginning!r}.")
    return found[0]


def list_recent(session: Session, limit: int = 50) -> Sequence[Experiment]:
    """The newest first."""
    order = (Experiment.created_at.desc(), Experiment.id)
    return session.scalars(sa.select(Experiment).order_by(*order).limit(limit)).all()


def recent_heads(session: Session, limit: int = 50) -> list[tuple[str, str, datetime]]:
    """(id, name, when it was launched), the newest first: for lists, which need no specification."""
    order = (Experiment.created_at.desc(), Experiment.id)
    query = sa.select(Experiment.id, Experiment.name, Experiment.created_at).order_by(*order).limit(limit)
    return [(experiment_id, name, created_at) for experiment_id, name, created_at in session.execute(query)]


def by_spec_hash(session: Session, spec_sha256: str) -> Sequence[Experiment]:
    """Every experiment launched with exactly this specification, the newest first."""
    order = (Experiment.created_at.desc(), Experiment.id)
    return session.scalars(sa.select(Experiment).where(Experiment.spec_sha256 == spec_sha256).order_by(*order)).all()


def by_launch_key(session: Session, launch_key: str) -> Experiment | None:
    """The experiment that a form with this key launched."""
    return session.scalars(sa.select(Experiment).where(Experiment.launch_key == launch_key)).one_or_none()


def specs(session: Session, experiment_ids: Collection[str]) -> dict[str, ExperimentSpec]:
    """Several experiments as they were launched, in one query."""
    query = sa.select(Experiment.id, Experiment.spec).where(Experiment.id.in_(experiment_ids))
    return {experiment_id: ExperimentSpec.model_validate(spec) for experiment_id, spec in session.execute(query)}


def run_counts(session: Session, experiment_ids: Sequence[str]) -> dict[str, dict[RunStatus, int]]:
    """Experiment id -> how many of its runs have which status. A run that was retried counts no more."""
    counted: dict[str, dict[RunStatus, int]] = {experiment_id: {} for experiment_id in experiment_ids}
    query = (
        sa.select(Run.experiment_id, Run.status, sa.func.count())
        .where(Run.experiment_id.in_(experiment_ids), ~retried())
        .group_by(Run.experiment_id, Run.status)
    )
    for experiment_id, status, count in session.execute(query):
        counted[experiment_id][RunStatus(status)] = count
    return counted
