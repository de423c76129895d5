"""What a reply must hold to be scored, and how the process's outcome becomes answers or one sentence."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from evals import hellaswag_100
from kitedash.domain.errors import EngineFailed, Refused
from kitedash.domain.results import Answer
from kitedash.measuring import lm_eval_suite
from kitedash.measuring.endpoint import Endpoint
from kitedash.measuring.lm_eval_task import LogProbabilityError, check_log_probabilities


def reply(values: list[Any], index: int = 0) -> dict[str, Any]:
    return {"choices": [{"index": index, "logprobs": {"token_logprobs": values}}]}


def test_a_whole_reply_is_taken() -> None:
    check_log_probabilities(reply([None, -1.5, -0.0, -2.0]), [[5, 6, 7]])


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"choices": []}, "0 results for 1 prompts"),
        ({"choices": [{"index": 0, "logprobs": None}]}, "no log-probabilities"),
        ({"choices": [{"index": 0}]}, "no log-probabilities"),
        (reply([-1.0]), "1 log-probabilities for a prompt of 3"),  # only of what was generated
        (reply([None, -1.0, -2.0]), "3 log-probabilities"),
        (reply([None, -1.0, None, -2.0]), "missing"),
        (reply([None, -1.0, float("-inf"), -2.0]), "infinite"),
        (reply([None, -1.0, 0.5, -2.0]), "above 0"),
        (reply([None, 0.0, 0.0, 0.0]), "all 0"),
    ],
)
def test_a_reply_that_would_be_scored_as_chance_is_refused(body: dict[str, Any], why: str) -> None:
    with pytest.raises(LogProbabilityError, match=why):
        check_log_probabilities(body, [[5, 6, 7]])


class _Finished:
    pid = 1
    returncode: int | None = None
    stopped = False

    def __init__(self, code: int) -> None:
        self.code = code

    async def wait(self) -> int:
        await asyncio.sleep(0.05)
        return self.code

    async def stop(self) -> None:
        self.stopped = True


class _Ends:
    """Stands where the process would: writes what it would have written, and keeps what it was started with."""

    def __init__(self, code: int, outcome: dict[str, Any] | None, log: str = "") -> None:
        self.code, self.outcome, self.log = code, outcome, log
        self.argv: list[str] = []
        self.env: dict[str, str] = {}
        self.job: dict[str, Any] = {}

    async def __call__(self, argv: Sequence[str], *, env: Mapping[str, str], log_path: Path) -> _Finished:
        self.argv, self.env = list(argv), dict(env)
        self._work(Path(argv[-1]), log_path)
        return _Finished(self.code)

    def _work(self, job: Path, log_path: Path) -> None:
        self.job = json.loads(job.read_text())
        self.folder = job.parent
        (job.parent / "progress").write_text("202")
        if self.outcome is not None:
            (job.parent / "outcome.json").write_text(json.dumps(self.outcome))
        log_path.write_text(self.log)


ENDPOINT = Endpoint("http://127.0.0.1:9", "s3cret", "m", Path("/models/m"), 777, True, 16)


async def ask(spawn: _Ends, tmp_path: Path, told: list[tuple[int, int]] | None = None) -> tuple[Answer, ...]:
    seen = told if told is not None else []
    return await lm_eval_suite.ask(
        ENDPOINT, spawn=spawn, work_dir=tmp_path, progress=lambda done, total: seen.append((done, total))
    )


def samples(best: str = "gold") -> list[dict[str, Any]]:
    """As lm-eval hands them over: the best ending per character is the true one, or the next one."""
    found = []
    for row in hellaswag_100.rows():
        chosen = row.gold if best == "gold" else (row.gold + 1) % 4
        values = [-(1.0 if index == chosen else 2.0) * len(choice) for index, choice in enumerate(row.choices)]
        found.append({"id": row.id, "loglikelihoods": values, "acc_norm": float(best == "gold"), "prompt_hash": "h"})
    return found


async def test_samples_become_answers(tmp_path: Path) -> None:
    spawn, told = _Ends(0, {"samples": samples()}), list[tuple[int, int]]()
    answers = await ask(spawn, tmp_path, told)
    assert told == [(50, 100)]  # 202 of 400 endings
    assert len(answers) == 100
    assert all(answer.passed and answer.text == answer.reference for answer in answers)
    assert {answer.finish_reason for answer in answers} == {"loglikelihood"}
    assert [answer.item_id for answer in answers] == [row.id for row in hellaswag_100.rows()]
    wrong = await ask(_Ends(0, {"samples": samples("other")}), tmp_path)
    assert not any(answer.passed for answer in wrong)
    assert all(answer.text != answer.reference for answer in wrong)


async def test_the_process_gets_no_hub_no_old_cache_and_no_key_on_its_command_line(tmp_path: Path) -> None:
    spawn = _Ends(0, {"samples": samples()})
    await ask(spawn, tmp_path)
    assert spawn.argv[1:3] == ["-m", "kitedash.measuring.lm_eval_task"]
    assert "s3cret" not in " ".join(spawn.argv) + json.dumps(spawn.job)
    assert spawn.env["OPENAI_API_KEY"] == "s3cret"
    assert spawn.env["HF_HUB_OFFLINE"] == spawn.env["HF_DATASETS_OFFLINE"] == "1"
    assert spawn.env["HF_HOME"].startswith(str(spawn.folder))
    assert (spawn.job["max_length"], spawn.job["num_concurrent"]) == (777, lm_eval_suite.CONCURRENCY)
    assert not spawn.folder.exists()  # nothing of one candidate is left for the next


@pytest.mark.parametrize(
    ("outcome", "error", "sentence"),
    [
        (
            {"error": "the engine stopped answering (refused)."},
            EngineFailed,
            "was not scored: the engine stopped answering",
        ),
        ({"refused": "the engine sends no log-probabilities of the prompt."}, Refused, "no log-probabilities"),
        (None, EngineFailed, "status 1 and said nothing"),
    ],
)
async def test_a_failure_is_one_sentence(
    tmp_path: Path, outcome: dict[str, Any] | None, error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence) as caught:
        await ask(_Ends(1, outcome, log="first\nlast line"), tmp_path)
    assert "\n" not in str(caught.value)
    if isinstance(caught.value, EngineFailed):
        assert caught.value.log_tail.endswith("last line")


async def test_samples_that_are_not_whole_or_not_consistent_give_no_score(tmp_path: Path) -> None:
    with pytest.raises(EngineFailed, match="99 of 100"):
        await ask(_Ends(0, {"samples": samples()[1:]}), tmp_path)
    crooked = samples()
    crooked[0]["acc_norm"] = 0.0
    with pytest.raises(EngineFailed, match="not that of its data"):
        await ask(_Ends(0, {"samples": crooked}), tmp_path)


async def test_cancelling_stops_the_process(tmp_path: Path) -> None:
    started = asyncio.Event()

    class Endless(_Finished):
        async def wait(self) -> int:
            started.set()
            await asyncio.sleep(3600)
            return 0

    process = Endless(0)

    async def spawn(argv: Sequence[str], *, env: Mapping[str, str], log_path: Path) -> _Finished:
        return process

    task = asyncio.create_task(
        lm_eval_suite.ask(ENDPOINT, spawn=spawn, work_dir=tmp_path, progress=lambda done, total: None)
    )
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert process.stopped
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - pathlib's way is refused in a coroutine
