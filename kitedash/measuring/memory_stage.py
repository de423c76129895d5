"""One step of the memory stage: so many requests at once, nothing shared, and what the engine did with them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from random import Random
from typing import Any

import aiohttp

from kitedash.domain.errors import KiteDashError
from kitedash.domain.experiment import ArgValue, Candidate
from kitedash.domain.memory import GIB, ModelConfig, Room, Split, kv_bytes_per_token
from kitedash.domain.memory_ladder import Ask, MemoryStep, Seen, conclude
from kitedash.domain.results import ServerFacts
from kitedash.measuring import server_metrics
from kitedash.measuring.endpoint import Endpoint
from kitedash.measuring.load_client import ENDPOINTS
from kitedash.measuring.load_stage import flush

STEP_TIMEOUT_S = 600.0
POLL_INTERVAL_S = 0.05
SETTLE_S = 0.2  # the engine books a request a moment after its last byte
ASK_TIMEOUT_S = 30.0
SMALLEST_STEP_TOKENS = 2_048  # vLLM's smallest default of max-num-batched-tokens
SMALLEST_VOCABULARY = 1_000
_TIMED_OUT = "timed out"


async def read_room(endpoint: Endpoint, candidate: Candidate, facts: ServerFacts, config: ModelConfig) -> Room:
    """What the engine has room for, as predicted from the model's config and as the engine says itself. What it does
    not say is taken from the candidate's arguments, or stays unknown."""
    arguments = {name.replace("_", "-"): value for name, value in candidate.engine_args.items()}
    scheduler = await _scheduler(endpoint)

    def whole(name: str, default: int) -> int:
        value = arguments.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else default

    split = Split(*(whole(f"{kind}-parallel-size", 1) for kind in ("tensor", "pipeline", "data")))
    predicted = kv_bytes_per_token(
        config,
        dtype=str(arguments.get("dtype", "auto")),
        kv_cache_dtype=str(arguments.get("kv-cache-dtype", "auto")),
        split=split,
    )
    return Room(
        block_size=endpoint.block_size or 1,
        max_model_len=endpoint.max_model_len,
        batch_limit=scheduler.get("max_num_seqs", endpoint.max_num_seqs),
        step_tokens=scheduler.get("max_num_batched_tokens", whole("max-num-batched-tokens", SMALLEST_STEP_TOKENS)),
        replicas=split.data_parallel,
        bytes_per_token_predicted=predicted.bytes_per_token,
        no_prediction=predicted.reason,
        kv_bytes_reported=_kv_bytes(facts, arguments),
        kv_tokens_reported=facts.kv_cache_tokens,
    )


async def measure_step(endpoint: Endpoint, asked: Ask, room: Room, *, vocabulary: int | None, seed: int) -> MemoryStep:
    """Flushes, sends, watches the engine's gauges, and concludes. Answers have a fixed length.

    Raises KiteDashError where the engine can't be made ready. What goes wrong after that is the step's outcome; whether
    the engine lives afterwards is for the caller to find out.
    """
    bodies = await asyncio.to_thread(_bodies, endpoint.model, asked, vocabulary or SMALLEST_VOCABULARY, seed)
    timeout = aiohttp.ClientTimeout(total=ASK_TIMEOUT_S)
    async with aiohttp.ClientSession(headers=endpoint.headers, timeout=timeout) as watching:
        try:
            if await flush(watching, endpoint):
                raise KiteDashError("The engine was still busy with earlier requests.")
            before = await server_metrics.snapshot(watching, endpoint.base_url)
        except (aiohttp.ClientError, TimeoutError, ValueError) as problem:
            raise KiteDashError(f"The engine could not be made ready for a memory step: {problem}") from problem
        began = time.monotonic()
        async with server_metrics.polling(watching, endpoint.base_url, interval_s=POLL_INTERVAL_S) as maxima:
            answers = await _send(endpoint, bodies, asked.output_tokens)
        wall_s = time.monotonic() - began
        preemptions = await _preemptions(watching, endpoint, before)
    errors = [(status, error) for status, error in answers if error]
    seen = Seen(
        answered=len(answers) - len(errors),
        errors=tuple(error for _, error in errors),
        statuses=tuple(status for status, _ in errors),
        timed_out=any(error == _TIMED_OUT for _, error in errors),
        running_max=maxima.values.get("running"),
        waiting_max=maxima.values.get("waiting"),
        kv_share_max=maxima.values.get("kv_cache_share"),
        preemptions=preemptions,
        wall_s=wall_s,
    )
    return conclude(asked, seen, room)


async def _scheduler(endpoint: Endpoint) -> dict[str, int]:
    """The limits by which the engine schedules; empty where it does not tell."""
    timeout = aiohttp.ClientTimeout(total=ASK_TIMEOUT_S)
    try:
        async with (
            aiohttp.ClientSession(headers=endpoint.headers, timeout=timeout, raise_for_status=True) as session,
            session.get(f"{endpoint.base_url}/server_info", params={"config_format": "json"}) as response,
        ):
            found = (await response.json())["vllm_config"]["scheduler_config"]
    except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError):
        return {}
    wanted = ("max_num_seqs", "max_num_batched_tokens")
    return {name: found[name] for name in wanted if isinstance(found, dict) and isinstance(found.get(name), int)}


def _kv_bytes(facts: ServerFacts, arguments: Mapping[str, ArgValue]) -> float | None:
    """The size of the KV cache on a device: to the byte where the engine names it so, else from its log, which rounds
    to 0.01 GiB. Not known where the number of blocks was forced: the engine then still names what it could have had."""
    if "num-gpu-blocks-override" in arguments:
        return None
    told = str(facts.extra.get("cache_config", {}).get("kv_cache_memory_bytes", ""))
    if told.isdigit():
        return float(told)
    return None if facts.kv_cache_gib is None else facts.kv_cache_gib * GIB


def _bodies(model: str, asked: Ask, vocabulary: int, seed: int) -> list[bytes]:
    """Prompts as token ids, drawn from the middle of the vocabulary, where no special tokens are: exact lengths, and
    nothing that a prefix cache could find. What they say does not matter for what they take."""
    bodies = []
    for number in range(asked.concurrency):
        random = Random(f"{seed}/{asked.prompt_tokens}/{asked.concurrency}/{number}")
        prompt = random.choices(range(vocabulary // 4, 3 * vocabulary // 4), k=asked.prompt_tokens)
        body = {
            "model": model,
            "prompt": prompt,
            "max_tokens": asked.output_tokens,
            "ignore_eos": True,
            "temperature": 0,
        }
        bodies.append(json.dumps(body).encode())
    return bodies


async def _send(endpoint: Endpoint, bodies: list[bytes], output_tokens: int) -> list[tuple[int, str]]:
    """(HTTP status, what went wrong or "") of each request; one that was not answered in time has the status 0."""
    headers = {**endpoint.headers, "Content-Type": "application/json"}
    timeout = aiohttp.ClientTimeout(total=STEP_TIMEOUT_S, sock_connect=ASK_TIMEOUT_S)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(headers=headers, timeout=timeout, connector=connector) as session:

        async def one(body: bytes) -> tuple[int, str]:
            status = 0
            try:
                async with session.post(endpoint.base_url + ENDPOINTS["completion"], data=body) as response:
                    status = response.status
                    return status, _wrong_with(status, await response.read(), output_tokens)
            except TimeoutError:
                return 0, _TIMED_OUT
            except (aiohttp.ClientError, OSError) as problem:
                return status, f"{type(problem).__name__}: {problem}"[:300]

        return list(await asyncio.gather(*(one(body) for body in bodies)))


def _wrong_with(status: int, content: bytes, output_tokens: int) -> str:
    try:
        answer: Any = json.loads(content)
        if status != 200:
            error = answer["error"]
            return str(error["message"] if isinstance(error, dict) else error)[:300]
        came = answer["usage"]["completion_tokens"]
    except (ValueError, KeyError, TypeError):
        return f"status {status}: {content[:200].decode(errors='replace')}"
    return "" if came == output_tokens else f"{came} of {output_tokens} tokens came"


async def _preemptions(
    session: aiohttp.ClientSession, endpoint: Endpoint, before: server_metrics.Snapshot
) -> float | None:
    await asyncio.sleep(SETTLE_S)
    try:
        return (await server_metrics.snapshot(session, endpoint.base_url)).since(before).get("preemptions")
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return None
