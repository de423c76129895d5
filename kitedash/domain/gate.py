"""Whether candidates may pass a gate, from their statuses: for a pipeline that must not ship on a guess."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kitedash.domain.recommend import PASSING_VERDICTS
from kitedash.domain.targets import Status, candidate_status

EXIT_STATUS = {Status.MEETS: 0, Status.MISSES: 1, Status.UNCERTAIN: 2}


@dataclass(frozen=True)
class Check:
    """One target or one suite of a candidate. `said` has the number with its interval, and the target."""

    name: str
    status: Status
    said: str


@dataclass(frozen=True)
class Gated:
    """`checks` is never empty: the three targets always count."""

    candidate: str
    checks: tuple[Check, ...]

    @property
    def status(self) -> Status:
        """Misses where one check does; meets where all do; else uncertain, what is not measured included."""
        return without_pending(candidate_status(check.status for check in self.checks))


def suite_status(verdict: str) -> Status:
    """Only a pass (or being the baseline) meets; a suite that can't tell is no pass."""
    if verdict in PASSING_VERDICTS:
        return Status.MEETS
    return Status.MISSES if verdict == "fail" else Status.UNCERTAIN


def without_pending(status: Status) -> Status:
    """A gate has three answers: what is not measured yet is uncertain."""
    return Status.UNCERTAIN if status == Status.PENDING else status


def gate_status(gated: Sequence[Gated], *, every: bool) -> Status:
    """Of all of them. `every`: each has to meet (candidates that were named); else one that meets is enough, since it
    can be shipped, and only where all miss there is nothing to hope for."""
    statuses = {one.status for one in gated}
    if every:
        return candidate_status(statuses)
    for status in (Status.MEETS, Status.UNCERTAIN):
        if status in statuses:
            return status
    return Status.MISSES
