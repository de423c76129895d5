"""The stages of a run. Each stores what it found as it goes, so that doing it again repeats only what is missing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from db import memory, results, runs, traces
from kitedash.domain import rate_search
from kitedash.domain.experiment import ExperimentSpec, LoadPlan
from kitedash.domain.memory_ladder import STEPS_A_LENGTH, MemoryStep, died, ladder, next_step
from kitedash.domain.rate_search import SearchResult, Tried
from kitedash.domain.results import BlockResult, LevelStatus, LevelSummary
from kitedash.domain.run_plan import (
    LEAST_RATES,
    LOAD,
    MEASURED,
    MEMORY,
    PREPARE,
    QUALITY,
    as_run,
    is_settled,
    planned_blocks,
)
from kitedash.measuring.endpoint import Endpoint
from kitedash.measuring.levels import summarize_level
from kitedash.measuring.load_stage import measure_block
from kitedash.measuring.memory_stage import measure_step, read_room
from kitedash.measuring.model_config import read_model_config
from kitedash.measuring.suite_stage import ask_suite
from kitedash.running.context import RunContext

Found = TypeVar("Found")


@dataclass
class Progress:
    """Where a stage is, written to its row. A note alone keeps the count."""

    run: RunContext
    stage: str
    total: int
    done: int = 0

    def say(self, note: str) -> None:
        with self.run.worker.sessions.begin() as session:
            runs.stage_advance(session, self.run.run_id, self.stage, self.done, self.total, note)

    def count(self, done: int, total: int, note: str = "") -> None:
        self.done, self.total = done, total
        self.say(note)


def units(spec: ExperimentSpec, stage: str, purpose: str = MEASURED) -> int:
    """How many units a stage counts before it knows better."""
    return planned_blocks(as_run(spec, purpose).load) if stage == LOAD else 1


async def perform(run: RunContext, stage: str) -> None:
    """Does one stage. Raises KiteDashError with the reason where it can't be done."""
    progress = Progress(run, stage, units(run.spec, stage, run.purpose))
    if stage == PREPARE:
        await run.get_server(progress.say)
    elif stage == LOAD:
        await _load(run, progress)
    elif stage == MEMORY:
        await _memory(run, progress)
    else:
        await _quality(run, progress, stage.removeprefix(f"{QUALITY}:"))


async def _load(run: RunContext, progress: Progress) -> None:
    """Every listed rate in ascending order, block by block, then those of the search. Beyond an overloaded rate no
    listed one is measured, once there are three rates: it could only be overloaded more. Where a search follows, which
    brings rates enough, a clearly missed one ends it.
    The baseline's second run measures as the first one did, but searches nothing: the two meet at listed rates."""
    plan = run.spec.load.for_repeat(run.repeat)
    trace = await asyncio.to_thread(_trace_file, run)
    for position, rate_per_s in enumerate(plan.rates_per_s):
        for block in range(plan.blocks):
            progress.done = position * plan.blocks + block
            before = _blocks(run, rate_per_s)
            if is_settled([known.status for known in before]) or _is_clearly_missed(run, plan, before):
                break
            if any(known.block == block for known in before):
                continue
            progress.say(
                f"rate {position + 1}/{len(plan.rates_per_s)} ({rate_per_s:g}/s), block {block + 1}/{plan.blocks}"
            )
            result = await _on_server(run, progress, _measuring(run, plan, rate_per_s, block, trace))
            with run.worker.sessions.begin() as session:
                results.store_block(session, run.run_id, result, datetime.now(UTC))
        measured = _blocks(run, rate_per_s)
        summary = await asyncio.to_thread(_summary, run, plan, measured)
        with run.worker.sessions.begin() as session:
            results.store_level(session, run.run_id, summary)
        if summary.status is LevelStatus.OVERLOADED and position + 1 >= LEAST_RATES:
            break
        if _is_clearly_missed(run, plan, measured):
            break
    if as_run(run.spec, run.purpose).load.search:
        await _search(run, progress, plan, trace)


def _is_clearly_missed(run: RunContext, plan: LoadPlan, blocks: Sequence[BlockResult]) -> bool:
    if not plan.search or not blocks:
        return False
    tried = Tried(_summary(run, plan, blocks), tuple(block.status for block in blocks))
    return rate_search.is_clearly_missed(tried, run.spec.targets, run.spec.guardrails)


async def _search(run: RunContext, progress: Progress, plan: LoadPlan, trace: Path | None) -> None:
    """The highest rate held, block by block. Each block is stored with its rate's level, from which the next one
    follows: nothing is kept in memory."""
    while True:
        tried = _tried(run)
        step = rate_search.next_step(tried, plan, run.spec.targets, run.spec.guardrails)
        if isinstance(step, SearchResult):
            run.log(f"search: {step.sentence}")
            return
        searched = rate_search.further_blocks(tried, plan)
        progress.done = min(progress.total - 1, len(plan.rates_per_s) * plan.blocks + searched)
        progress.say(
            f"rate search ({step.rate_per_s:g}/s), block {step.block + 1}; "
            f"{searched} of at most {plan.search_most_blocks} further blocks measured"
        )
        result = await _on_server(run, progress, _measuring(run, plan, step.rate_per_s, step.block, trace))
        blocks = [*_blocks(run, step.rate_per_s), result]
        summary = await asyncio.to_thread(_summary, run, plan, blocks)
        with run.worker.sessions.begin() as session:
            results.store_block(session, run.run_id, result, datetime.now(UTC))
            results.store_level(session, run.run_id, summary)


def _tried(run: RunContext) -> list[Tried]:
    with run.worker.sessions() as session:
        return rate_search.tried_of(results.levels(session, run.run_id), results.block_heads(session, run.run_id))


def _measuring(
    run: RunContext, plan: LoadPlan, rate_per_s: float, block: int, trace: Path | None
) -> Callable[[Endpoint], Awaitable[BlockResult]]:
    async def measure(endpoint: Endpoint) -> BlockResult:
        return await measure_block(
            endpoint,
            workload=run.spec.workload,
            plan=plan,
            rate_per_s=rate_per_s,
            block=block,
            spawn=run.worker.spawn,
            work_dir=run.work_dir / LOAD,
            trace=trace,
        )

    return measure


def _summary(run: RunContext, plan: LoadPlan, blocks: Sequence[BlockResult]) -> LevelSummary:
    return summarize_level(blocks, plan.warm_up_s, run.spec.workload.dispersion)


def _trace_file(run: RunContext) -> Path | None:
    """The trace that the workload replays, beside the run's prompt files. Raises NotFound."""
    if run.spec.workload.trace is None:
        return None
    with run.worker.sessions() as session:
        content = traces.content(session, run.spec.workload.trace)
    path = run.work_dir / "trace.csv"
    partial = path.with_suffix(".part")
    partial.write_bytes(content)
    partial.replace(path)
    return path


async def _quality(run: RunContext, progress: Progress, suite: str) -> None:
    async def ask(endpoint: Endpoint) -> None:
        result = await ask_suite(
            endpoint,
            suite,
            spawn=run.worker.spawn,
            work_dir=run.work_dir / suite,
            progress=lambda done, total: progress.count(done, total, f"item {done}/{total}"),
        )
        if not await _is_alive(run):
            return  # its failed answers are the server's death, not the candidate's
        with run.worker.sessions.begin() as session:
            results.store_suite(session, run.run_id, result, datetime.now(UTC))

    await _on_server(run, progress, ask)


async def _memory(run: RunContext, progress: Progress) -> None:
    """Step by step up the ladder. An engine that dies of a step is its result, not the run's end: the next step gets a
    new one, and no step goes beyond."""
    config, on, facts = None, None, None
    while True:
        endpoint = await _endpoint(run, progress)
        assert run.server is not None
        assert run.server.facts is not None
        if config is None:
            config = await asyncio.to_thread(read_model_config, endpoint.tokenizer_dir)
        if on is None or run.server.facts is not facts:
            facts = run.server.facts
            room = await read_room(endpoint, run.candidate, facts, config)
            assert run.spec.memory is not None
            on = ladder(run.spec.memory, run.spec.workload, room)
        with run.worker.sessions() as session:
            steps = memory.steps(session, run.run_id)
        asked = next_step(steps, on)
        if asked is None:
            return
        what = f"{asked.concurrency:,} at once of {asked.prompt_tokens:,} prompt tokens"
        progress.count(len(steps), max(len(steps) + 1, STEPS_A_LENGTH * len(on.lengths)), what)
        step: MemoryStep | None = None
        try:
            step = await measure_step(
                endpoint, asked, on.room, vocabulary=config.vocab_size, seed=run.spec.load.for_repeat(run.repeat).seed
            )
        except Exception as error:  # whatever it looks like from the outside: is it the server?
            if await _is_alive(run):
                raise
            run.log(f"the engine died of {what}: {error}")
        if step is None or not await _is_alive(run):
            step = died(asked, str(run.server.failure()), on.room)
            run.server.begin_stage()  # this death was the answer to a question
        with run.worker.sessions.begin() as session:
            memory.store_step(session, run.run_id, step, datetime.now(UTC))


async def _on_server(run: RunContext, progress: Progress, work: Callable[[Endpoint], Awaitable[Found]]) -> Found:
    """Does `work` on a live server. What was found while the server died is thrown away and done again on a new one,
    as often as the server's allowance for the stage permits."""
    while True:
        endpoint = await _endpoint(run, progress)
        try:
            found = await work(endpoint)
        except runs.RunEndedError:
            raise
        except Exception as error:  # whatever it looks like from the outside: is it the server?
            if await _is_alive(run):
                raise
            run.log(f"the engine died: {error}")
            continue
        if await _is_alive(run):
            return found
        run.log("the engine died while it was measured")


async def _endpoint(run: RunContext, progress: Progress) -> Endpoint:
    server = await run.get_server(progress.say)
    known = server.facts
    endpoint = await server.ensure(progress.say)
    if server.facts is not None and server.facts is not known:
        with run.worker.sessions.begin() as session:
            runs.set_facts(session, run.run_id, server.facts)
    return endpoint


async def _is_alive(run: RunContext) -> bool:
    return run.server is not None and await run.server.is_healthy()


def _blocks(run: RunContext, rate_per_s: float) -> list[BlockResult]:
    with run.worker.sessions() as session:
        return results.blocks(session, run.run_id, rate_per_s=rate_per_s)
