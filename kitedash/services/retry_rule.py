"""Which runs may be retried: those that came to nothing. To measure again until a result is liked is no retry."""

from __future__ import annotations

from collections.abc import Sequence

from db.models import Run
from kitedash.domain.results import LevelStatus, LevelSummary, RunStatus


def invalid_levels(levels: Sequence[LevelSummary]) -> tuple[str, ...]:
    """A sentence for each rate that gave no result."""
    return tuple(
        f"{level.rate_per_s:g}/s gave no result: {level.reason or 'its checks failed'}."
        for level in levels
        if level.status == LevelStatus.INVALID
    )


def retry_refusal(run: Run, levels: Sequence[LevelSummary], retried_by: str | None) -> str:
    """Why the run can't be retried, as one sentence; "" where it can."""
    if retried_by is not None:
        return f"It was retried already, as run {retried_by[:8]}."
    if run.status in (RunStatus.FAILED, RunStatus.CANCELLED):
        return ""
    if run.status != RunStatus.FINISHED:
        return "It is not over; cancel it first."
    if invalid_levels(levels):
        return ""
    return (
        "It finished and all its results are valid: measuring again until a result is liked is no retry. "
        "Give an experiment more repeats instead."
    )
