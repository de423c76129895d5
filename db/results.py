"""What was measured, as stored: each store is an upsert by run and rate, block, suite or item, so it can be repeated.

Functions take a session and commit nothing. Those that store raise RunEndedError where the run is over, and NotFound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session, undefer

from db import encoding
from db.models import Answer as AnswerRow
from db.models import LoadBlock, LoadLevel, Suite
from db.revision import bump
from db.upsert import upsert
from kitedash.domain.results import Answer, BlockResult, Estimate, LevelStatus, LevelSummary, SuiteResult

ESTIMATES = tuple(field.name for field in fields(LevelSummary) if field.type == "Estimate")
COLUMNS = tuple(field.name for field in fields(LevelSummary) if field.type != "Estimate")


def store_block(session: Session, run_id: str, result: BlockResult, now: datetime | None = None) -> None:
    bump(session, run_id)
    row = {
        "run_id": run_id,
        "rate_per_s": result.rate_per_s,
        "block": result.block,
        "seed": result.seed,
        "status": result.status,
        "reason": encoding.text(result.reason),
        "checks": encoding.plain(result.checks),
        "n_requests": result.n_requests,
        "n_failed": result.n_failed,
        "duration_s": result.duration_s,
        "schedule_sha256": result.schedule_sha256,
        "requests_blob": result.requests_blob,
        "server_counters": encoding.plain(result.server_counters),
        "timeline_blob": result.timeline_blob or None,
        "stored_at": now or datetime.now(UTC),
    }
    upsert(session, LoadBlock, [row])


def blocks(
    session: Session, run_id: str, *, rate_per_s: float | None = None, block: int | None = None
) -> list[BlockResult]:
    """The blocks of a run, or of one of its rates, or the one of a number, by rate and number; with their requests."""
    query = sa.select(LoadBlock).where(LoadBlock.run_id == run_id).options(undefer(LoadBlock.requests_blob))
    if rate_per_s is not None:
        query = query.where(LoadBlock.rate_per_s == rate_per_s)
    if block is not None:
        query = query.where(LoadBlock.block == block)
    rows = session.scalars(
        query.order_by(LoadBlock.rate_per_s, LoadBlock.block), execution_options={"populate_existing": True}
    )
    return [_block_of(row, row.requests_blob) for row in rows]


def block_heads(session: Session, run_id: str) -> list[BlockResult]:
    """The blocks of a run as `blocks` gives them, but with an empty `requests_blob`: no blob is read."""
    query = sa.select(LoadBlock).where(LoadBlock.run_id == run_id).order_by(LoadBlock.rate_per_s, LoadBlock.block)
    return [_block_of(row, b"") for row in session.scalars(query, execution_options={"populate_existing": True})]


def timeline(session: Session, run_id: str, rate_per_s: float, block: int) -> bytes:
    """The server second by second during one block, as `measuring/timeline.py` reads it; empty where none is stored."""
    query = sa.select(LoadBlock.timeline_blob).where(LoadBlock.run_id == run_id)
    return session.scalar(query.where(LoadBlock.rate_per_s == rate_per_s, LoadBlock.block == block)) or b""


def timelines(session: Session, run_id: str) -> int:
    """How many blocks have a timeline; opens no blob."""
    query = sa.select(sa.func.count()).select_from(LoadBlock).where(LoadBlock.run_id == run_id)
    return session.scalar(query.where(LoadBlock.timeline_blob.is_not(None))) or 0


def each_block(session: Session, run_id: str) -> Iterator[BlockResult]:
    """The blocks as `blocks` gives them, read one after the other: for exports larger than memory should hold."""
    for rate_per_s, block in sorted(stored_blocks(session, run_id)):
        key, options = (run_id, rate_per_s, block), [undefer(LoadBlock.requests_blob)]
        row = session.get(LoadBlock, key, options=options, populate_existing=True)
        if row is not None:
            yield _block_of(row, row.requests_blob)
            session.expunge(row)


def valid_blocks(session: Session, run_id: str) -> list[tuple[float, int, datetime]]:
    """(rate, block, when it was stored) of the blocks that count, in order; opens no blob."""
    query = sa.select(LoadBlock.rate_per_s, LoadBlock.block, LoadBlock.stored_at)
    valid = query.where(LoadBlock.run_id == run_id, LoadBlock.status != LevelStatus.INVALID)
    found = session.execute(valid.order_by(LoadBlock.rate_per_s, LoadBlock.block))
    return [(rate_per_s, block, stored_at) for rate_per_s, block, stored_at in found]


def stored_at(session: Session, run_id: str, rate_per_s: float, block: int) -> datetime | None:
    """When a block was stored; None where it is not. A cache key of what is worked out from it alone."""
    query = sa.select(LoadBlock.stored_at).where(LoadBlock.run_id == run_id)
    return session.scalar(query.where(LoadBlock.rate_per_s == rate_per_s, LoadBlock.block == block))


def blocks_version(session: Session, run_id: str) -> str:
    """Changes with every block that is stored for the run: a cache key of what is worked out from its requests."""
    query = sa.select(sa.func.count(), sa.func.max(LoadBlock.stored_at)).where(LoadBlock.run_id == run_id)
    count, latest = session.execute(query).one()
    return f"{count}.{latest or ''}"


def _block_of(row: LoadBlock, requests_blob: bytes) -> BlockResult:
    return BlockResult(
        rate_per_s=row.rate_per_s,
        block=row.block,
        seed=row.seed,
        status=LevelStatus(row.status),
        reason=row.reason,
        checks=encoding.checks(row.checks),
        n_requests=row.n_requests,
        n_failed=row.n_failed,
        duration_s=row.duration_s,
        schedule_sha256=row.schedule_sha256,
        requests_blob=requests_blob,
        server_counters=encoding.numbers(row.server_counters),
    )


def stored_blocks(session: Session, run_id: str) -> set[tuple[float, int]]:
    """(rate, block) of what a resumed load stage need not measure again; opens no blob."""
    query = sa.select(LoadBlock.rate_per_s, LoadBlock.block).where(LoadBlock.run_id == run_id)
    return {(rate_per_s, block) for rate_per_s, block in session.execute(query)}


def store_level(session: Session, run_id: str, summary: LevelSummary) -> None:
    bump(session, run_id)
    row: dict[str, Any] = {"run_id": run_id, **{name: getattr(summary, name) for name in COLUMNS}}
    row["reason"] = encoding.text(summary.reason)
    row["parts_ms"] = encoding.plain(summary.parts_ms)
    row["estimate_details"] = {}
    for name in ESTIMATES:
        estimate: Estimate = getattr(summary, name)
        row |= {name: estimate.value, _bound(name, "low"): estimate.low, _bound(name, "high"): estimate.high}
        row["estimate_details"][name] = {"n": estimate.n, "note": estimate.note, "more": estimate.more}
    row["ttft_p90_note"] = summary.ttft_p90_ms.note[:200]
    upsert(session, LoadLevel, [row])


def levels(session: Session, run_id: str) -> list[LevelSummary]:
    """The load levels of a run, by rate."""
    query = sa.select(LoadLevel).where(LoadLevel.run_id == run_id).order_by(LoadLevel.rate_per_s)
    return [summary_of(row) for row in session.scalars(query, execution_options={"populate_existing": True})]


def invalid_levels(session: Session, run_ids: Sequence[str]) -> dict[str, list[tuple[float, str]]]:
    """Run -> (rate, why) of the load levels that gave no result, by rate; of the runs that have one."""
    query = sa.select(LoadLevel.run_id, LoadLevel.rate_per_s, LoadLevel.reason).order_by(LoadLevel.rate_per_s)
    found: dict[str, list[tuple[float, str]]] = {}
    invalid = query.where(LoadLevel.run_id.in_(run_ids), LoadLevel.status == LevelStatus.INVALID)
    for run_id, rate_per_s, reason in session.execute(invalid):
        found.setdefault(run_id, []).append((rate_per_s, reason))
    return found


def summary_of(row: LoadLevel) -> LevelSummary:
    values: dict[str, Any] = {name: getattr(row, name) for name in COLUMNS}
    values |= {"status": LevelStatus(row.status), "parts_ms": encoding.numbers(row.parts_ms)}
    for name in ESTIMATES:
        bounds = (getattr(row, column) for column in (name, _bound(name, "low"), _bound(name, "high")))
        values[name] = Estimate(*bounds, **row.estimate_details[name])
    return LevelSummary(**values)


def _bound(name: str, side: str) -> str:
    """ttft_p90_ms -> ttft_p90_low_ms: the unit stays last."""
    return f"{name.removesuffix('_ms')}_{side}_ms"


def store_suite(session: Session, run_id: str, result: SuiteResult, now: datetime | None = None) -> None:
    """The suite's counts and answers. Answers that an earlier attempt stored under other items are taken away."""
    bump(session, run_id)
    answered = result.answers
    row = {
        "run_id": run_id,
        "name": result.suite,
        "role": result.role,
        "version": result.version,
        "chance": result.chance,
        "n_items": len(answered),
        "n_passed": sum(answer.passed for answer in answered),
        "n_truncated": sum(answer.finish_reason == "length" for answer in answered),
        "n_failed": sum(bool(answer.error) for answer in answered),
        "stored_at": now or datetime.now(UTC),
    }
    upsert(session, Suite, [row])
    session.execute(sa.delete(AnswerRow).where(AnswerRow.run_id == run_id, AnswerRow.suite == result.suite))
    upsert(session, AnswerRow, [_answer_row(run_id, result.suite, answer) for answer in answered])


def _answer_row(run_id: str, suite: str, answer: Answer) -> dict[str, Any]:
    row = {field.name: getattr(answer, field.name) for field in fields(Answer)}
    row = {name: encoding.text(value) if isinstance(value, str) else value for name, value in row.items()}
    return {**row, "run_id": run_id, "suite": suite, "finish_reason": row["finish_reason"][:40]}


def suites(session: Session, run_id: str) -> Sequence[Suite]:
    """The rows with the counts of each suite, by name: what a page needs without opening an answer."""
    query = sa.select(Suite).where(Suite.run_id == run_id).order_by(Suite.name)
    return session.scalars(query, execution_options={"populate_existing": True}).all()


def answers(session: Session, run_id: str, suite: str) -> list[Answer]:
    """What the run answered, by item."""
    query = sa.select(AnswerRow).where(AnswerRow.run_id == run_id, AnswerRow.suite == suite)
    rows = session.scalars(query.order_by(AnswerRow.item_id), execution_options={"populate_existing": True})
    return [Answer(**{field.name: getattr(row, field.name) for field in fields(Answer)}) for row in rows]


def answer(session: Session, run_id: str, suite: str, item_id: str) -> Answer | None:
    """What the run answered to one item; None where it did not."""
    known = encoding.may_be_id(item_id)
    row = session.get(AnswerRow, (run_id, suite, item_id), populate_existing=True) if known else None
    return None if row is None else Answer(**{field.name: getattr(row, field.name) for field in fields(Answer)})
