from __future__ import annotations

import pytest

from kitedash.domain.gate import EXIT_STATUS, Check, Gated, gate_status, suite_status
from kitedash.domain.targets import Status

MEETS, MISSES, UNCERTAIN, PENDING = Status.MEETS, Status.MISSES, Status.UNCERTAIN, Status.PENDING


def gated(*statuses: Status) -> Gated:
    return Gated("one", tuple(Check(f"check {i}", status, "") for i, status in enumerate(statuses)))


@pytest.mark.parametrize(
    ("statuses", "whole"),
    [
        ((MEETS, MEETS, MEETS), MEETS),
        ((MEETS, UNCERTAIN, MEETS), UNCERTAIN),
        ((MEETS, PENDING, MEETS), UNCERTAIN),
        ((UNCERTAIN, MISSES, PENDING), MISSES),
    ],
)
def test_a_candidate_is_as_good_as_its_worst_check(statuses: tuple[Status, ...], whole: Status) -> None:
    assert gated(*statuses).status == whole


@pytest.mark.parametrize(
    ("candidates", "any_of", "all_of"),
    [
        ([MEETS], MEETS, MEETS),
        ([MEETS, MISSES], MEETS, MISSES),
        ([MEETS, UNCERTAIN], MEETS, UNCERTAIN),
        ([UNCERTAIN, MISSES], UNCERTAIN, MISSES),
        ([MISSES, MISSES], MISSES, MISSES),
    ],
)
def test_one_is_enough_unless_they_are_named(candidates: list[Status], any_of: Status, all_of: Status) -> None:
    found = [gated(status) for status in candidates]
    assert gate_status(found, every=False) == any_of
    assert gate_status(found, every=True) == all_of


@pytest.mark.parametrize(
    ("verdict", "status"),
    [
        *[("pass", MEETS), ("baseline", MEETS), ("fail", MISSES)],
        *[("inconclusive", UNCERTAIN), ("uninformative", UNCERTAIN), ("pending", UNCERTAIN)],
    ],
)
def test_only_a_pass_meets(verdict: str, status: Status) -> None:
    assert suite_status(verdict) == status


def test_exit_statuses() -> None:
    assert EXIT_STATUS == {MEETS: 0, MISSES: 1, UNCERTAIN: 2}
