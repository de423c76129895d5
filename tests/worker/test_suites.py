"""The suites against an engine that speaks HTTP: every kind of reply, failures, and an engine that goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from transformers import PreTrainedTokenizerFast

from evals import hellaswag_100, registry
from kitedash.domain.errors import EngineFailed, InvalidInput, Refused
from kitedash.domain.results import Answer, SuiteResult
from kitedash.measuring import repository_suite
from kitedash.measuring.endpoint import Endpoint
from kitedash.measuring.process import direct_spawn
from kitedash.measuring.suite_stage import ask_suite
from tests.worker.tiny_model import make_model

ITEMS = registry.repository_items("kitedash_repo")
ROWS = hellaswag_100.rows()
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def reply(text: str | None, finish_reason: str = "stop") -> web.Response:
    message = {"role": "assistant", "content": text}
    return web.json_response(
        {
            "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
            "usage": {"completion_tokens": 3},
        }
    )


@asynccontextmanager
async def engine(chat: Handler, health: int = 200) -> Any:
    app = web.Application()

    async def healthy(request: web.Request) -> web.Response:
        return web.Response(status=health)

    app.router.add_post("/v1/chat/completions", chat)
    app.router.add_get("/health", healthy)
    async with TestServer(app, host="127.0.0.1") as server:
        yield server, Endpoint(f"http://127.0.0.1:{server.port}", "key", "m", Path("/none"), 1024, True, 16)


async def ask(endpoint: Endpoint, n: int, told: list[tuple[int, int]] | None = None) -> tuple[Answer, ...]:
    seen = told if told is not None else []
    return await repository_suite.ask(endpoint, ITEMS[:n], progress=lambda done, total: seen.append((done, total)))


async def test_answers_are_scored_and_stored_as_they_came() -> None:
    bodies: list[dict[str, Any]] = []

    async def chat(request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == "Bearer key"
        bodies.append(await request.json())
        return reply(by_prompt[bodies[-1]["messages"][0]["content"]])

    by_prompt = {item.messages[0].content: item.reference[0] for item in ITEMS}
    by_prompt[ITEMS[3].messages[0].content] = "something else"
    told: list[tuple[int, int]] = []
    async with engine(chat) as (_, endpoint):
        answers = await ask(endpoint, len(ITEMS), told)
    assert [answer.item_id for answer in answers] == [item.id for item in ITEMS]
    assert [answer.passed for answer in answers].count(False) == 1
    assert (answers[3].passed, answers[3].text, answers[3].tokens_out) == (False, "something else", 3)
    assert sorted(told) == [(done, len(ITEMS)) for done in range(1, len(ITEMS) + 1)]
    assert all(body["temperature"] == 0 and body["seed"] == 1 and body["stop"] == ["`", "\n"] for body in bodies)
    assert all(body["continue_final_message"] and not body["add_generation_prompt"] for body in bodies)


async def test_cut_off_empty_and_malformed_answers_do_not_pass() -> None:
    async def chat(request: web.Request) -> web.Response:
        content = (await request.json())["messages"][0]["content"]
        number = next(i for i, item in enumerate(ITEMS) if item.messages[0].content == content)
        right = ITEMS[number].reference[0]
        return [
            reply(right, "length"),
            reply(""),
            reply(None),
            web.json_response({"choices": []}),
            web.json_response({"error": {"message": "too long"}}, status=400),
            reply(right),
        ][number]

    async with engine(chat) as (_, endpoint):
        answers = await ask(endpoint, 6)
    assert [answer.passed for answer in answers] == [False] * 5 + [True]
    assert (answers[0].score, answers[0].finish_reason) == (1.0, "length")
    assert [bool(answer.error) for answer in answers] == [False, False, False, True, True, False]
    assert "HTTP 400" in answers[4].error
    assert "too long" in answers[4].error


async def test_a_passing_trouble_is_tried_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repository_suite, "_PAUSE_S", 0.01)
    tries: dict[str, int] = {}

    async def chat(request: web.Request) -> web.Response:
        content = (await request.json())["messages"][0]["content"]
        tries[content] = tries.get(content, 0) + 1
        if tries[content] == 1:
            return web.Response(status=500, text="busy")
        return reply("x")

    async with engine(chat) as (_, endpoint):
        answers = await ask(endpoint, 4)
    assert not any(answer.error for answer in answers)
    assert set(tries.values()) == {2}


async def test_an_item_that_keeps_failing_is_a_failed_answer_not_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repository_suite, "_PAUSE_S", 0.01)

    async def chat(request: web.Request) -> web.Response:
        return web.Response(status=500, text="always")

    async with engine(chat) as (_, endpoint):
        answers = await ask(endpoint, 3)
    assert [(answer.passed, answer.finish_reason) for answer in answers] == [(False, "error")] * 3
    assert all("always" in answer.error for answer in answers)


async def test_an_engine_that_is_gone_ends_the_suite_with_one_sentence() -> None:
    served = 0

    async def chat(request: web.Request) -> web.Response:
        nonlocal served
        served += 1
        if served == 5:
            assert request.transport is not None
            request.transport.abort()
        return reply("x")

    async with engine(chat, health=503) as (_, endpoint):
        with pytest.raises(EngineFailed, match="stopped answering while it was asked"):
            await ask(endpoint, 30)
    with pytest.raises(EngineFailed, match="stopped answering"):
        await ask(endpoint, 30)  # nothing listens any more


async def test_no_more_requests_at_once_than_all_candidates_get() -> None:
    now = most = 0

    async def chat(request: web.Request) -> web.Response:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.02)
        now -= 1
        return reply("x")

    async with engine(chat) as (_, endpoint):
        await ask(endpoint, 40)
    assert most == repository_suite.CONCURRENCY


async def test_a_context_too_small_and_an_unknown_suite_are_refused(tmp_path: Path) -> None:
    endpoint = Endpoint("http://127.0.0.1:9", "key", "m", tmp_path, 64, True, 16)

    async def asked(name: str) -> None:
        await ask_suite(endpoint, name, spawn=direct_spawn, work_dir=tmp_path, progress=lambda done, total: None)

    with pytest.raises(Refused, match="max-model-len is 64"):
        await asked("kitedash_repo")
    with pytest.raises(InvalidInput, match="no suite"):
        await asked("gsm8k")


@asynccontextmanager
async def scoring(model: Path, log_probability: Callable[[int, int], float | None], fail_from: int = 10**9) -> Any:
    """An engine that scores prompts: the log-probability of a token by the one before it. It counts its requests, and
    answers 500 from the request `fail_from` on."""
    seen: list[int] = []

    async def completions(request: web.Request) -> web.Response:
        body = await request.json()
        assert (body["max_tokens"], body["echo"], request.headers["Authorization"]) == (1, True, "Bearer key")
        seen.append(len(seen))
        if len(seen) > fail_from:
            return web.Response(status=500, text="out of order")
        choices = []
        for index, prompt in enumerate(body["prompt"]):
            tokens = [*prompt, 0]
            values = [None, *(log_probability(before, token) for before, token in pairwise(tokens))]
            top = [None if value is None else {"x": value} for value in values]
            choices.append({"index": index, "logprobs": {"token_logprobs": values, "top_logprobs": top}})
        return web.json_response({"choices": choices})

    app = web.Application()
    app.router.add_post("/v1/completions", completions)
    async with TestServer(app, host="127.0.0.1") as server:
        yield Endpoint(f"http://127.0.0.1:{server.port}", "key", "m", model, 2048, True, 16), seen


async def score(endpoint: Endpoint, work_dir: Path, told: list[tuple[int, int]] | None = None) -> SuiteResult:
    seen = told if told is not None else []
    return await ask_suite(
        endpoint,
        "hellaswag_100",
        spawn=direct_spawn,
        work_dir=work_dir,
        progress=lambda done, total: seen.append((done, total)),
    )


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("tiny"))


async def test_lm_eval_scores_what_this_engine_says_and_remembers_no_other(tiny_model: Path, tmp_path: Path) -> None:
    """Two engines after each other in one work folder: each gets the answers of its own log-probabilities, worked out
    here from the tokens."""

    def odd(before: int, token: int) -> float:
        return -1.0 - (7 * before + 3 * token) % 5

    def even(before: int, token: int) -> float:
        return -1.0 - (11 * before + 5 * token) % 7

    tokenizer = PreTrainedTokenizerFast.from_pretrained(tiny_model)

    def expected(row: hellaswag_100.Row, log_probability: Callable[[int, int], float]) -> bool:
        values = []
        for choice in row.choices:
            context, whole = (tokenizer(text).input_ids for text in (row.query, f"{row.query} {choice}"))
            total = sum(log_probability(*pair) for pair in list(pairwise(whole))[len(context) - 1 :])
            values.append(total / len(choice))
        return values.index(max(values)) == row.gold

    for log_probability in (odd, even):
        told: list[tuple[int, int]] = []
        async with scoring(tiny_model, log_probability) as (endpoint, requests):
            result = await score(endpoint, tmp_path, told)
        assert [answer.passed for answer in result.answers] == [expected(row, log_probability) for row in ROWS]
        assert len(requests) == 401  # one ahead, to see whether the engine can do it
        assert (result.role, result.chance, told[0]) == ("public", 0.25, (0, 100))
        assert len({answer.prompt_sha256 for answer in result.answers}) == 100


async def test_lm_eval_gives_one_sentence_and_no_score_where_it_cannot(tiny_model: Path, tmp_path: Path) -> None:
    async with scoring(tiny_model, lambda before, token: None) as (endpoint, requests):
        with pytest.raises(Refused, match="missing, infinite or above 0"):
            await score(endpoint, tmp_path)
    assert len(requests) == 1
    with pytest.raises(EngineFailed, match="the engine stopped answering"):
        await score(endpoint, tmp_path)
    async with scoring(tiny_model, lambda before, token: -1.0, fail_from=200) as (endpoint, requests):
        with pytest.raises(EngineFailed, match=r"a request failed 3 times \(HTTP 500") as caught:
            await score(endpoint, tmp_path)
    assert "\n" not in str(caught.value)
