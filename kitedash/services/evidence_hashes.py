"""What a run stored, as one hash: whoever has the database can tell whether a record's numbers still have their ground.

The form is that of docs/records.md. Its fields are named one by one here and never read from a class: a field that is
added to the storage later must not change the hash of what was stored before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy.orm import Session

from db import experiments, results, runs
from kitedash.domain.canonical_json import canonical, sha256_of
from kitedash.domain.results import Answer, BlockResult, Estimate, LevelSummary, SuiteResult


def run_hashes(session: Session, run_ids: Iterable[str]) -> dict[str, str]:
    """Run -> SHA-256 of its evidence. Opens every stored request and answer of one run at a time. Raises NotFound."""
    return {run_id: run_hash(session, run_id) for run_id in run_ids}


def run_hash(session: Session, run_id: str) -> str:
    """Of one run. Raises NotFound."""
    run = runs.get(session, run_id)
    evidence = {
        "run_id": run_id,
        "candidate": run.candidate,
        "server_facts": run.server_facts,
        "blocks": [_block(block) for block in results.blocks(session, run_id)],
        "levels": [_level(level) for level in results.levels(session, run_id)],
        "suites": [
            _suite(results.suite_result(session, run_id, name))
            for name in sorted(row.name for row in results.suites(session, run_id))
        ],
    }
    return sha256_of(canonical(evidence))


def experiment_spec(session: Session, experiment_id: str) -> tuple[str, str]:
    """The specification as JSON, exactly as launching hashed it, and its SHA-256. Raises NotFound."""
    spec = experiments.get(session, experiment_id).spec
    text = json.dumps(spec, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text, sha256_of(text)


def _block(block: BlockResult) -> dict[str, Any]:
    return {
        "rate_per_s": block.rate_per_s,
        "block": block.block,
        "status": block.status,
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
        "blocks": level.blocks,
        "n_requests": level.n_requests,
        "n_failed": level.n_failed,
        "error_rate": level.error_rate,
        **{name: _estimate(estimate) for name, estimate in estimates.items()},
    }


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high, "n": estimate.n}


def _suite(suite: SuiteResult) -> dict[str, Any]:
    # Sorted here, since databases differ in how they order text.
    answers = sorted(suite.answers, key=lambda answer: answer.item_id)
    return {
        "name": suite.suite,
        "role": suite.role,
        "version": suite.version,
        "answers": [_answer(answer) for answer in answers],
    }


def _answer(answer: Answer) -> dict[str, Any]:
    return {
        "item_id": answer.item_id,
        "cluster": answer.cluster,
        "text": answer.text,
        "reference": answer.reference,
        "finish_reason": answer.finish_reason,
        "score": answer.score,
        "passed": answer.passed,
        "error": answer.error,
        "prompt_sha256": answer.prompt_sha256,
    }
