"""What a run stored, as one hash: whoever has the database can tell whether a record's numbers still have their ground.

The form is that of docs/records.md. Its fields are named one by one here and never read from a class: a field that is
added to the storage later must not change the hash of what was stored before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from sqlalchemy.orm import Session

from db import experiments, results, runs
from db.damage import damage_told
from db.engine import sessions
from db.models import Suite
from kitedash.domain.canonical_json import canonical, sha256_of
from kitedash.domain.results import Answer, BlockResult, Estimate, LevelSummary
from kitedash.domain.run_plan import MEASURED
from kitedash.settings import settings


def run_hashes(session: Session, run_ids: Iterable[str]) -> dict[str, str]:
    """Run -> SHA-256 of its evidence, of runs that have ended: what KiteDash stored is hashed once in a process.

    Raises NotFound, and DamagedError where what is stored can't be read any more.
    """
    return {run_id: known_run_hash(session, run_id) for run_id in run_ids}


def known_run_hash(session: Session, run_id: str) -> str:
    """As `run_hash`, but what this process has hashed of the same revision counts: a change past KiteDash is missed."""
    with damage_told(session, f"run {run_id}"):
        revision = runs.get(session, run_id).revision
    return _hash_at(settings().url, run_id, revision)


@lru_cache(maxsize=10_000)
def _hash_at(url: str, run_id: str, _revision: int) -> str:
    with sessions(url)() as session:
        return run_hash(session, run_id)


def run_hash(session: Session, run_id: str) -> str:
    """Of one run, read anew, one block at a time. Raises as `run_hashes` does."""
    with damage_told(session, f"run {run_id}"):
        run = runs.get(session, run_id)
        evidence = {
            "run_id": run_id,
            "experiment_id": run.experiment_id,
            "candidate_name": run.candidate_name,
            "candidate": run.candidate,
            "is_baseline": run.is_baseline,
            "repeat": run.repeat,
            "retry_of": run.retry_of,
            # Only where it is not what all runs were when records began: their hashes must stay as they are.
            **({} if run.purpose == MEASURED else {"purpose": run.purpose}),
            "status": run.status,
            "error": run.error,
            "server_facts": run.server_facts,
            "blocks": [_block(block) for block in results.each_block(session, run_id)],
            "levels": [_level(level) for level in results.levels(session, run_id)],
            "suites": [
                _suite(row, results.answers(session, run_id, row.name))
                for row in sorted(results.suites(session, run_id), key=lambda row: row.name)
            ],
        }
        return sha256_of(canonical(evidence))


def experiment_spec(session: Session, experiment_id: str) -> tuple[str, str]:
    """The specification as JSON, exactly as launching hashed it, and its SHA-256. Raises NotFound and DamagedError."""
    with damage_told(session, f"experiment {experiment_id}"):
        spec = experiments.get(session, experiment_id).spec
        text = json.dumps(spec, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return text, sha256_of(text)


def _block(block: BlockResult) -> dict[str, Any]:
    return {
        "rate_per_s": block.rate_per_s,
        "block": block.block,
        "seed": block.seed,
        "status": block.status,
        "reason": block.reason,
        "n_requests": block.n_requests,
        "n_failed": block.n_failed,
        "duration_s": block.duration_s,
        "schedule_sha256": block.schedule_sha256,
        "requests_sha256": hashlib.sha256(block.requests_blob).hexdigest(),
    }


def _level(level: LevelSummary) -> dict[str, Any]:
    estimates = {
        "ttft_p50_ms": level.ttft_p50_ms,
        "ttft_p90_ms": level.ttft_p90_ms,
        "ttft_p99_ms": level.ttft_p99_ms,
        "tpot_p50_ms": level.tpot_p50_ms,
        "tpot_p90_ms": level.tpot_p90_ms,
        "tpot_p99_ms": level.tpot_p99_ms,
        "e2e_p90_ms": level.e2e_p90_ms,
    }
    return {
        "rate_per_s": level.rate_per_s,
        "status": level.status,
        "reason": level.reason,
        "blocks": level.blocks,
        "n_requests": level.n_requests,
        "n_failed": level.n_failed,
        "error_rate": level.error_rate,
        "delivered_rate_per_s": level.delivered_rate_per_s,
        "output_tokens_per_s": level.output_tokens_per_s,
        "prefix_hit_rate": level.prefix_hit_rate,
        "running_max": level.running_max,
        "parts_ms": level.parts_ms,
        **{name: _estimate(estimate) for name, estimate in estimates.items()},
    }


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "n": estimate.n,
        "note": estimate.note,
        "more": estimate.more,
    }


def _suite(suite: Suite, answers: Iterable[Answer]) -> dict[str, Any]:
    return {
        "name": suite.name,
        "role": suite.role,
        "version": suite.version,
        "chance": suite.chance,
        "n_items": suite.n_items,
        "n_passed": suite.n_passed,
        "n_truncated": suite.n_truncated,
        "n_failed": suite.n_failed,
        # Sorted here, since databases differ in how they order text.
        "answers": [_answer(answer) for answer in sorted(answers, key=lambda answer: answer.item_id)],
    }


def _answer(answer: Answer) -> dict[str, Any]:
    return {
        "item_id": answer.item_id,
        "cluster": answer.cluster,
        "kind": answer.kind,
        "text": answer.text,
        "reference": answer.reference,
        "finish_reason": answer.finish_reason,
        "score": answer.score,
        "passed": answer.passed,
        "error": answer.error,
        "prompt_sha256": answer.prompt_sha256,
        "tokens_out": answer.tokens_out,
    }
