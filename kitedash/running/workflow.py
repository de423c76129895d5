"""The durable workflow `run`: begins a run or takes it up again, does its stages, and always leaves a final state.

What a stage found lies in our own tables; DBOS knows which workflow belongs to which worker and brings it back after
a crash. The server is never the result of a stage: after a crash it would count as done and be gone.
"""

from __future__ import annotations

import asyncio
import shutil
import traceback
from collections.abc import Callable
from datetime import UTC, datetime

from dbos import DBOS
from dbos._error import DBOSWorkflowCancelledError, DBOSWorkflowConflictIDError

from db import runs
from kitedash.domain.errors import EngineFailed, KiteDashError
from kitedash.domain.run_plan import stage_names
from kitedash.running import stops
from kitedash.running.context import RunContext, WorkerContext, load_context, relative_log_path
from kitedash.running.queue import WORKFLOW, is_cancelled
from kitedash.running.stages import perform, units

MOST_LOSSES = 3  # a run that has cost so many workers their life is given up
STOPPED = (DBOSWorkflowCancelledError, DBOSWorkflowConflictIDError, asyncio.CancelledError)

_worker: WorkerContext | None = None
_active: set[str] = set()


def configure(worker: WorkerContext) -> None:
    """Must be called before DBOS hands out the first run."""
    global _worker
    _worker = worker


def active_runs() -> tuple[str, ...]:
    return tuple(_active)


@DBOS.workflow(name=WORKFLOW, max_recovery_attempts=None)  # counted in the run's own row
async def run_workflow(run_id: str) -> None:
    assert _worker is not None
    run = _begin(_worker, run_id)
    if run is None:
        return
    _active.add(run_id)
    try:
        for position, stage in enumerate(stage_names(run.spec, run.purpose)):
            if sentence := await stage_step(run, stage, position):
                await _clear(run)
                _end(run, runs.fail, sentence)
                return
        await _clear(run)
        _end(run, runs.finish)
    except STOPPED:
        await run.stop_server()
        if await asyncio.to_thread(is_cancelled, run.worker.settings.url, run_id):
            await _clear(run)
            _end(run, runs.cancel)
        raise  # not cancelled: another worker has taken the run over, and its files with it
    except runs.RunEndedError as ended:  # while this worker slept, by another one or by a cancel
        run.log(f"stopped: {ended}")
        await _clear(run)
    except Exception as error:
        run.log(traceback.format_exc())
        await _clear(run)
        _end(run, runs.fail, _unexpected("the run", error))
    finally:
        _active.discard(run_id)


@DBOS.step(name="stage", preemptible=True)  # a cancel reaches an async step within about a second
async def stage_step(run: RunContext, stage: str, position: int) -> str:
    """Does a stage unless it is finished already. Returns why it failed, "" where it did not."""
    sessions, run_id = run.worker.sessions, run.run_id
    with sessions.begin() as session:
        if stage in runs.finished_stages(session, run_id):
            return ""
        runs.stage_begin(session, run_id, stage, position, units(run.spec, stage, run.purpose), datetime.now(UTC))
    if run.server is not None:
        run.server.begin_stage()
    try:
        await perform(run, stage)
    except runs.RunEndedError:  # nothing is left to be said of the stage
        raise
    except KiteDashError as error:
        sentence = str(error)
        tail = error.log_tail if isinstance(error, EngineFailed) else ""
        run.log(f"stage {stage} failed: {sentence}" + (f"; last lines:\n{tail}" if tail else ""))
    except Exception as error:
        sentence = _unexpected(f"stage {stage}", error)
        run.log(traceback.format_exc())
    else:
        with sessions.begin() as session:
            runs.stage_finish(session, run_id, stage, datetime.now(UTC))
        return ""
    with sessions.begin() as session:
        runs.stage_fail(session, run_id, stage, sentence, datetime.now(UTC))
    return sentence


def _begin(worker: WorkerContext, run_id: str) -> RunContext | None:
    """The run, marked as this worker's; None where it is over already or has cost too many workers."""
    try:
        with worker.sessions.begin() as session:
            attempts = runs.begin(session, run_id, worker.slot, datetime.now(UTC)).attempts
            runs.set_log_path(session, run_id, relative_log_path(run_id))
    except runs.RunEndedError:
        return None
    losses = attempts - 1 - stops.count(worker.settings.locks_dir, run_id)
    if losses > MOST_LOSSES:
        with worker.sessions.begin() as session:
            sentence = f"worker lost {losses} times during this run, which was then given up"
            runs.fail(session, run_id, sentence, datetime.now(UTC))
        stops.forget(worker.settings.locks_dir, run_id)
        return None
    try:
        run = load_context(worker, run_id)
        run.log(f"attempt {attempts} by {worker.slot}")
    except Exception as error:  # such as a full disk: without a context the workflow could not say so
        with worker.sessions.begin() as session:
            runs.fail(session, run_id, _unexpected("the start of the run", error), datetime.now(UTC))
        return None
    return run


async def _clear(run: RunContext) -> None:
    """Before the run is called over: nobody is told so while something of it lives."""
    await run.stop_server()
    await asyncio.to_thread(shutil.rmtree, run.work_dir, ignore_errors=True)
    stops.forget(run.worker.settings.locks_dir, run.run_id)


def _end(run: RunContext, end: Callable[..., bool], *reason: str) -> None:
    with run.worker.sessions.begin() as session:
        end(session, run.run_id, *reason, now=datetime.now(UTC))


def _unexpected(what: str, error: Exception) -> str:
    reason = str(error).strip().splitlines()
    return f"{what} failed unexpectedly: {type(error).__name__}{': ' + reason[0][:300] if reason else ''}"
