"""Runs the public suite with lm-eval against a ready engine: in a process of its own (`lm_eval_task.py`), because it
blocks, takes seconds to import and shows its progress to a terminal only."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from evals import hellaswag_100
from kitedash.domain.errors import EngineFailed, Refused
from kitedash.domain.results import Answer
from kitedash.measuring.endpoint import Endpoint
from kitedash.measuring.process import Process, Spawn, clean_environment
from kitedash.settings import PROJECT_ROOT

# One number for all candidates: 1 would send other requests than more than 1, and batching moves the last digits.
CONCURRENCY: Final = 8
POLL_S: Final = 0.5
FINISH_REASON: Final = "loglikelihood"


async def ask(
    endpoint: Endpoint, *, spawn: Spawn, work_dir: Path, progress: Callable[[int, int], None]
) -> tuple[Answer, ...]:
    """The chosen ending of every item of hellaswag_100 and whether it is the true one (acc_norm).

    One request that keeps failing ends the suite with one sentence: a score over the rest would be a wrong one. Raises
    EngineFailed where the engine failed, Refused where it gives no usable log-probabilities.
    """
    folder = _prepare(endpoint, work_dir)
    try:
        log_path = work_dir / "lm-eval.log"
        argv = [sys.executable, "-m", "kitedash.measuring.lm_eval_task", str(folder / "job.json")]
        process = await spawn(argv, env=_environment(endpoint, folder), log_path=log_path)
        code = await _watch(process, folder, progress)
        return _answers(_outcome(folder, code, log_path))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _prepare(endpoint: Endpoint, work_dir: Path) -> Path:
    work_dir.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="lm-eval-", dir=work_dir))
    (folder / "cases.jsonl").write_text(hellaswag_100.to_jsonl(), encoding="utf-8")
    (folder / "job.json").write_text(json.dumps(_job(endpoint, folder)), encoding="utf-8")
    return folder


def _job(endpoint: Endpoint, folder: Path) -> dict[str, Any]:
    """What the process is told. The key is not in it: it travels in the environment."""
    return {
        "task": hellaswag_100.NAME,
        "task_file": str(hellaswag_100.TASK_FILE),
        "data_file": str(folder / "cases.jsonl"),
        "model": endpoint.model,
        "base_url": f"{endpoint.base_url}/v1/completions",
        "tokenizer": str(endpoint.tokenizer_dir),
        "max_length": endpoint.max_model_len,
        "num_concurrent": CONCURRENCY,
    }


def _environment(endpoint: Endpoint, folder: Path) -> dict[str, str]:
    """No hub, no proxy, and every cache in the job's own folder: lm-eval and datasets keep what they made by names that
    say nothing of its content."""
    return clean_environment() | {
        "PYTHONPATH": str(PROJECT_ROOT),
        "HOME": str(folder),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "HF_HOME": str(folder / "hf"),
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "DO_NOT_TRACK": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "OMP_NUM_THREADS": "1",  # the engine has the cores
        "NO_PROXY": "*",
        "OPENAI_API_KEY": endpoint.api_key,
    }


async def _watch(process: Process, folder: Path, progress: Callable[[int, int], None]) -> int:
    """Waits for the process while telling the progress; whatever ends the wait, the process is gone afterwards."""
    items, told = len(hellaswag_100.rows()), 0
    ended = asyncio.ensure_future(process.wait())
    try:
        while not ended.done():
            await asyncio.wait({ended}, timeout=POLL_S)
            done = int(_read(folder / "progress") or 0) // hellaswag_100.ENDINGS
            if told < done <= items:
                told = done
                progress(done, items)
        return ended.result()
    finally:
        if not ended.done():
            await asyncio.shield(process.stop())
            ended.cancel()


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def _outcome(folder: Path, code: int, log_path: Path) -> dict[str, Any]:
    text = _read(folder / "outcome.json")
    outcome: dict[str, Any] = json.loads(text) if text else {}
    if code == 0 and "samples" in outcome:
        return outcome
    tail = "\n".join(_read(log_path).splitlines()[-40:])
    if outcome.get("refused"):
        raise Refused(f"{hellaswag_100.NAME}: {outcome['refused']}")
    why = outcome.get("error") or f"lm-eval ended with status {code} and said nothing"
    raise EngineFailed(f"{hellaswag_100.NAME} was not scored: {why}", tail)


def _answers(outcome: dict[str, Any]) -> tuple[Answer, ...]:
    samples = {sample["id"]: sample for sample in outcome["samples"]}
    known = hellaswag_100.rows()
    missing = [row.id for row in known if row.id not in samples]
    if missing or len(outcome["samples"]) != len(known):
        raise EngineFailed(
            f"{hellaswag_100.NAME} was not scored: {len(outcome['samples'])} of {len(known)} items came back."
        )
    answers = []
    for row in known:
        sample = samples[row.id]
        chosen = max(range(len(row.choices)), key=lambda i: sample["loglikelihoods"][i] / len(row.choices[i]))
        if (chosen == row.gold) != (sample["acc_norm"] == 1.0):
            raise EngineFailed(
                f"{hellaswag_100.NAME} was not scored: lm-eval's score of {row.id} is not that of its data."
            )
        answers.append(
            Answer(
                item_id=row.id,
                cluster=row.id,  # independent items: no two share a text
                kind="ending",
                text=row.choices[chosen],
                finish_reason=FINISH_REASON,
                score=float(sample["acc_norm"]),
                passed=sample["acc_norm"] == 1.0,
                prompt_sha256=sample["prompt_hash"],
                reference=row.choices[row.gold],
            )
        )
    return tuple(answers)
