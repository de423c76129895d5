"""The open-loop load client: sends each request when it is due, whatever became of the others.

`python -m kitedash.measuring.load_client PLAN OUT` with the key in KITEDASH_ENGINE_KEY. PLAN is JSON: base_url, model,
traffic (the file), request_timeout_s. OUT becomes one JSON object: moments in s from the block's start on one
monotonic clock, one record a request, the client's CPU use. Its own process, so that no work of the worker delays it.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
import uvloop

from kitedash.measuring.event_stream import Answer, EventStream
from kitedash.measuring.traffic import Request, Traffic, read

KEY_VARIABLE = "KITEDASH_ENGINE_KEY"
START_DELAY_S = 0.25  # all tasks exist before the first request is due
KEEP_ALIVE_S = 2.0  # below vLLM's 5 s: a request on a connection that the server just closed would fail for nothing
ENDPOINTS = {"chat": "/v1/chat/completions", "completion": "/v1/completions"}


class Client:
    def __init__(self, session: aiohttp.ClientSession, plan: dict[str, Any], traffic: Traffic) -> None:
        self._session, self._plan, self._traffic = session, plan, traffic
        self._bodies = [_body(plan["model"], traffic, request) for request in traffic.requests]
        self._start = 0.0

    async def run(self) -> list[dict[str, Any]]:
        self._start = time.perf_counter() + START_DELAY_S
        return list(await asyncio.gather(*(self._one(request) for request in self._traffic.requests)))

    async def _one(self, request: Request) -> dict[str, Any]:
        """One request from its due time to its end; never raises for what the server does."""
        due = self._start + request.due_s
        while (left := due - time.perf_counter()) > 0:  # noqa: ASYNC110 - uvloop's timers may wake up to 1 ms early
            await asyncio.sleep(left)
        answer, stream = Answer(), EventStream()
        sent: float | None = time.perf_counter()
        first_byte: float | None = None
        status, error, timed_out = 0, "", False
        try:
            # The cap counts from the due time, so a late client gives its server no more time than an early one.
            async with asyncio.timeout(max(0.0, due + self._plan["request_timeout_s"] - time.perf_counter())):
                url = self._plan["base_url"] + ENDPOINTS[request.kind]
                async with self._session.post(url, data=self._bodies[request.index]) as response:
                    status = response.status
                    if status != 200:
                        first_byte = time.perf_counter()
                        error = _message(await response.read())
                    else:
                        async for chunk in response.content.iter_any():
                            moment = time.perf_counter()
                            first_byte = first_byte or moment
                            for data in stream.feed(chunk):
                                answer.take(data, moment)
        except TimeoutError:
            timed_out, error = True, "timed out"
        except aiohttp.ClientConnectorError as problem:
            sent, error = None, f"not sent, {type(problem).__name__}: {problem}"[:300]
        except (aiohttp.ClientError, OSError) as problem:
            error = f"{type(problem).__name__}: {problem}"[:300]
        except (ValueError, AttributeError, TypeError) as problem:
            error = f"unreadable stream: {problem}"[:300]
        ended = time.perf_counter()
        return {
            "index": request.index,
            "due_s": request.due_s,
            "sent_s": self._since(sent),
            "first_byte_s": self._since(first_byte),
            "first_token_s": self._since(answer.first_token),
            "last_token_s": self._since(answer.last_token),
            "ended_s": ended - self._start,
            "tokens_in": answer.tokens_in,
            "tokens_cached": answer.tokens_cached,
            "tokens_out": answer.tokens_out,
            "chunks": answer.chunks,
            "queue_time_ms": answer.metrics.get("queue_time_ms"),
            "engine_ttft_ms": answer.metrics.get("time_to_first_token_ms"),
            "generation_time_ms": answer.metrics.get("generation_time_ms"),
            "finish_reason": answer.finish_reason,
            "http_status": status,
            "timed_out": timed_out,
            "error": error or answer.error or _incomplete(answer, request),
        }

    def _since(self, moment: float | None) -> float | None:
        return None if moment is None else moment - self._start


def _incomplete(answer: Answer, request: Request) -> str:
    """Why an answer without an error is none all the same: its length is fixed, so less is a failure."""
    if not answer.done:
        return "the stream broke off"
    if answer.tokens_out is None:
        return "no usage was reported"
    if answer.first_token is None or answer.tokens_out == 0:
        return "no token came"
    if answer.tokens_out != request.tokens_out:
        return f"{answer.tokens_out} of {request.tokens_out} tokens came"
    return ""


def _message(content: bytes) -> str:
    try:
        error = json.loads(content)["error"]
        text = str(error["message"] if isinstance(error, dict) else error)
    except (ValueError, KeyError, TypeError):
        text = content.decode(errors="replace")
    return text[:300] or "no message"


def _body(model: str, traffic: Traffic, request: Request) -> bytes:
    """Encoded before the block starts. The output length is fixed, so every candidate decodes the same amount."""
    body: dict[str, Any] = {
        "model": model,
        "temperature": 0,
        "ignore_eos": True,
        "min_tokens": request.tokens_out,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.kind == "chat":
        body |= {"messages": traffic.messages(request), "max_completion_tokens": request.tokens_out}
    else:
        body |= {"prompt": traffic.prefixes[request.prefix] + request.question, "max_tokens": request.tokens_out}
    return json.dumps(body).encode()


async def measure(plan: dict[str, Any]) -> dict[str, Any]:
    traffic = await asyncio.to_thread(read, Path(plan["traffic"]))
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {os.environ.get(KEY_VARIABLE, '')}"}
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, headers=headers, timeout=timeout) as session:
        client = Client(session, plan, traffic)
        # A collection in the middle of a block would be lateness; a block's garbage fits into memory.
        gc.collect()
        gc.freeze()
        gc.disable()
        cpu_before, wall_before = _cpu_s(), time.perf_counter()
        records = await client.run()
        cpu_s, wall_s = _cpu_s() - cpu_before, time.perf_counter() - wall_before
        gc.enable()
    return {"records": records, "cpu_s": cpu_s, "wall_s": wall_s, "traffic_sha256": traffic.sha256}


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main(argv: Sequence[str]) -> int:
    plan = json.loads(Path(argv[0]).read_text())
    result = uvloop.run(measure(plan))
    out = Path(argv[1])
    partial = out.with_suffix(".part")
    partial.write_text(json.dumps(result))
    partial.replace(out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
