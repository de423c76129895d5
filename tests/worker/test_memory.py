"""The memory stage on an engine whose KV cache is known: its limit, also after a kill, and a death as a result."""

from __future__ import annotations

from datetime import datetime

import pytest
import sqlalchemy as sa

from db import memory
from db.models import MemoryStep as StepRow
from kitedash.domain.memory_ladder import MemoryOutcome, MemoryStep, limit_at
from tests.worker.conftest import Home

pytestmark = pytest.mark.worker

CANDIDATE = {"engine_args": {"max-num-seqs": 16, "max-model-len": 512}}
PLAN = {"output_tokens": 4}
# 64 blocks of 16 tokens, one of them the engine's own. The model takes 2 x 2 layers x 2 heads x 16 x 2 bytes a token.
ENGINE = {"kv_cache_tokens": 1_024, "kv_cache_memory_bytes": 262_144, "token_ms": 60}
# The workload's 120 + 4 tokens take 8 of the 63 blocks, 128 + 5 take 9, 256 + 5 take 17, 508 + 4 take 32.
MOST_AT_ONCE = {120: 7, 128: 7, 256: 3, 508: 1}


def _steps(home: Home, run_id: str) -> list[MemoryStep]:
    with home.session() as session:
        return memory.steps(session, run_id)


def _stored_at(home: Home, run_id: str) -> dict[tuple[int, int], datetime]:
    with home.session() as session:
        rows = session.scalars(sa.select(StepRow).where(StepRow.run_id == run_id)).all()
    return {(row.prompt_tokens, row.concurrency): row.stored_at for row in rows}


def test_the_same_limit_is_found_after_a_kill_in_the_middle(home: Home) -> None:
    run_id = home.queue_run(CANDIDATE, finished=("prepare", "load"), memory=PLAN)
    worker = home.start_worker(ENGINE)
    home.wait_for_stage(run_id, "memory", done=5)
    worker.kill()
    home.wait_until(lambda: not home.children(), "nothing left of the stage", 5)
    before = _stored_at(home, run_id)
    assert len(before) >= 5

    home.start_worker(ENGINE)
    assert home.wait_for_status(run_id, "finished", "failed") == "finished"
    after = _stored_at(home, run_id)
    assert {key: after[key] for key in before} == before  # tried once: what was stored is not touched again
    steps = _steps(home, run_id)
    assert {length: limit_at(steps, length)[0] for length in MOST_AT_ONCE} == MOST_AT_ONCE
    for length, most in MOST_AT_ONCE.items():
        _, fewest = limit_at(steps, length)
        assert fewest is None or fewest.concurrency == most + 1
    (refused,) = [step for step in steps if step.prompt_tokens == 1_024]
    assert (refused.outcome, refused.concurrency) == (MemoryOutcome.REJECTED, 1)
    assert "maximum context length" in refused.reason
    room = steps[0].room
    assert (room.bytes_per_token_predicted, room.bytes_per_token_reported, room.bytes_ratio) == (256, 256, 1)
    assert (room.batch_limit, room.max_model_len, room.block_size) == (16, 512, 16)
    assert home.stages(run_id)["memory"].executions == 2

    again = home.queue_run(CANDIDATE, finished=("prepare", "load"), memory=PLAN)
    assert home.wait_for_status(again, "finished", "failed") == "finished"
    uninterrupted = {(step.prompt_tokens, step.concurrency): step.outcome for step in _steps(home, again)}
    assert {(step.prompt_tokens, step.concurrency): step.outcome for step in steps} == uninterrupted


def test_an_engine_that_runs_out_of_memory_is_a_result_and_no_step_goes_beyond(home: Home) -> None:
    run_id = home.queue_run(CANDIDATE, finished=("prepare", "load"), memory={**PLAN, "most_prompt_tokens": 256})
    home.start_worker({"token_ms": 60, "die_at_tokens": 600})
    assert home.wait_for_status(run_id, "finished", "failed") == "finished"
    steps = _steps(home, run_id)
    deaths = {(step.prompt_tokens, step.concurrency): step for step in steps if not step.held}
    # 4 of 120 + 5 tokens take 512 in whole blocks, 8 take 1,024. It is not tried closer, which might cost an engine
    # each, and of longer prompts no more are tried than have the 500 tokens that ran: 3 of 128 + 4, 1 of 256 + 4.
    assert set(deaths) == {(120, 8)}
    assert {length: limit_at(steps, length)[0] for length in (120, 128, 256)} == {120: 4, 128: 3, 256: 1}
    assert {step.outcome for step in deaths.values()} == {MemoryOutcome.OUT_OF_MEMORY}
    assert "CUDA out of memory" in deaths[120, 8].reason
    assert (120, 4) in {(step.prompt_tokens, step.concurrency) for step in steps if step.held}
    assert not [step for step in steps if step.concurrency > 8]
    assert home.stages(run_id)["memory"].executions == 1
