"""One block of one load level by the protocol: flush -> prime -> measure -> check (docs/metrics.md, "Latency")."""

from __future__ import annotations

import asyncio
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import aiohttp
import numpy as np

from kitedash.domain.cache_room import Use, may_be_gone
from kitedash.domain.errors import KiteDashError
from kitedash.domain.experiment import LoadPlan, Workload
from kitedash.domain.load_checks import BlockFacts, check_block, expected_cached_tokens, overload_reason, status_of
from kitedash.domain.results import BlockResult
from kitedash.domain.run_plan import most_blocks
from kitedash.measuring import load_client, machine_use, request_table, server_metrics, timeline, traffic
from kitedash.measuring.endpoint import Endpoint
from kitedash.measuring.process import Spawn, clean_environment
from kitedash.settings import PROJECT_ROOT

POLL_INTERVAL_S = 0.25
IDLE_TIMEOUT_S = 30.0
SETTLE_TIMEOUT_S = 3.0
PRIME_TIMEOUT_S = 600.0
FULL_KV_CACHE = 0.99  # of its blocks


async def measure_block(
    endpoint: Endpoint,
    *,
    workload: Workload,
    plan: LoadPlan,
    rate_per_s: float,
    block: int,
    spawn: Spawn,
    work_dir: Path,
    trace: Path | None = None,
) -> BlockResult:
    """Measures one block on a ready engine, and says whether it may be believed.

    The traffic of the whole plan is written on the first call, that of a rate or block beyond it when it is asked for;
    `trace` is the canonical file of the one that the workload replays. A block that fails a check is returned as
    INVALID with its reason; raises only where there is nothing to return: InvalidInput (the workload's tokens can't be
    met), KiteDashError (engine gone before the block, client died).
    """
    is_planned = rate_per_s in plan.rates_per_s and block < plan.blocks
    folder = await traffic.ensure_traffic(
        endpoint,
        workload=workload,
        plan=plan if block < plan.blocks else plan.model_copy(update={"blocks": most_blocks(plan)}),
        spawn=spawn,
        work_dir=work_dir,
        trace=trace,
        rates_per_s=None if is_planned else (rate_per_s,),
    )
    path = folder / traffic.file_name(rate_per_s, block)
    todo = await asyncio.to_thread(traffic.read, path)
    assert (todo.rate_per_s, todo.block, todo.seed) == (rate_per_s, block, plan.seed), path
    timeout = aiohttp.ClientTimeout(total=PRIME_TIMEOUT_S, sock_connect=10.0)
    async with aiohttp.ClientSession(headers=endpoint.headers, timeout=timeout) as session:
        try:
            idle = await flush(session, endpoint)
            await _prime(session, endpoint, todo)
            before = await server_metrics.snapshot(session, endpoint.base_url)
        except (aiohttp.ClientError, TimeoutError, ValueError) as problem:
            raise KiteDashError(f"The engine could not be made ready for a load block: {problem}") from problem
        with machine_use.metering(endpoint.pid, endpoint.device_ids) as meter:
            seconds = timeline.Recorder(meter)
            async with server_metrics.polling(
                session, endpoint.base_url, interval_s=POLL_INTERVAL_S, watch=seconds.take
            ) as maxima:
                result = await _run_client(endpoint, plan, path, spawn, work_dir)
        records = _with_expectations(result["records"], todo)
        finished = sum(not record["error"] for record in records)
        deltas, trouble = await _deltas(session, endpoint, before, finished)
    block_size = endpoint.block_size or before.block_size or 1
    expected = [
        expected_cached_tokens(
            prefix_caching=endpoint.prefix_caching,
            shared_tokens=request.shared_tokens,
            block_size=block_size,
            tokens_in=request.tokens_in,
        )
        for request in todo.requests
    ]
    facts = BlockFacts(
        **_arrays(records),
        errors=tuple(record["error"] for record in records),
        duration_s=plan.block_duration_s,
        warm_up_s=plan.warm_up_s,
        cached_tokens_expected=_of_answered(records, expected),
        cached_tokens_least=_least_cached(records, todo, expected, block_size, before.kv_cache_tokens),
        dispersion=todo.dispersion,
        client_cpu_share=result["cpu_share"],
        engine_queue_and_prefill_s=deltas["queue_s"] + deltas["prefill_s"] if "prefill_s" in deltas else None,
        engine_finished=deltas.get("finished"),
        in_system_before=idle,
        engine_answers=not trouble,
        kv_cache_full=maxima.values.get("kv_cache_share", 0.0) >= FULL_KV_CACHE or deltas.get("preemptions", 0.0) > 0,
    )
    checks = check_block(facts)
    status, reason = status_of(checks, overload_reason(facts))
    return BlockResult(
        rate_per_s=rate_per_s,
        block=block,
        seed=plan.seed,
        status=status,
        reason=reason,
        checks=checks,
        n_requests=len(records),
        n_failed=sum(bool(record["error"]) for record in records),
        duration_s=plan.block_duration_s,
        schedule_sha256=todo.sha256,
        requests_blob=request_table.encode(records),
        timeline_blob=timeline.encode(seconds.samples, started=result["start_monotonic_s"], before=before.values),
        server_counters={
            **deltas,
            **{f"{name}_max": value for name, value in maxima.values.items()},
            "polls": float(maxima.polls),
            "block_size": float(block_size),
            "client_cpu_s": result["cpu_s"],
            "client_wall_s": result["wall_s"],
            "client_processes": float(result["processes"]),
            "arrivals_dispersion": todo.dispersion,
        },
    )


async def flush(session: aiohttp.ClientSession, endpoint: Endpoint) -> float:
    """Waits until the engine is idle, empties its prefix cache; returns how many requests it could not wait for."""
    deadline = asyncio.get_running_loop().time() + IDLE_TIMEOUT_S
    while True:
        gauges = server_metrics.parse_gauges(await server_metrics.fetch_text(session, endpoint.base_url))
        in_system = gauges.get("running", 0.0) + gauges.get("waiting", 0.0)
        if not in_system:
            async with session.post(f"{endpoint.base_url}/reset_prefix_cache") as response:
                response.raise_for_status()
                # An engine that says nothing is taken at its word; the cached-token check finds out.
                content = await response.read()
                if not content or json.loads(content).get("success", True):
                    return 0.0
        if asyncio.get_running_loop().time() > deadline:
            return max(in_system, 1.0)
        await asyncio.sleep(0.1)


async def _prime(session: aiohttp.ClientSession, endpoint: Endpoint, todo: traffic.Traffic) -> None:
    """One request with each shared prefix, so that the first measured one finds what all others find."""
    kinds = {request.prefix: request.kind for request in todo.requests}
    for name, prefix in todo.prefixes.items():
        kind = kinds.get(name, "chat")
        body: dict[str, Any] = {"model": endpoint.model, "temperature": 0}
        if kind == "chat":
            body |= {"messages": traffic.messages_of(prefix, traffic.PRIME_QUESTION), "max_completion_tokens": 1}
        else:
            body |= {"prompt": prefix + traffic.PRIME_QUESTION, "max_tokens": 1}
        async with session.post(f"{endpoint.base_url}{load_client.ENDPOINTS[kind]}", json=body) as response:
            response.raise_for_status()
            await response.read()


async def _run_client(
    endpoint: Endpoint, plan: LoadPlan, path: Path, spawn: Spawn, work_dir: Path
) -> Mapping[str, Any]:
    stem = path.stem
    plan_path, out, log_path = (work_dir / f"{stem}.{ending}" for ending in ("plan.json", "out.json", "client.log"))
    order = {
        "base_url": endpoint.base_url,
        "model": endpoint.model,
        "traffic": str(path),
        "request_timeout_s": plan.request_timeout_s,
        "processes": plan.client_processes,
    }
    await asyncio.to_thread(plan_path.write_text, json.dumps(order))
    await asyncio.to_thread(out.unlink, missing_ok=True)
    argv = [sys.executable, "-m", "kitedash.measuring.load_client", str(plan_path), str(out)]
    environment = clean_environment() | {"PYTHONPATH": str(PROJECT_ROOT), load_client.KEY_VARIABLE: endpoint.api_key}
    process = await spawn(argv, env=environment, log_path=log_path)
    try:
        status = await process.wait()
    finally:
        await process.stop()
    if status or not await asyncio.to_thread(out.is_file):
        log = await asyncio.to_thread(_last_line, log_path)
        raise KiteDashError(f"The load client ended with status {status}: {log or 'it left no message'}")
    result: Mapping[str, Any] = json.loads(await asyncio.to_thread(out.read_text))
    return result


def _last_line(path: Path) -> str:
    lines = path.read_text(errors="replace").strip().splitlines() if path.is_file() else []
    return lines[-1] if lines else ""


def _with_expectations(records: list[dict[str, Any]], todo: traffic.Traffic) -> list[dict[str, Any]]:
    return [
        {
            **record,
            "tokens_in_expected": request.tokens_in,
            "tokens_out_expected": request.tokens_out,
            "kind": request.prefix.partition("/")[0],  # behind it is which of a trace's prefixes
            "session": request.session,
            "turn": None if request.session is None else request.turn,
            "planned_s": request.due_s,
            "tokens_shared": request.shared_tokens,
        }
        for record, request in zip(records, todo.requests, strict=True)
    ]


async def _deltas(
    session: aiohttp.ClientSession, endpoint: Endpoint, before: server_metrics.Snapshot, finished: int
) -> tuple[dict[str, float], bool]:
    """(counter deltas, the engine could not be read): the engine books a request a moment after its last byte."""
    deadline = asyncio.get_running_loop().time() + SETTLE_TIMEOUT_S
    while True:
        try:
            deltas = (await server_metrics.snapshot(session, endpoint.base_url)).since(before)
        except (aiohttp.ClientError, TimeoutError, ValueError):
            return {}, True
        if deltas.get("finished", finished) >= finished or asyncio.get_running_loop().time() > deadline:
            return deltas, False
        await asyncio.sleep(0.1)


def _of_answered(records: Sequence[Mapping[str, Any]], values: Sequence[float]) -> float:
    """Mean over the requests that were answered, as what is compared with it; over all where none was."""
    answered = [value for record, value in zip(records, values, strict=True) if not record["error"]]
    return fmean(answered or values or [0.0])


def _least_cached(
    records: list[dict[str, Any]],
    todo: traffic.Traffic,
    expected: Sequence[float],
    block_size: int,
    kv_cache_tokens: int | None,
) -> float:
    """As `cached_tokens_expected`, where what the KV cache had no room to keep counts as gone."""
    if kv_cache_tokens is None:
        return _of_answered(records, expected)
    uses = [
        Use(
            sent_s=record["due_s"] if record["sent_s"] is None else record["sent_s"],
            ended_s=math.inf if record["ended_s"] is None else record["ended_s"],
            prefix=request.prefix,
            session=request.session,
            turn=request.turn,
            shared_tokens=request.shared_tokens,
            tokens=request.tokens_in + request.tokens_out,
        )
        for record, request in zip(records, todo.requests, strict=True)
    ]
    gone = may_be_gone(uses, room_tokens=kv_cache_tokens, block_size=block_size)
    return _of_answered(records, [0 if lost else value for lost, value in zip(gone, expected, strict=True)])


_ARRAYS = {
    "due_s": "due_s",
    "sent_s": "sent_s",
    "first_token_s": "first_token_s",
    "ended_s": "ended_s",
    "tokens_in": "tokens_in",
    "tokens_cached": "tokens_cached",
    "tokens_in_expected": "tokens_in_expected",
    "queue_ms": "queue_time_ms",
    "engine_ttft_ms": "engine_ttft_ms",
}


def _arrays(records: list[dict[str, Any]]) -> dict[str, Any]:
    arrays: dict[str, Any] = {
        name: np.array([np.nan if record[key] is None else record[key] for record in records], dtype=np.float64)
        for name, key in _ARRAYS.items()
    }
    arrays["timed_out"] = np.array([record["timed_out"] for record in records], dtype=bool)
    return arrays
