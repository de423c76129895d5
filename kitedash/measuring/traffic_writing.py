"""Writes a run's traffic files: the requests that `domain/block_plan.py` plans, with their texts.

Runs as `python -m kitedash.measuring.traffic_writing JOB OUT_DIR` because importing transformers takes seconds.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from kitedash.domain import trace as traces
from kitedash.domain.block_plan import PlannedRequest, planned_block, replayed_block, time_scale
from kitedash.domain.errors import InvalidInput
from kitedash.domain.experiment import LoadPlan, Workload
from kitedash.domain.schedule import generator
from kitedash.domain.trace import Trace
from kitedash.domain.workload import Kind, RequestClass
from kitedash.measuring.prompt_text import CommonHeads, PromptWriter, Said, SharedPrefix, in_common
from kitedash.measuring.traffic import FORMAT, PRIME_QUESTION, REFUSED, Request, file_name, messages_of

PREFIX_STARTS = 617  # apart in the files, in thousandths and coprime to them: a thousand prefixes begin elsewhere


@dataclass(frozen=True)
class _Turn:
    """Where a session stands."""

    prefix: str
    tokens: int  # of the prompt and its answer
    said: tuple[Said, ...]
    ids: Sequence[int]


class Prefixes:
    """The prefix texts of a run, one for each name; the first is the plain one, the others begin with their name."""

    def __init__(self, writer: PromptWriter, workload: Workload) -> None:
        self._writer, self._workload = writer, workload
        self._classes = {one.name: one for one in workload.classes}
        self._made: dict[str, SharedPrefix] = {}

    def of(self, planned: PlannedRequest) -> SharedPrefix:
        made = self._made.get(planned.prefix)
        if made is None:
            made = self._made[planned.prefix] = self._make(planned)
        return made

    def _make(self, planned: PlannedRequest) -> SharedPrefix:
        one = self._classes[planned.kind]
        number = len(self._made)
        # A trace's requests are of any length: each is checked by itself, as it is written.
        room = one.input_tokens if self._workload.trace is None else sys.maxsize
        return self._writer.shared_prefix(
            planned.prefix_tokens,
            room,
            time_stamp(0.0) if one.timestamp_first else "",
            kind=one.kind,
            opening=f"({planned.prefix})\n" if number else "",
            start=number * PREFIX_STARTS % 1_000,
        )

    @property
    def texts(self) -> dict[str, str]:
        return {name: prefix.text for name, prefix in self._made.items()}


def write_all(
    writer: PromptWriter,
    workload: Workload,
    plan: LoadPlan,
    folder: Path,
    trace: Trace | None = None,
    rates_per_s: Sequence[float] | None = None,
) -> None:
    """Writes the files of all blocks of the rates (by default the plan's); the folder appears only when they are
    complete."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=folder.name, dir=folder.parent))
    try:
        prefixes = Prefixes(writer, workload)
        for rate_per_s in plan.rates_per_s if rates_per_s is None else rates_per_s:
            for block in range(plan.blocks):
                lines = block_lines(writer, prefixes, workload, plan, rate_per_s, block, trace)
                with (building / file_name(rate_per_s, block)).open("w", encoding="utf-8") as file:
                    file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        if not folder.is_dir():
            building.rename(folder)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def block_lines(
    writer: PromptWriter,
    prefixes: Prefixes,
    workload: Workload,
    plan: LoadPlan,
    rate_per_s: float,
    block: int,
    trace: Trace | None = None,
) -> Iterator[dict[str, Any]]:
    """The header, then the requests. Raises InvalidInput where a request's tokens can't be met."""
    header: dict[str, Any] = {
        "format": FORMAT,
        "rate_per_s": rate_per_s,
        "block": block,
        "seed": plan.seed,
        "duration_s": plan.block_duration_s,
        "arrivals": workload.arrivals,
        "dispersion": workload.dispersion,
        "prime_question": PRIME_QUESTION,
    }
    if trace is None:
        planned = planned_block(workload, plan, rate_per_s, block)
    else:
        planned = replayed_block(trace, workload, plan, rate_per_s, block)
        header |= {"arrivals": "trace", "dispersion": trace.dispersion, "trace_sha256": trace.sha256}
        header["time_scale"] = time_scale(trace, rate_per_s)
    random = generator(plan.seed, rate_per_s, block, "questions")
    requests = list(_requests(writer, prefixes, workload, planned, random))
    used = {request.prefix for request in requests}
    yield header | {"prefixes": {name: text for name, text in prefixes.texts.items() if name in used}}
    yield from (asdict(request) for request in requests)


def _requests(
    writer: PromptWriter,
    prefixes: Prefixes,
    workload: Workload,
    planned: Iterator[PlannedRequest],
    random: Random,
) -> Iterator[Request]:
    classes = {one.name: one for one in workload.classes}
    heads: dict[Kind, CommonHeads] = {}
    sessions: dict[int, _Turn] = {}
    for index, one in enumerate(planned):
        prefix = prefixes.of(one)
        stamped = classes[one.kind].timestamp_first
        head = time_stamp(one.planned_s) if stamped else ""
        before = sessions.get(one.session) if one.session is not None else None
        asked = one.tokens_in + (before.tokens if before is not None and one.added else 0)
        if before is not None and (before.prefix != one.prefix or asked <= before.tokens or prefix.kind != "chat"):
            before = None  # a trace's session that began anew
        said = before.said if before is not None else ()
        if classes[one.kind].input_tokens_p90 is not None:
            asked = max(asked, _least(writer, classes[one.kind], prefix, before))
        try:
            question, tokens_in = writer.question(prefix, asked, random, said)
        except InvalidInput as error:
            if before is None or one.added:
                raise _of_trace(workload, one, error) from None
            before, said = None, ()
            question, tokens_in = writer.question(prefix, asked, random)
        shared = prefix.tokens
        ids: Sequence[int] = ()
        if one.session is not None and prefix.kind == "chat":
            ids = writer.prompt_ids(replace(prefix, head=head), question, said)
            if before is not None:
                shared = in_common(before.ids, ids)
        if stamped:
            seen = heads.get(prefix.kind)
            if seen is None:
                kind = prefix.kind
                seen = heads[kind] = CommonHeads(lambda text, kind=kind: writer.tokens_of_head(text, kind))  # type: ignore[misc]
            shared = seen.take(head)
        if one.session is not None:
            answer = Said(question, writer.answer(one.tokens_out, random))
            sessions[one.session] = _Turn(one.prefix, tokens_in + one.tokens_out, (*said, answer), ids)
        yield Request(
            index=index,
            due_s=one.due_s,
            prefix=one.prefix,
            question=question,
            tokens_in=tokens_in,
            tokens_out=one.tokens_out,
            kind=prefix.kind,
            session=one.session,
            turn=one.turn,
            think_time_s=one.think_time_s,
            head=head,
            shared_tokens=shared,
            history=tuple((turn.question, turn.answer) for turn in said),
        )


def _least(writer: PromptWriter, one: RequestClass, prefix: SharedPrefix, before: _Turn | None) -> int:
    """The least prompt tokens of a drawn length: room for the template and a question, unless the P50 has less."""
    if before is None:
        return min(one.input_tokens, writer.shortest(prefix))
    usual = before.tokens + one.input_tokens - one.shared_prefix_tokens
    return min(usual, writer.shortest(prefix, before.said))


def _of_trace(workload: Workload, one: PlannedRequest, error: InvalidInput) -> InvalidInput:
    """Of a trace's request it is not the workload that asks for too little."""
    if workload.trace is None:
        return error
    return InvalidInput(
        "workload.trace", f"the request at {one.planned_s:.3f} s of {one.tokens_in:,} prompt tokens: {error.sentence}"
    )


def time_stamp(due_s: float) -> str:
    """The line that some clients put at the head of a system prompt: the time of the request, to the microsecond."""
    return f"{datetime(2026, 1, 1, 9, tzinfo=UTC) + timedelta(seconds=due_s):%H:%M:%S.%f on %d %B %Y}\n"


def load_writer(tokenizer_dir: Path) -> PromptWriter:
    """With the tokenizer and the chat template as vLLM loads them from that folder."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)

    def render(prefix: str, question: str, said: Sequence[Said] = ()) -> list[int]:
        chat: Any = messages_of(prefix, question, [(turn.question, turn.answer) for turn in said])
        encoded: Any = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=True)
        ids = encoded["input_ids"] if hasattr(encoded, "keys") else encoded
        return [int(token) for token in ids]

    return PromptWriter(
        render=render,
        encode=lambda text: list(tokenizer.encode(text, add_special_tokens=False)),
        decode=lambda ids: str(tokenizer.decode(ids)),
        complete=lambda text: list(tokenizer.encode(text)),
    )


def main(argv: Sequence[str]) -> int:
    job = json.loads(Path(argv[0]).read_text())
    trace = traces.parse(Path(job["trace"]).read_bytes()) if "trace" in job else None
    workload, plan = Workload.model_validate(job["workload"]), LoadPlan.model_validate(job["plan"])
    try:
        writer = load_writer(Path(job["tokenizer_dir"]))
        write_all(writer, workload, plan, Path(argv[1]), trace, job["rates_per_s"])
    except InvalidInput as error:
        print(f"{REFUSED}{error.field}|{error.sentence}", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
