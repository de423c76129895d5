"""The traffic of a run, written to files before anything is measured: one JSON Lines file per (rate, block).

The first line is the header (format, due-time parameters, the shared prefix by name, token counts); each further
line is one request. Nothing in it depends on the candidate, so equal hashes mean equal traffic. Requests name their
prefix and their kind, which leaves room for several prefixes, completions and sessions.

Runs as `python -m kitedash.measuring.traffic JOB OUT_DIR` because importing transformers takes seconds.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kitedash.domain.errors import InvalidInput, KiteDashError
from kitedash.domain.experiment import LoadPlan, Workload
from kitedash.domain.schedule import due_times_s, generator, sha256_of
from kitedash.domain.workload import THE_ONE_KIND, drawn_tokens
from kitedash.measuring.endpoint import Endpoint
from kitedash.measuring.process import Spawn, clean_environment
from kitedash.measuring.prompt_text import CommonHeads, PromptWriter, SharedPrefix
from kitedash.settings import PROJECT_ROOT

FORMAT = 2
PRIME_QUESTION = "Name the first file above."


@dataclass(frozen=True)
class Request:
    """One request of a block. `due_s` counts from the block's start; token counts are what the server should count."""

    index: int
    due_s: float
    prefix: str
    question: str
    tokens_in: int
    tokens_out: int
    kind: str = "chat"
    session: int | None = None
    turn: int = 0
    think_time_s: float = 0.0
    head: str = ""  # stands before the prefix, such as a time stamp
    shared_tokens: int = 0  # leading prompt tokens that an earlier request had too, the template's included


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

    def messages(self, request: Request) -> list[dict[str, str]]:
        return messages_of(request.head + self.prefixes[request.prefix], request.question)

    def prompt(self, request: Request) -> str:
        """The text of a completion."""
        return request.head + self.prefixes[request.prefix] + request.question


def messages_of(prefix: str, question: str) -> list[dict[str, str]]:
    """The chat messages; no system message where the prefix is empty."""
    system = [{"role": "system", "content": prefix}] if prefix else []
    return [*system, {"role": "user", "content": question}]


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
        requests=tuple(Request(**line) for line in lines),
        sha256=sha256_of(content),
    )


def file_name(rate_per_s: float, block: int) -> str:
    """With all digits of the rate: two rates of a plan never share a file."""
    return f"rate-{float(rate_per_s)!r}-block-{block}.jsonl"


async def ensure_traffic(
    endpoint: Endpoint, *, workload: Workload, plan: LoadPlan, spawn: Spawn, work_dir: Path
) -> Path:
    """The folder with the files of all rates and blocks, made once per workload, plan and tokenizer.

    Raises InvalidInput where the tokens asked for can't be met, KiteDashError where the writer failed.
    """
    job = {
        "tokenizer_dir": str(endpoint.tokenizer_dir),
        "workload": workload.model_dump(mode="json"),
        "plan": plan.model_dump(mode="json"),
    }
    folder = work_dir / f"traffic-{_key(job, endpoint.tokenizer_dir)}"
    if await asyncio.to_thread(folder.is_dir):
        return folder
    job_path, log_path = await asyncio.to_thread(_write_job, job, work_dir, folder.name)
    argv = [sys.executable, "-m", "kitedash.measuring.traffic", str(job_path), str(folder)]
    environment = clean_environment() | {"PYTHONPATH": str(PROJECT_ROOT), "HF_HUB_OFFLINE": "1"}
    process = await spawn(argv, env=environment, log_path=log_path)
    try:
        status = await process.wait()
    finally:
        await process.stop()
    if status:
        raise _why(await asyncio.to_thread(log_path.read_text, errors="replace"), status)
    return folder


_REFUSED = "refused|"


def _write_job(job: Mapping[str, Any], work_dir: Path, name: str) -> tuple[Path, Path]:
    work_dir.mkdir(parents=True, exist_ok=True)
    job_path, log_path = work_dir / f"{name}.json", work_dir / f"{name}.log"
    job_path.write_text(json.dumps(job))
    log_path.unlink(missing_ok=True)
    return job_path, log_path


def _why(log: str, status: int) -> KiteDashError:
    lines = log.strip().splitlines()
    for line in lines:
        if line.startswith(_REFUSED):
            field, _, sentence = line.removeprefix(_REFUSED).partition("|")
            return InvalidInput(field, sentence)
    return KiteDashError(f"The prompts could not be written: {lines[-1] if lines else f'exit status {status}'}")


def _key(job: Mapping[str, Any], tokenizer_dir: Path) -> str:
    """Only what decides the files' content: the tokenizer counts by content, not by where it lies."""
    load = {name: value for name, value in job["plan"].items() if name != "request_timeout_s"}
    parts = [json.dumps([FORMAT, job["workload"], load], sort_keys=True).encode()]
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "tokenizer.model", "tekken.json"):
        path = tokenizer_dir / name
        if path.is_file():
            parts.append(sha256_of(path.read_bytes()).encode())
    return sha256_of(b"\n".join(parts))[:16]


def load_tokenizer(tokenizer_dir: Path) -> tuple[Callable[[Sequence[Mapping[str, str]]], list[int]], Any]:
    """(messages -> token ids with the chat template, the tokenizer itself), as vLLM loads it from that folder."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)

    def render(messages: Sequence[Mapping[str, str]]) -> list[int]:
        chat: Any = list(messages)
        encoded: Any = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=True)
        ids = encoded["input_ids"] if hasattr(encoded, "keys") else encoded
        return [int(token) for token in ids]

    return render, tokenizer


def write_all(writer: PromptWriter, workload: Workload, plan: LoadPlan, folder: Path) -> None:
    """Writes the files of all rates and blocks; the folder appears only when they are complete."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=folder.name, dir=folder.parent))
    try:
        head = time_stamp(0.0) if workload.timestamp_first else ""
        prefix = writer.shared_prefix(workload.shared_prefix_tokens, workload.input_tokens, head)
        for rate_per_s in plan.rates_per_s:
            for block in range(plan.blocks):
                lines = _block_lines(writer, prefix, workload, plan, rate_per_s, block)
                text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
                (building / file_name(rate_per_s, block)).write_text(text)
        if not folder.is_dir():
            building.rename(folder)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _block_lines(
    writer: PromptWriter, prefix: SharedPrefix, workload: Workload, plan: LoadPlan, rate_per_s: float, block: int
) -> Iterable[dict[str, Any]]:
    yield {
        "format": FORMAT,
        "rate_per_s": rate_per_s,
        "block": block,
        "seed": plan.seed,
        "duration_s": plan.block_duration_s,
        "arrivals": workload.arrivals,
        "prefixes": {THE_ONE_KIND: prefix.text},
        "prime_question": PRIME_QUESTION,
    }
    random = generator(plan.seed, rate_per_s, block, "questions")
    due = due_times_s(
        seed=plan.seed,
        rate_per_s=rate_per_s,
        block=block,
        duration_s=plan.block_duration_s,
        arrivals=workload.arrivals,
        burstiness=workload.burstiness,
    )
    lengths = generator(plan.seed, rate_per_s, block, "lengths")
    least = min(workload.input_tokens, writer.shortest(prefix))
    seen = CommonHeads(writer.tokens_of_head)
    for index, due_s in enumerate(due):
        asked = drawn_tokens(lengths.random(), workload.input_tokens, workload.input_tokens_p90, least)
        tokens_out = drawn_tokens(lengths.random(), workload.output_tokens, workload.output_tokens_p90, 1)
        question, tokens_in = writer.question(prefix, asked, random)
        head = time_stamp(due_s) if workload.timestamp_first else ""
        shared = seen.take(head) if head else prefix.tokens
        yield asdict(
            Request(index, due_s, THE_ONE_KIND, question, tokens_in, tokens_out, head=head, shared_tokens=shared)
        )


def time_stamp(due_s: float) -> str:
    """The line that some clients put at the head of a system prompt: the time of the request, to the microsecond."""
    return f"{datetime(2026, 1, 1, 9, tzinfo=UTC) + timedelta(seconds=due_s):%H:%M:%S.%f on %d %B %Y}\n"


def main(argv: Sequence[str]) -> int:
    job = json.loads(Path(argv[0]).read_text())
    render, tokenizer = load_tokenizer(Path(job["tokenizer_dir"]))
    writer = PromptWriter(
        render=lambda prefix, question: render(messages_of(prefix, question)),
        encode=lambda text: list(tokenizer.encode(text, add_special_tokens=False)),
        decode=lambda ids: str(tokenizer.decode(ids)),
    )
    try:
        write_all(writer, Workload.model_validate(job["workload"]), LoadPlan.model_validate(job["plan"]), Path(argv[1]))
    except InvalidInput as error:
        print(f"{_REFUSED}{error.field}|{error.sentence}", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
