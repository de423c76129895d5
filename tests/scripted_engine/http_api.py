"""The routes. Streams carry a role-only chunk first in chat, one chunk a token, a usage chunk with `metrics`."""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from aiohttp import web

from kitedash.measuring.alarm import Alarm
from tests.scripted_engine.answers import Reply, log_probability, prompt_log_probabilities, reply_to
from tests.scripted_engine.counters import Counters
from tests.scripted_engine.script import Script, load_answers
from tests.scripted_engine.timeline import PrefixCache, Slots, Times
from tests.scripted_engine.tokens import Tokens

Body = dict[str, Any]


class Engine:
    def __init__(self, script: Script, given: Mapping[str, str]) -> None:
        self.script, self.given = script, given
        self.slots, self.cache, self.counters = Slots(script), PrefixCache(script), Counters()
        self.tokens, self.answers = Tokens(script), load_answers(script)
        self._keys = itertools.count(1)
        self._alarm: Alarm | None = None
        self.generations = 0

    async def punctual(self, app: web.Application) -> AsyncIterator[None]:
        """Keeps, while the engine runs, what lets it be exact; asyncio's timers go by milliseconds."""
        self._alarm = Alarm(asyncio.get_running_loop())
        yield
        self._alarm.stop()

    async def _exactly(self, moment: float) -> None:
        assert self._alarm is not None
        if moment > time.monotonic():
            rang = asyncio.Event()
            self._alarm.at(moment, rang.set)
            await rang.wait()

    # -- plain routes -------------------------------------------------------------------------------------------

    async def health(self, request: web.Request) -> web.Response:
        return web.Response()

    async def models(self, request: web.Request) -> web.Response:
        card = {"id": self.script.served_name, "object": "model", "max_model_len": self.script.max_model_len}
        return web.json_response({"object": "list", "data": [card]})

    async def version(self, request: web.Request) -> web.Response:
        return web.json_response({"version": "0.32.0"})

    async def metrics(self, request: web.Request) -> web.Response:
        return web.Response(text=self.counters.text(self.script, time.monotonic()), content_type="text/plain")

    async def reset_prefix_cache(self, request: web.Request) -> web.Response:
        self.cache.reset()
        return web.json_response({"success": True})

    async def server_info(self, request: web.Request) -> web.Response:
        limits = {"max_num_seqs": self.script.max_num_seqs, "max_num_batched_tokens": 2_048}
        return web.json_response({"vllm_config": {"arguments": dict(self.given), "scheduler_config": limits}})

    # -- generation ---------------------------------------------------------------------------------------------

    async def chat(self, request: web.Request) -> web.StreamResponse:
        began = time.monotonic()
        body: Body = await request.json()
        question = body["messages"][-1]["content"]
        tokens = self.tokens.of_messages(body["messages"])
        return await self._generate(request, body, tokens, question, began, chat=True)

    async def completions(self, request: web.Request) -> web.StreamResponse:
        began = time.monotonic()
        body: Body = await request.json()
        prompt = body["prompt"]
        many = isinstance(prompt, list) and bool(prompt) and not isinstance(prompt[0], int)
        prompts = prompt if many else [prompt]
        if body.get("echo"):
            return self._echo(body, prompts)
        tokens = self.tokens.of_prompt(prompts[0])
        question = prompts[0] if isinstance(prompts[0], str) else ""
        return await self._generate(request, body, tokens, question, began, chat=False)

    def _echo(self, body: Body, prompts: Sequence[Any]) -> web.Response:
        choices, tokens_in = [], 0
        for index, prompt in enumerate(prompts):
            tokens = self.tokens.of_prompt(prompt)
            tokens_in += len(tokens)
            if int(body.get("max_tokens", 1)):
                tokens = [*tokens, 0]
            names = [self.tokens.text_of(token) for token in tokens]
            logprobs = prompt_log_probabilities(tokens, names) if body.get("logprobs") is not None else None
            choices.append({"index": index, "text": "".join(names), "logprobs": logprobs, "finish_reason": "length"})
        usage = {"prompt_tokens": tokens_in, "completion_tokens": len(choices), "total_tokens": tokens_in}
        return web.json_response({"id": "cmpl-0", "object": "text_completion", "choices": choices, "usage": usage})

    async def _generate(
        self, request: web.Request, body: Body, tokens: list[Any], question: str, began: float, *, chat: bool
    ) -> web.StreamResponse:
        # `began` is when the request came: reading and counting it takes time that is no part of the script.
        script = self.script
        self.generations += 1
        number = self.generations
        if script.die_after and number >= script.die_after:
            os.kill(os.getpid(), signal.SIGKILL)
        if script.fail_every and number % script.fail_every == 0:
            return _error(script.fail_status, "scripted failure")
        reply = reply_to(body, question, self.answers, script.answer)
        if len(tokens) + max(1, len(reply.pieces)) > script.max_model_len:
            return _error(400, f"This model's maximum context length is {script.max_model_len} tokens.")
        if script.empty_every and number % script.empty_every == 0:
            reply = Reply((), "stop")
        if script.front_end_ms:
            await _until(began + script.front_end_ms / 1e3)
        arrived = began + script.front_end_ms / 1e3
        cached = self.cache.look_up(tokens)
        times = self.slots.take(arrived, len(tokens), len(reply.pieces), len(tokens) - cached)
        key = next(self._keys)
        self.counters.enter(key, times, len(tokens), cached, script.enable_prefix_caching)
        if script.die_at_tokens and self.counters.tokens_in_system(script.block_size) >= script.die_at_tokens:
            _run_out_of_memory()
        finished = False
        try:
            usage = _usage(len(tokens), cached, len(reply.pieces))
            if body.get("stream"):
                stall = bool(script.stall_every) and number % script.stall_every == 0
                response = await self._stream(request, body, key, times, reply, usage, chat=chat, stall=stall)
            else:
                await _until(times.last_token)
                response = web.json_response(self._whole(body, key, times, reply, usage, chat=chat))
            finished = True
            return response
        finally:
            self.counters.leave(key, finished=finished, tokens_out=len(reply.pieces) if finished else 0)

    async def _stream(
        self,
        request: web.Request,
        body: Body,
        key: int,
        times: Times,
        reply: Reply,
        usage: Body,
        *,
        chat: bool,
        stall: bool,
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        head = {
            "id": f"{'chatcmpl' if chat else 'cmpl'}-{key}",
            "object": "chat.completion.chunk" if chat else "text_completion",
            "created": int(time.time()),
            "model": self.script.served_name,
        }
        start = b"data: " + _compact(head)[:-1] + b","  # an event is this and what differs, without its own brace
        role = start + _ROLE_CHUNK if chat else b""
        if self.script.role_chunk_early_ms:
            await _until(times.first_token - self.script.role_chunk_early_ms / 1e3)
            await response.prepare(request)
            if role:
                await response.write(role)
            role = b""
        ready = role  # goes out with the next token: fewer writes leave the engine more punctual
        last = len(reply.pieces) - 1
        for index, piece in enumerate(reply.pieces):
            if stall and index == self.script.stall_after_tokens:
                await _until(times.first_token)
                await response.prepare(request)
                if ready:
                    await response.write(ready)
                await asyncio.sleep(3_600)
            # TTFT and TPOT are made of the first and the last token; the others need not be exact.
            await (self._exactly if index in (0, last) else _until)(times.token(index))
            if not response.prepared:
                await response.prepare(request)
            ready += start + _token_chunk(piece, reply.finish_reason if index == last else None, chat)
            if index < last:
                await response.write(ready)
                ready = b""
        if not reply.pieces:
            await _until(times.first_token)
            await response.prepare(request)
            ready += start + _token_chunk("", reply.finish_reason, chat)
        if (body.get("stream_options") or {}).get("include_usage"):
            rest = {"choices": [], "usage": usage, "metrics": _metrics(times, len(reply.pieces))}
            ready += start + _compact(rest)[1:] + b"\n\n"
        await response.write(ready + b"data: [DONE]\n\n")
        await response.write_eof()
        return response

    def _whole(self, body: Body, key: int, times: Times, reply: Reply, usage: Body, *, chat: bool) -> Body:
        text = "".join(reply.pieces)
        choice: Body = {"index": 0, "finish_reason": reply.finish_reason}
        if chat:
            choice["message"] = {"role": "assistant", "content": text}
        else:
            choice["text"] = text
        if body.get("logprobs"):
            values = [log_probability(index, piece) for index, piece in enumerate(reply.pieces)]
            choice["logprobs"] = {"tokens": list(reply.pieces), "token_logprobs": values}
        return {
            "id": f"{'chatcmpl' if chat else 'cmpl'}-{key}",
            "object": "chat.completion" if chat else "text_completion",
            "created": int(time.time()),
            "model": self.script.served_name,
            "choices": [choice],
            "usage": usage,
            "metrics": _metrics(times, len(reply.pieces)),
        }


def _chunk(text: str, reason: str | None, *, chat: bool) -> Body:
    content: Body = {"delta": {"content": text}} if chat else {"text": text}
    return {"index": 0, "finish_reason": reason, "logprobs": None, **content}


def _compact(content: Body) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


_ROLE_CHUNK = b'"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n'


@functools.lru_cache(maxsize=1_000)
def _token_chunk(piece: str, reason: str | None, chat: bool) -> bytes:
    """What a token's event says behind its head; the same few words come again and again."""
    return _compact({"choices": [_chunk(piece, reason, chat=chat)]})[1:] + b"\n\n"


def _usage(tokens_in: int, cached: int, tokens_out: int) -> Body:
    return {
        "prompt_tokens": tokens_in,
        "completion_tokens": tokens_out,
        "total_tokens": tokens_in + tokens_out,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def _metrics(times: Times, tokens_out: int) -> Body:
    decode_ms = times.decode_s * 1e3
    return {
        "queue_time_ms": times.queue_s * 1e3,
        "time_to_first_token_ms": times.prefill_s * 1e3,
        "generation_time_ms": decode_ms,
        "mean_itl_ms": decode_ms / (tokens_out - 1) if tokens_out > 1 else None,
    }


def _error(status: int, sentence: str) -> web.Response:
    kind = "BadRequestError" if status < 500 else "InternalServerError"
    return web.json_response({"error": {"message": sentence, "type": kind, "code": status}}, status=status)


def _run_out_of_memory() -> None:
    """As vLLM ends when an allocation fails: the reason in its log, and no answer to anybody."""
    sentence = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB."
    print(f"(EngineCore pid=2) ERROR 01-01 00:00:00 [core.py:1] {sentence}", flush=True)
    os._exit(1)


async def _until(moment: float) -> None:
    left = moment - time.monotonic()
    if left > 0:
        await asyncio.sleep(left)


@web.middleware
async def _needs_key(request: web.Request, handler: Any) -> web.StreamResponse:
    key = request.app[KEY]
    if key and request.path.startswith("/v1") and request.headers.get("Authorization") != f"Bearer {key}":
        return web.json_response({"error": "Unauthorized"}, status=401)
    response: web.StreamResponse = await handler(request)
    return response


KEY = web.AppKey("key", str)


def application(script: Script, given: Mapping[str, str] | None = None) -> web.Application:
    engine = Engine(script, given or {})
    app = web.Application(middlewares=[_needs_key], client_max_size=64 * 2**20)
    app[KEY] = script.api_key
    app.cleanup_ctx.append(engine.punctual)
    app.router.add_get("/health", engine.health)
    app.router.add_get("/version", engine.version)
    app.router.add_get("/metrics", engine.metrics)
    app.router.add_get("/server_info", engine.server_info)
    app.router.add_post("/reset_prefix_cache", engine.reset_prefix_cache)
    app.router.add_get("/v1/models", engine.models)
    app.router.add_post("/v1/chat/completions", engine.chat)
    app.router.add_post("/v1/completions", engine.completions)
    return app
