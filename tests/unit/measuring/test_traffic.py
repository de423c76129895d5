"""With a tokenizer of our own that splits words, so that every count can be checked by hand."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from kitedash.domain.errors import InvalidInput
from kitedash.domain.experiment import LoadPlan, Workload
from kitedash.domain.trace import Trace, TraceRow
from kitedash.domain.workload import RequestClass
from kitedash.measuring import traffic_writing
from kitedash.measuring.prompt_text import PromptWriter, Said, in_common
from kitedash.measuring.traffic import Request, Traffic, file_name, messages_of, read
from kitedash.measuring.traffic_writing import write_all

HEAD, TURN, TAIL = "<s> system ", " </s> user ", " </s> assistant "


class Words:
    """One id a word; long words cost one more for each further eight letters, as pieces do."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}

    def encode(self, text: str) -> list[int]:
        pieces = [word[at : at + 8] for word in text.split() for at in range(0, len(word), 8)]
        return [self.ids.setdefault(piece, len(self.ids)) for piece in pieces]

    def decode(self, ids: list[int]) -> str:
        names = {number: piece for piece, number in self.ids.items()}
        return " ".join(names[number] for number in ids)

    def render(self, prefix: str, question: str, said: Sequence[Said] = ()) -> list[int]:
        before = "".join(f"{TURN}{turn.question}{TAIL}{turn.answer}" for turn in said)
        return self.encode(f"{HEAD}{prefix}{before}{TURN}{question}{TAIL}")

    def complete(self, text: str) -> list[int]:
        return self.encode(f"<s> {text}")

    def writer(self) -> PromptWriter:
        return PromptWriter(render=self.render, encode=self.encode, decode=self.decode, complete=self.complete)


@pytest.fixture
def words() -> Words:
    return Words()


@pytest.fixture
def writer(words: Words) -> PromptWriter:
    return words.writer()


@pytest.mark.parametrize(("tokens_in", "shared"), [(300, 284), (300, 0), (60, 40), (2_000, 1_900)])
def test_prompts_have_exactly_the_tokens_asked_for(
    writer: PromptWriter, words: Words, tokens_in: int, shared: int
) -> None:
    prefix = writer.shared_prefix(shared, tokens_in)
    assert prefix.tokens == max(shared, 4), "the bare template shares <s> system </s> user"
    random = Random(1)
    prompts = []
    for _ in range(50):
        question, counted = writer.question(prefix, tokens_in, random)
        ids = words.render(prefix.text, question)
        assert len(ids) == counted == tokens_in
        prompts.append(ids)
    shared_by_all = sum(1 for column in zip(*prompts, strict=True) if len(set(column)) == 1)
    for first, second in itertools.combinations(prompts, 2):
        common = next(i for i, (a, b) in enumerate(zip(first, second, strict=True)) if a != b)
        assert prefix.tokens <= common <= prefix.tokens + 4, "questions differ right behind the prefix"
    assert shared_by_all >= prefix.tokens


def test_a_prefix_shorter_than_the_instructions_has_the_tokens_asked_for_too(writer: PromptWriter) -> None:
    """Cutting a word of two tokens off them ("repository") leaves one to be filled again."""
    assert [writer.shared_prefix(shared, 100).tokens for shared in range(5, 60)] == [*range(5, 60)]


def test_a_prefix_that_leaves_no_room_is_refused_with_what_would_fit(writer: PromptWriter) -> None:
    with pytest.raises(InvalidInput, match="at most 54 shared tokens fit, or at least 63 input tokens") as caught:
        writer.shared_prefix(57, 60)
    assert caught.value.field == "workload.input_tokens"
    assert writer.shared_prefix(54, 60).tokens == 54


PLAN = LoadPlan(rates_per_s=(1, 2, 4), blocks=2, block_duration_s=10, seed=7)
WORKLOAD = Workload(input_tokens=60, shared_prefix_tokens=40, output_tokens=5)


def write(
    folder: Path,
    plan: LoadPlan = PLAN,
    workload: Workload = WORKLOAD,
    trace: Trace | None = None,
    words: Words | None = None,
) -> Path:
    write_all((words or Words()).writer(), workload, plan, folder, trace)
    return folder


def ids_of(words: Words, traffic: Traffic, request: Request) -> list[int]:
    """What a server would see, from the messages or the text that are sent to it."""
    if request.kind == "completion":
        return words.complete(traffic.prompt(request))
    roles = {"system": HEAD, "user": TURN, "assistant": TAIL}
    parts = [roles[part["role"]] + part["content"] for part in traffic.messages(request)]
    bare = "" if parts[0].startswith(HEAD) else HEAD
    return words.encode(bare + "".join(parts) + TAIL)


def test_files_are_the_same_every_time_and_for_every_candidate(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a"), write(tmp_path / "b")
    names = sorted(path.name for path in first.iterdir())
    assert names == sorted(file_name(rate, block) for rate in (1, 2, 4) for block in (0, 1))
    for name in names:
        assert (first / name).read_bytes() == (second / name).read_bytes()
    hashes = {read(first / name).sha256 for name in names}
    assert len(hashes) == 6, "and different for each rate and block"


def test_a_file_read_back_carries_due_times_prompts_and_counts(tmp_path: Path) -> None:
    traffic = read(write(tmp_path / "a") / file_name(4, 1))
    assert (traffic.rate_per_s, traffic.block, traffic.seed, traffic.duration_s) == (4.0, 1, 7, 10.0)
    assert {request.shared_tokens for request in traffic.requests} == {40}
    assert [request.index for request in traffic.requests] == list(range(len(traffic.requests)))
    assert all(request.tokens_in == 60 and request.tokens_out == 5 for request in traffic.requests)
    message = traffic.messages(traffic.requests[0])
    assert [part["role"] for part in message] == ["system", "user"]


def test_no_question_comes_twice_in_a_plan(tmp_path: Path) -> None:
    folder = write(tmp_path / "a")
    questions = [request.question for path in folder.iterdir() for request in read(path).requests]
    assert len(set(questions)) == len(questions)


def test_a_half_written_folder_is_never_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(traffic_writing.json, "dumps", breaks)
    with pytest.raises(OSError, match="disk full"):
        write(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_no_prefix_is_no_system_message() -> None:
    assert messages_of("", "why") == [{"role": "user", "content": "why"}]


CHAT = RequestClass(name="chat", input_tokens=200, shared_prefix_tokens=150, output_tokens=9)
TAB = RequestClass(name="tab", kind="completion", input_tokens=80, shared_prefix_tokens=60, output_tokens=3)
TALK = RequestClass(name="talk", input_tokens=120, shared_prefix_tokens=90, output_tokens=25, turns=4, think_time_s=0.5)


def test_every_request_of_a_mix_has_the_tokens_of_its_kind_as_the_server_counts(tmp_path: Path) -> None:
    words = Words()
    folder = write(tmp_path / "a", workload=Workload(mix=(CHAT, TAB)), words=words)
    seen: dict[str, list[list[int]]] = {"chat": [], "tab": []}
    for path in folder.iterdir():
        traffic = read(path)
        for request in traffic.requests:
            one = CHAT if request.prefix == "chat" else TAB
            ids = ids_of(words, traffic, request)
            assert len(ids) == request.tokens_in == one.input_tokens
            assert (request.kind, request.tokens_out) == (one.kind, one.output_tokens)
            assert request.shared_tokens == one.shared_prefix_tokens
            seen[request.prefix].append(ids)
    for name, shared in (("chat", 150), ("tab", 60)):
        assert len(seen[name]) > 20
        for first, second in itertools.combinations(seen[name][:12], 2):
            assert shared <= in_common(first, second) <= shared + 1
    assert in_common(seen["chat"][0], seen["tab"][0]) < 10, "kinds have prefixes of their own"


def test_kinds_that_are_alike_have_different_prefixes(tmp_path: Path) -> None:
    words = Words()
    twin = CHAT.model_copy(update={"name": "other"})
    folder = write(tmp_path / "a", workload=Workload(mix=(CHAT, twin)), words=words)
    traffic = read(folder / file_name(4, 0))
    first, second = (
        next(ids_of(words, traffic, one) for one in traffic.requests if one.prefix == name)
        for name in ("chat", "other")
    )
    assert in_common(first, second) < 10


def test_a_turn_holds_the_conversation_before_it_and_shares_all_of_it(tmp_path: Path) -> None:
    words = Words()
    folder = write(tmp_path / "a", workload=Workload(mix=(TALK,)), words=words)
    later = 0
    for path in folder.iterdir():
        traffic = read(path)
        before: dict[int | None, list[int]] = {}
        for request in traffic.requests:
            ids = ids_of(words, traffic, request)
            # 120 at first; each turn adds 30 (all but the prefix) to that and to the 25 of the answer.
            assert len(ids) == request.tokens_in == 120 + request.turn * (25 + 30)
            assert len(request.history) == request.turn
            assert all(len(words.encode(answer)) == 25 for _, answer in request.history)
            if request.turn:
                assert request.due_s is None
                assert request.shared_tokens == in_common(before[request.session], ids) == len(before[request.session])
                later += 1
            else:
                assert request.shared_tokens == 90
            before[request.session] = ids
    assert later > 20


def test_a_time_stamp_before_every_turn_leaves_nothing_to_share(tmp_path: Path) -> None:
    words = Words()
    stamped = TALK.model_copy(update={"timestamp_first": True})
    traffic = read(write(tmp_path / "a", workload=Workload(mix=(stamped,)), words=words) / file_name(4, 0))
    seen: list[list[int]] = [words.render(traffic.prefixes["talk"], "prime")]
    for request in traffic.requests:
        ids = ids_of(words, traffic, request)
        assert len(ids) == request.tokens_in
        assert request.shared_tokens == max(in_common(ids, one) for one in seen) < 10
        seen.append(ids)


def test_a_later_turn_without_room_for_a_question_is_refused(tmp_path: Path) -> None:
    tight = TALK.model_copy(update={"input_tokens": 96})  # 6 a turn; the template takes 5: "assistant" is two
    with pytest.raises(InvalidInput, match="leaves 1 tokens for the question of a later turn"):
        write(tmp_path / "a", workload=Workload(mix=(tight,)))


def test_short_turns_of_varying_length_leave_room_for_the_template_and_a_question(tmp_path: Path) -> None:
    words = Words()
    varied = TALK.model_copy(update={"input_tokens_p90": 400})
    folder = write(tmp_path / "a", workload=Workload(mix=(varied,)), words=words)
    firsts, added = [], []
    for path in folder.iterdir():
        traffic = read(path)
        before = {}
        for request in traffic.requests:
            assert len(ids_of(words, traffic, request)) == request.tokens_in
            if request.turn:
                added.append(request.tokens_in - before[request.session])
            else:
                firsts.append(request.tokens_in)
            before[request.session] = request.tokens_in + request.tokens_out
    # The template takes 5 tokens behind an answer and 3 behind a first question; 12 are left for the question.
    assert min(firsts) == 90 + 3 + 12
    assert 5 + 12 <= min(added) < 30 < max(added)


def test_a_trace_becomes_requests_of_its_lengths_at_its_times(tmp_path: Path) -> None:
    rows = (
        TraceRow(0.0, 200, 7, "s", "p"),
        TraceRow(0.5, 90, 3, None, "p"),
        TraceRow(1.25, 260, 5, "s", "p"),
        TraceRow(2.0, 180, 1, "s", "p"),  # shorter than what was said: it began anew
        TraceRow(3.0, 60, 2),
    )
    words, trace = Words(), Trace(rows, has_prefixes=True)
    plan = PLAN.model_copy(update={"rates_per_s": (trace.rate_per_s, 4.0, 8.0), "block_duration_s": 3.5})
    folder = write(tmp_path / "a", plan, Workload(trace="mine", shared_prefix_tokens=128), trace, words)
    traffic = read(folder / file_name(trace.rate_per_s, 0))
    assert [one.due_s for one in traffic.requests] == [row.arrival_s for row in rows]
    for request, row in zip(traffic.requests, rows, strict=True):
        assert len(ids_of(words, traffic, request)) == request.tokens_in == row.tokens_in
        assert request.tokens_out == row.tokens_out
    assert [one.shared_tokens for one in traffic.requests] == [128, 64, 200, 128, 4], "4: the bare template"
    assert [len(one.history) for one in traffic.requests] == [0, 0, 1, 0, 0]
    head = json.loads((folder / file_name(trace.rate_per_s, 0)).read_text().splitlines()[0])
    assert (head["trace_sha256"], head["time_scale"]) == (trace.sha256, 1.0)
