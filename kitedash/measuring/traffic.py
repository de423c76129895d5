"""The traffic of a run, written to files before anything is measured: one JSON Lines file per (rate, block).

The first line is the header (format, due-time parameters, the shared prefix by name, token counts); each further
line is one request. Nothing in it depends on the candidate, so equal hashes mean equal traffic. A session's requests
stand one behind the other and hold the conversation before them, whose answers are canned: real ones would differ by
candidate. `traffic_writing.py` writes the files.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kitedash.domain.errors import InvalidInput, KiteDashError
from kitedash.domain.experiment import LoadPlan, Workload
from kitedash.domain.schedule import sha256_of
from kitedash.domain.workload import Kind
from kitedash.measuring.endpoint import Endpoint
from kitedash.measuring.process import Spawn, clean_environment
from kitedash.settings import PROJECT_ROOT

FORMAT = 2
PRIME_QUESTION = "Name the first file above."


@dataclass(frozen=True)
class Request:
    """One request of a block; token counts are what the server should count.

    `due_s` counts from the block's start; None: `think_time_s` after the answer to the session's turn before it.
    `history` are that session's earlier questions, each with the canned answer to it.
    """

    index: int
    due_s: float | None
    prefix: str
    question: str
    tokens_in: int
    tokens_out: int
    kind: Kind = "chat"
    session: int | None = None
    turn: int = 0
    think_time_s: float = 0.0
    head: str = ""  # stands before the prefix, such as a time stamp
    shared_tokens: int = 0  # leading prompt tokens that an earlier request had too, the template's included
    history: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Traffic:
    """One block's traffic."""

    rate_per_s: float
    block: int
    seed: int
    duration_s: float
    prefixes: Mapping[str, str]
    requests: tuple[Request, ...]
    sha256: str
    dispersion: float = 1.0  # of the arrivals: variance of their number in a long time over its mean

    def messages(self, request: Request) -> list[dict[str, str]]:
        return messages_of(request.head + self.prefixes[request.prefix], request.question, request.history)

    def prompt(self, request: Request) -> str:
        """The text of a completion."""
        return request.head + self.prefixes[request.prefix] + request.question


def messages_of(prefix: str, question: str, history: Sequence[tuple[str, str]] = ()) -> list[dict[str, str]]:
    """The chat messages; no system message where the prefix is empty."""
    system = [{"role": "system", "content": prefix}] if prefix else []
    said = [
        {"role": role, "content": text}
        for turn in history
        for role, text in zip(("user", "assistant"), turn, strict=True)
    ]
    return [*system, *said, {"role": "user", "content": question}]


def read(path: Path) -> Traffic:
    content = path.read_bytes()
    head, *lines = [json.loads(line) for line in content.splitlines()]
    if head["format"] != FORMAT:
        raise KiteDashError(f"{path.name} has traffic format {head['format']}, this version reads {FORMAT}.")
    return Traffic(
        rate_per_s=head["rate_per_s"],
        block=head["block"],
        seed=head["seed"],
        duration_s=head["duration_s"],
        prefixes=head["prefixes"],
        requests=tuple(_request(line) for line in lines),
        sha256=sha256_of(content),
        dispersion=head.get("dispersion", 1.0),
    )


def _request(line: Mapping[str, Any]) -> Request:
    return Request(**{**line, "history": tuple((asked, answered) for asked, answered in line.get("history", ()))})


def file_name(rate_per_s: float, block: int) -> str:
    """With all digits of the rate: two rates of a plan never share a file."""
    return f"rate-{float(rate_per_s)!r}-block-{block}.jsonl"


async def ensure_traffic(
    endpoint: Endpoint,
    *,
    workload: Workload,
    plan: LoadPlan,
    spawn: Spawn,
    work_dir: Path,
    trace: Path | None = None,
    rates_per_s: Sequence[float] | None = None,
) -> Path:
    """The folder with the files of all rates and blocks, made once per workload, plan, tokenizer and trace. `trace` is
    the canonical file of the workload's trace, where it replays one; `rates_per_s` stand in place of the plan's.

    Raises InvalidInput where the tokens asked for can't be met, KiteDashError where the writer failed.
    """
    job = {
        "tokenizer_dir": str(endpoint.tokenizer_dir),
        "workload": workload.model_dump(mode="json"),
        "plan": plan.model_dump(mode="json"),
        "rates_per_s": list(plan.rates_per_s if rates_per_s is None else rates_per_s),
    }
    if trace is not None:
        job |= {"trace": str(trace), "trace_sha256": await asyncio.to_thread(_hash_of_file, trace)}
    folder = work_dir / f"traffic-{_key(job, endpoint.tokenizer_dir)}"
    if await asyncio.to_thread(folder.is_dir):
        return folder
    job_path, log_path = await asyncio.to_thread(_write_job, job, work_dir, folder.name)
    argv = [sys.executable, "-m", "kitedash.measuring.traffic_writing", str(job_path), str(folder)]
    environment = clean_environment() | {"PYTHONPATH": str(PROJECT_ROOT), "HF_HUB_OFFLINE": "1"}
    process = await spawn(argv, env=environment, log_path=log_path)
    try:
        status = await process.wait()
    finally:
        await process.stop()
    if status:
        raise _why(await asyncio.to_thread(log_path.read_text, errors="replace"), status)
    return folder


_NOT_WRITTEN = frozenset({"request_timeout_s", "search", "search_precision", "search_most_blocks"})
REFUSED = "refused|"  # what the writer prints, with the field and the sentence


def _hash_of_file(path: Path) -> str:
    return sha256_of(path.read_bytes())


def _write_job(job: Mapping[str, Any], work_dir: Path, name: str) -> tuple[Path, Path]:
    work_dir.mkdir(parents=True, exist_ok=True)
    job_path, log_path = work_dir / f"{name}.json", work_dir / f"{name}.log"
    job_path.write_text(json.dumps(job))
    log_path.unlink(missing_ok=True)
    return job_path, log_path


def _why(log: str, status: int) -> KiteDashError:
    lines = log.strip().splitlines()
    for line in lines:
        if line.startswith(REFUSED):
            field, _, sentence = line.removeprefix(REFUSED).partition("|")
            return InvalidInput(field, sentence)
    return KiteDashError(f"The prompts could not be written: {lines[-1] if lines else f'exit status {status}'}")


def _key(job: Mapping[str, Any], tokenizer_dir: Path) -> str:
    """Only what decides the files' content: the tokenizer counts by content, not by where it lies."""
    load = {name: value for name, value in job["plan"].items() if name not in _NOT_WRITTEN}
    load["rates_per_s"] = job["rates_per_s"]
    parts = [json.dumps([FORMAT, job["workload"], load, job.get("trace_sha256")], sort_keys=True).encode()]
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "tokenizer.model", "tekken.json"):
        path = tokenizer_dir / name
        if path.is_file():
            parts.append(sha256_of(path.read_bytes()).encode())
    return sha256_of(b"\n".join(parts))[:16]
