"""Whether what a page shows has changed: the one small query of a page that rests."""

from __future__ import annotations

from db import changes
from db.engine import sessions
from kitedash.settings import settings


def change_token(experiment_id: str | None) -> str:
    """Changes when a page that shows this experiment should be drawn anew."""
    with sessions(settings().url)() as session:
        return changes.token(session, experiment_id)


def progress_token(experiment_id: str | None) -> str:
    """As `change_token`, for a page that shows how far the stages under way are."""
    with sessions(settings().url)() as session:
        return changes.token(session, experiment_id, progress=True)
