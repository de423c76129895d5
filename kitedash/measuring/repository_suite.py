"""Asks the items of a repository suite over the chat endpoint and scores the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import aiohttp

from evals.admission import item_score
from evals.format import Item
from kitedash.domain.errors import EngineFailed
from kitedash.domain.results import Answer
from kitedash.measuring.endpoint import Endpoint

CONCURRENCY: Final = 8  # one number for all candidates: how requests are batched can change a greedy answer
SEED: Final = 1
TIMEOUT_S: Final = 300.0  # fp8 without native kernels needs a second or more a token
ATTEMPTS: Final = 2
_PAUSE_S: Final = 1.0


async def ask(endpoint: Endpoint, items: Sequence[Item], *, progress: Callable[[int, int], None]) -> tuple[Answer, ...]:
    """One answer an item, in the items' order. An item whose request fails twice gets an answer that says why and
    does not pass. Raises EngineFailed once the engine itself no longer answers."""
    limit = asyncio.Semaphore(CONCURRENCY)
    done = 0
    connector = aiohttp.TCPConnector(limit=CONCURRENCY)
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, headers=endpoint.headers) as session:

        async def one(item: Item) -> Answer:
            nonlocal done
            async with limit:
                answer = await _answer(session, endpoint, item)
            done += 1
            progress(done, len(items))
            return answer

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(item)) for item in items]
        except* EngineFailed as failures:
            raise failures.exceptions[0] from None
    return tuple(task.result() for task in tasks)


async def _answer(session: aiohttp.ClientSession, endpoint: Endpoint, item: Item) -> Answer:
    error = ""
    for attempt in range(ATTEMPTS):
        if attempt:
            await asyncio.sleep(_PAUSE_S)
        try:
            async with session.post(f"{endpoint.base_url}/v1/chat/completions", json=request(endpoint, item)) as reply:
                if reply.status == 200:
                    return scored(item, await reply.json())
                error = f"HTTP {reply.status}: {_reason(await reply.text())}"
                if reply.status < 500:
                    break  # the engine understood and refused: asking again changes nothing
        except TimeoutError:
            error = f"no answer within {TIMEOUT_S:.0f} s"
        except (aiohttp.ClientError, ValueError) as problem:
            error = f"{type(problem).__name__}: {problem}"
        if not await _healthy(session, endpoint):
            raise EngineFailed(f"The engine stopped answering while it was asked {item.id} ({error}).")
    return _unanswered(item, error)


def request(endpoint: Endpoint, item: Item) -> dict[str, Any]:
    """The body of the request. A last message of the assistant is continued, not answered."""
    continued = item.messages[-1].role == "assistant"
    return {
        "model": endpoint.model,
        "messages": [message.model_dump() for message in item.messages],
        "add_generation_prompt": not continued,
        "continue_final_message": continued,
        "max_completion_tokens": item.max_tokens,
        "stop": list(item.stop),
        "temperature": 0,
        "seed": SEED,
    }


def scored(item: Item, body: Any) -> Answer:
    """The answer in a reply. It passes only if it scores 1 and came to its end: one cut off at `max_tokens` (finish
    reason "length") might have gone on to say something else."""
    try:
        choice = body["choices"][0]
        text = choice["message"]["content"] or ""
        finish_reason = str(choice["finish_reason"])
    except (KeyError, IndexError, TypeError):
        return _unanswered(item, "the reply holds no answer")
    score = item_score(item, text)
    return Answer(
        item_id=item.id,
        cluster=item.cluster,
        kind=item.kind,
        text=text,
        finish_reason=finish_reason,
        score=score,
        passed=score == 1.0 and finish_reason == "stop",
        prompt_sha256=item.prompt_sha256,
        reference=item.reference[0],
        tokens_out=(body.get("usage") or {}).get("completion_tokens"),
    )


def _unanswered(item: Item, error: str) -> Answer:
    return Answer(
        item_id=item.id,
        cluster=item.cluster,
        kind=item.kind,
        text="",
        finish_reason="error",
        score=0.0,
        passed=False,
        error=error[:500],
        prompt_sha256=item.prompt_sha256,
        reference=item.reference[0],
    )


async def _healthy(session: aiohttp.ClientSession, endpoint: Endpoint) -> bool:
    try:
        async with session.get(f"{endpoint.base_url}/health", timeout=aiohttp.ClientTimeout(total=30)) as reply:
            return reply.status == 200
    except (TimeoutError, aiohttp.ClientError):
        return False


def _reason(text: str) -> str:
    return " ".join(text.split())[:300]
