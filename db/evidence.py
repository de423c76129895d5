"""What the trade-off is computed from, for all runs of an experiment at once: one query a table, no blob and no text.

Functions take a session and commit nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db import results
from db.models import Answer as AnswerRow
from db.models import LoadBlock, LoadLevel, Suite
from kitedash.domain.results import Answer, LevelSummary


def levels(session: Session, run_ids: Sequence[str]) -> dict[str, list[LevelSummary]]:
    """Run -> its load levels by rate."""
    query = sa.select(LoadLevel).where(LoadLevel.run_id.in_(run_ids)).order_by(LoadLevel.rate_per_s)
    found: dict[str, list[LevelSummary]] = defaultdict(list)
    for row in session.scalars(query, execution_options={"populate_existing": True}):
        found[row.run_id].append(results.summary_of(row))
    return found


def schedules(session: Session, run_ids: Sequence[str]) -> dict[str, dict[tuple[float, int], str]]:
    """Run -> (rate, block) -> the hash of the requests that it was measured with."""
    query = sa.select(LoadBlock.run_id, LoadBlock.rate_per_s, LoadBlock.block, LoadBlock.schedule_sha256)
    found: dict[str, dict[tuple[float, int], str]] = defaultdict(dict)
    for run_id, rate_per_s, block, sha256 in session.execute(query.where(LoadBlock.run_id.in_(run_ids))):
        found[run_id][rate_per_s, block] = sha256
    return found


def suites(session: Session, run_ids: Sequence[str]) -> list[Suite]:
    """The suites' rows with their counts."""
    query = sa.select(Suite).where(Suite.run_id.in_(run_ids)).order_by(Suite.name)
    return list(session.scalars(query, execution_options={"populate_existing": True}))


def outcomes(session: Session, run_ids: Sequence[str]) -> dict[tuple[str, str], list[Answer]]:
    """(run, suite) -> its answers by item, without their texts: who passed is all that the verdicts ask."""
    columns = (
        AnswerRow.run_id,
        AnswerRow.suite,
        AnswerRow.item_id,
        AnswerRow.cluster,
        AnswerRow.kind,
        AnswerRow.finish_reason,
        AnswerRow.score,
        AnswerRow.passed,
        AnswerRow.error,
        AnswerRow.prompt_sha256,
    )
    query = sa.select(*columns).where(AnswerRow.run_id.in_(run_ids)).order_by(AnswerRow.item_id)
    found: dict[tuple[str, str], list[Answer]] = defaultdict(list)
    for run_id, suite, item_id, cluster, kind, finish_reason, score, passed, error, prompt_sha256 in session.execute(
        query
    ):
        found[run_id, suite].append(
            Answer(
                item_id=item_id,
                cluster=cluster,
                kind=kind,
                text="",
                finish_reason=finish_reason,
                score=score,
                passed=passed,
                error=error,
                prompt_sha256=prompt_sha256,
            )
        )
    return found
