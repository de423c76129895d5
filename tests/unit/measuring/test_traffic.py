"""With a tokenizer of our own that splits words, so that every count can be checked by hand."""

from __future__ import annotations

import itertools
from pathlib import Path
from random import Random

import pytest

from kitedash.domain.errors import InvalidInput
from kitedash.domain.experiment import LoadPlan, Workload
from kitedash.measuring.prompt_text import PromptWriter
from kitedash.measuring.traffic import file_name, messages_of, read, write_all

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

    def render(self, prefix: str, question: str) -> list[int]:
        return self.encode(f"{HEAD}{prefix}{TURN}{question}{TAIL}")


@pytest.fixture
def words() -> Words:
    return Words()


@pytest.fixture
def writer(words: Words) -> PromptWriter:
    return PromptWriter(render=words.render, encode=words.encode, decode=words.decode)


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


def test_a_prefix_that_leaves_no_room_is_refused_with_what_would_fit(writer: PromptWriter) -> None:
    with pytest.raises(InvalidInput, match="at most 54 shared tokens fit, or at least 63 input tokens") as caught:
        writer.shared_prefix(57, 60)
    assert caught.value.field == "workload.input_tokens"
    assert writer.shared_prefix(54, 60).tokens == 54


PLAN = LoadPlan(rates_per_s=(1, 2, 4), blocks=2, block_duration_s=10, seed=7)
WORKLOAD = Workload(input_tokens=60, shared_prefix_tokens=40, output_tokens=5)


def write(folder: Path, plan: LoadPlan = PLAN) -> Path:
    words = Words()
    write_all(PromptWriter(render=words.render, encode=words.encode, decode=words.decode), WORKLOAD, plan, folder)
    return folder


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
    def breaks(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "write_text", breaks)
    with pytest.raises(OSError, match="disk full"):
        write(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_no_prefix_is_no_system_message() -> None:
    assert messages_of("", "why") == [{"role": "user", "content": "why"}]
