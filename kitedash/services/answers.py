"""What a run answered: the list of a suite's items beside the baseline's outcomes, and one answer in full."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from db import evidence as stored
from db import results
from db.models import Suite
from evals import hellaswag_100, registry
from kitedash.domain.errors import KiteDashError
from kitedash.domain.results import Answer

PASSED, FAILED, CUT_OFF, ERROR = "passed", "failed", "cut off", "error"
FIXED, BROKEN, BOTH_PASS, BOTH_FAIL = "fixed", "broken", "both pass", "both fail"


@dataclass(frozen=True)
class AnswerItem:
    """An answer without its text. `against_baseline` is "" where the baseline's answer does not compare."""

    item_id: str
    kind: str
    outcome: str  # PASSED, FAILED (came to its end, and was wrong), CUT_OFF (at the token limit) or ERROR
    score: float
    finish_reason: str
    error: str
    against_baseline: str = ""  # FIXED: the baseline did not pass; BROKEN: it did, and this run did not; BOTH_...


@dataclass(frozen=True)
class Asked:
    """The prompt as (role, text), in order; empty where it can't be shown, and `note` then says why."""

    parts: tuple[tuple[str, str], ...]
    note: str = ""


@dataclass(frozen=True)
class AnswerInFull:
    answer: Answer
    outcome: str
    asked: Asked
    baseline: Answer | None
    baseline_outcome: str


@dataclass(frozen=True)
class SuiteAnswers:
    """`note` says why nothing is compared; "" where it is. `chosen` is the item asked for, None where there is none."""

    suite: str
    version: str
    items: tuple[AnswerItem, ...]
    baseline_run_id: str | None
    note: str
    chosen: AnswerInFull | None


def suite_answers(
    session: Session, run_id: str, suite: str, *, baseline_run_ids: Sequence[str], item_id: str | None = None
) -> SuiteAnswers | None:
    """None where the run has no result of the suite. The baseline's answers are those of the first of its runs that
    has the suite, as in the verdict; no runs are named where the run is the baseline's own."""
    own = _row(session, run_id, suite)
    if own is None:
        return None
    theirs = next((row for other in baseline_run_ids if (row := _row(session, other, suite)) is not None), None)
    note = _why_not_compared(own, theirs, baseline_run_ids)
    compared = theirs if not note else None
    run_ids = [run_id] if compared is None else [run_id, compared.run_id]
    outcomes = stored.outcomes(session, run_ids)
    passed = {} if compared is None else {a.item_id: a.passed for a in outcomes.get((compared.run_id, suite), ())}
    return SuiteAnswers(
        suite=suite,
        version=own.version,
        items=tuple(_item(answer, passed.get(answer.item_id)) for answer in outcomes.get((run_id, suite), ())),
        baseline_run_id=compared.run_id if compared is not None else None,
        note=note,
        chosen=_in_full(session, own, item_id, compared) if item_id else None,
    )


def outcome_of(answer: Answer) -> str:
    if answer.error:
        return ERROR
    if answer.finish_reason == "length":
        return CUT_OFF
    return PASSED if answer.passed else FAILED


def asked(suite: str, version: str, item_id: str, prompt_sha256: str) -> Asked:
    """The prompt of an item, if this installation's suite is the one that was asked; never another prompt."""
    unknown = f"The prompt is not stored, only its SHA-256: {prompt_sha256 or 'not known'}."
    try:
        here = registry.suite(suite)
        if here.version != version:
            return Asked((), f"{unknown} It was asked on version {version[:8]} of {suite}; here is {here.version[:8]}.")
        parts, sha256 = _prompt(here, item_id)
    except KiteDashError as error:
        return Asked((), f"{unknown} {error}")
    if sha256 != prompt_sha256:
        return Asked((), f"{unknown} The item's prompt in this version of {suite} has another one.")
    return Asked(parts)


def _prompt(suite: registry.SuiteSpec, item_id: str) -> tuple[tuple[tuple[str, str], ...], str]:
    """(role, text) by part and the hash as the answers carry it; an item that the suite lacks has none."""
    if suite.runner == "chat":
        for item in registry.repository_items(suite.name):
            if item.id == item_id:
                return tuple((message.role, message.content) for message in item.messages), item.prompt_sha256
        return (), ""
    for row in hellaswag_100.rows():
        if row.id == item_id:
            endings = tuple((f"ending {number}", choice) for number, choice in enumerate(row.choices, start=1))
            # lm-eval hashes what it sends ahead of the endings (evaluator.py: prompt_hash).
            return (("context", row.query), *endings), hashlib.sha256(row.query.encode()).hexdigest()
    return (), ""


def _row(session: Session, run_id: str, suite: str) -> Suite | None:
    return session.get(Suite, (run_id, suite), populate_existing=True)


def _why_not_compared(own: Suite, theirs: Suite | None, baseline_run_ids: Iterable[str]) -> str:
    if not any(True for _ in baseline_run_ids):
        return "This is the baseline: the others are held to it."
    if theirs is None:
        return "The baseline has not answered this suite, so there is nothing to compare with yet."
    if theirs.version != own.version:
        return f"The baseline answered version {theirs.version[:8]} of the suite, this run {own.version[:8]}."
    return ""


def _item(answer: Answer, baseline_passed: bool | None) -> AnswerItem:
    against = ""
    if baseline_passed is not None:
        if answer.passed:
            against = BOTH_PASS if baseline_passed else FIXED
        else:
            against = BROKEN if baseline_passed else BOTH_FAIL
    return AnswerItem(
        item_id=answer.item_id,
        kind=answer.kind,
        outcome=outcome_of(answer),
        score=answer.score,
        finish_reason=answer.finish_reason,
        error=answer.error,
        against_baseline=against,
    )


def _in_full(session: Session, own: Suite, item_id: str, compared: Suite | None) -> AnswerInFull | None:
    answer = results.answer(session, own.run_id, own.name, item_id)
    if answer is None:
        return None
    baseline = results.answer(session, compared.run_id, own.name, item_id) if compared is not None else None
    return AnswerInFull(
        answer=answer,
        outcome=outcome_of(answer),
        asked=asked(own.name, own.version, item_id, answer.prompt_sha256),
        baseline=baseline,
        baseline_outcome=outcome_of(baseline) if baseline is not None else "",
    )
