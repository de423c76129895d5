"""Which runs may be retried: those that came to nothing. To measure again until a result is liked is no retry."""

from __future__ import annotations

from collections.abc import Sequence

from kitedash.domain.results import RunStatus

Invalid = Sequence[tuple[float, str]]  # rate and why, as `results.invalid_levels` gives them


def invalid_levels(invalid: Invalid) -> tuple[str, ...]:
    """A sentence for each rate that gave no result."""
    return tuple(f"{rate_per_s:g}/s gave no result: {reason or 'its checks failed'}." for rate_per_s, reason in invalid)


def retry_refusal(status: str, invalid: Invalid, retried_by: str | None) -> str:
    """Why the run can't be retried, as one sentence; "" where it can."""
    if retried_by is not None:
        return f"It was retried already, as run {retried_by[:8]}."
    if status in (RunStatus.FAILED, RunStatus.CANCELLED):
        return ""
    if status != RunStatus.FINISHED:
        return "It is not over; cancel it first."
    if invalid:
        return ""
    return (
        "It finished and all its results are valid: measuring again until a result is liked is no retry. "
        "Give an experiment more repeats instead."
    )
