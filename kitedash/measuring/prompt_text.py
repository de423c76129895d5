"""Prompts of an exact length in tokens, made of real text: the files of KiteDash itself.

The requests of a kind share a prefix; a question begins with words that no other question of the plan begins with,
so nothing beyond the prefix can be found in a cache. A completion's prompt is the prefix and then the question.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Protocol

import kitedash
from kitedash.domain.errors import InvalidInput
from kitedash.domain.workload import Kind

INSTRUCTIONS = (
    "You help the engineers of the repository whose files follow. Answer briefly, and name the file and the function "
    "that you mean.\n"
)
_MOST_FITS = 32  # texts that are tried before the nearest one is taken
_TOLERANCE = 0.01
_TAIL_CHARACTERS = 200  # of a text: tokens before them do not change with what is put behind
_LEAD_WORDS = 4
_MIN_QUESTION_TOKENS = 3
_SHORT_QUESTION_TOKENS = 12  # room for the words that make a question unique, and to meet a length within 1 %


@dataclass(frozen=True)
class SharedPrefix:
    """`tokens`: how many leading tokens all prompts have in common, the template's own and those of a `head` (a time
    stamp's length, though not its text, is the same in all prompts) included. `text` is without the head."""

    text: str
    tokens: int
    head: str = ""
    kind: Kind = "chat"


@dataclass(frozen=True)
class Said:
    """An earlier turn of a session: what was asked, and the canned answer to it."""

    question: str
    answer: str


class Render(Protocol):
    """The ids of a whole chat prompt as the server sees it."""

    def __call__(self, prefix: str, question: str, said: Sequence[Said] = (), /) -> Sequence[int]: ...


@lru_cache(maxsize=1)
def repository_text() -> str:
    """KiteDash's own source files in a fixed order, each under its path."""
    root = Path(kitedash.__file__).resolve().parent
    parts = [f"\n# {path.relative_to(root.parent)}\n{path.read_text()}" for path in sorted(root.rglob("*.py"))]
    return "".join(part for part in parts if len(part) > 200)


def in_common(first: Sequence[int], second: Sequence[int]) -> int:
    """How many leading tokens two prompts have in common."""
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


class CommonHeads:
    """How many leading tokens each of several prompts shares with one that came before it. Before all of them comes
    one with nothing at its head: the engine is primed so."""

    def __init__(self, tokens_of: Callable[[str], tuple[int, ...]]) -> None:
        self._tokens_of = tokens_of
        self._seen: set[tuple[int, ...]] = set()
        self._add(tokens_of(""))

    def take(self, head: str) -> int:
        tokens = self._tokens_of(head)
        shared = next((n for n in range(len(tokens), 0, -1) if tokens[:n] in self._seen), 0)
        self._add(tokens)
        return shared

    def _add(self, tokens: tuple[int, ...]) -> None:
        self._seen.update(tokens[:n] for n in range(1, len(tokens) + 1))


class PromptWriter:
    """Cuts text to token counts. `render` gives a chat prompt's ids, `complete` those of a text to be continued, with
    the special tokens that the server puts around it; without it there are no completions."""

    def __init__(
        self,
        *,
        render: Render,
        encode: Callable[[str], list[int]],
        decode: Callable[[list[int]], str],
        complete: Callable[[str], Sequence[int]] | None = None,
    ) -> None:
        self._chat, self._encode, self._decode = render, encode, decode
        self._complete = complete or encode
        self._used: set[str] = set()
        self._corpus = encode(repository_text())
        words = sorted(set(re.findall(r"[a-z]{3,10}", repository_text())))
        self._words = [word for word in words if len(encode(f" {word}")) == 1]
        self._base: dict[str, int] = {}
        self._shortest: dict[str, int] = {}

    def shared_prefix(
        self, tokens: int, input_tokens: int, head: str = "", *, kind: Kind = "chat", opening: str = "", start: int = 0
    ) -> SharedPrefix:
        """A system message, or the head of a text, whose prompts share exactly `tokens` leading tokens, or those of
        the bare template where that is more. Raises InvalidInput where no question fits behind it.

        `opening` stands before the instructions, and `start` is where the files begin, in shares of a thousand: by
        these prefixes differ.
        """

        def shared_by(text: str) -> int:
            return self._shared(text, kind)

        text = head
        if tokens > shared_by(head):
            at = start * len(self._corpus) // 1_000
            text = self._fit(head + opening + INSTRUCTIONS, tokens, shared_by, "workload.shared_prefix_tokens", at)
        shared = shared_by(text)
        # What follows the question: the end of the turn and the head of the answer.
        room = input_tokens - (len(self._ids(kind, text, "why")) - len(self._encode("why")))
        if room < _MIN_QUESTION_TOKENS:
            most = shared - (_MIN_QUESTION_TOKENS - room)
            raise InvalidInput(
                "workload.input_tokens",
                f"{input_tokens} leaves {max(room, 0)} tokens for a question behind {shared} shared ones and the chat "
                f"template; at most {max(most, 0)} shared tokens fit, or at least "
                f"{input_tokens + _MIN_QUESTION_TOKENS - room} input tokens.",
            )
        return SharedPrefix(text.removeprefix(head), shared, head, kind)

    def question(
        self, prefix: SharedPrefix, input_tokens: int, random: Random, said: Sequence[Said] = ()
    ) -> tuple[str, int]:
        """(a question no other one begins like, the tokens of its whole prompt): within 1 % of `input_tokens`. `said`
        are the turns before it, which the prompt holds too."""
        system = prefix.head + prefix.text
        # The prefix and what was said are the long part; only what changes is counted anew for each question.
        short = "x" if prefix.kind == "chat" else system[-_TAIL_CHARACTERS:]
        base = self._base.get(system)
        if base is None:
            base = len(self._ids(prefix.kind, system, "why")) - len(self._ids(prefix.kind, short, "why"))
            self._base[system] = base
        used = prefix.tokens
        if said:
            alone = len(self._chat("x", "why"))
            base += len(self._chat("x", "why", said)) - alone
            used = base + alone - len(self._encode("why"))
            if input_tokens - used < _MIN_QUESTION_TOKENS:
                raise InvalidInput(
                    "workload.input_tokens",
                    f"leaves {max(0, input_tokens - used)} tokens for the question of a later turn behind the "
                    "template's; raise input_tokens or lower shared_prefix_tokens.",
                )
        lead = self._lead(random, input_tokens - used)
        start = random.randrange(max(1, len(self._corpus) - input_tokens))

        def count(text: str) -> int:
            return base + len(self._ids(prefix.kind, short, text))

        text = self._fit(lead, input_tokens, count, "workload.input_tokens", start)
        # Behind a prefix without a template's marks a question may melt into it.
        return text, count(text) if prefix.kind == "chat" else len(self._complete(system + text))

    def shortest(self, prefix: SharedPrefix, said: Sequence[Said] = ()) -> int:
        """Tokens of the shortest prompt behind the prefix, and behind what was said, that leaves its question a few
        words: the template's end of the turn and head of the answer included."""
        system = prefix.head + prefix.text
        found = None if said else self._shortest.get(system)
        if found is None:
            found = len(self.prompt_ids(prefix, "why", said)) - len(self._encode("why")) + _SHORT_QUESTION_TOKENS
            if not said:
                self._shortest[system] = found
        return found

    def answer(self, tokens: int, random: Random) -> str:
        """A canned answer of so many tokens."""
        start = random.randrange(max(1, len(self._corpus) - tokens))
        try:
            return self._fit("", tokens, lambda text: len(self._encode(text)), "workload.output_tokens", start).strip()
        except InvalidInput:  # where the files hold nothing so short
            return " ".join(random.choice(self._words) for _ in range(tokens))

    def prompt_ids(self, prefix: SharedPrefix, question: str, said: Sequence[Said] = ()) -> Sequence[int]:
        """The whole prompt's, for a comparison with another prompt's."""
        system = prefix.head + prefix.text
        return self._chat(system, question, said) if said else self._ids(prefix.kind, system, question)

    def tokens_of_head(self, head: str, kind: Kind = "chat") -> tuple[int, ...]:
        """The leading tokens of a prompt whose system message begins with `head`, as far as that decides them."""
        pairs = zip(self._ids(kind, f"{head}alpha", "x"), self._ids(kind, f"{head}Why", "x"), strict=False)
        return tuple(left for left, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))

    def _lead(self, random: Random, room: int) -> str:
        count = max(1, min(_LEAD_WORDS, room // 3))
        for _ in range(1_000):
            lead = " ".join(random.choice(self._words) for _ in range(count))
            if lead not in self._used:
                self._used.add(lead)
                return lead
        raise InvalidInput(
            "workload.input_tokens",
            f"{room} tokens behind the shared prefix are too few for so many different questions; raise input_tokens.",
        )

    def _ids(self, kind: Kind, prefix: str, question: str) -> Sequence[int]:
        return self._chat(prefix, question) if kind == "chat" else self._complete(prefix + question)

    def _shared(self, prefix: str, kind: Kind) -> int:
        """Leading tokens that two prompts with different questions have in common."""
        return in_common(self._ids(kind, prefix, "alpha"), self._ids(kind, prefix, "Why"))

    def _fit(self, head: str, target: int, count: Callable[[str], int], field: str, start: int = 0) -> str:
        """`head` + text from the corpus + single-token words such that `count` is `target`, or within 1 % of it."""
        while count(head) > target and " " in head:
            head = head.rpartition(" ")[0]
        filler = f" {self._words[0]}"
        take = max(0, target - count(head))
        pad, best, best_gap = 0, head, abs(target - count(head))
        tried: set[tuple[int, int]] = set()
        for _ in range(_MOST_FITS):
            # A word more may be two tokens more, where the last one and what follows it were one: then less text.
            if (take, pad) in tried:
                if not take:
                    break
                take -= 1
            tried.add((take, pad))
            body = self._decode(self._from_corpus(start, take)).replace("\ufffd", "") if take else ""
            text = f"{head}{' ' if body else ''}{body.strip()}{filler * pad}"
            gap = target - count(text)
            if abs(gap) < best_gap:
                best, best_gap = text, abs(gap)
            if gap == 0:
                return text
            if gap > 0 or pad >= -gap:
                pad += gap
            elif take > 0:
                take, pad = max(0, take + gap), 0
            else:
                break
        if best_gap > _TOLERANCE * target:
            raise InvalidInput(
                field, f"{target} tokens can't be met within 1 % with this tokenizer; nearest: {count(best)}."
            )
        return best

    def _from_corpus(self, start: int, length: int) -> list[int]:
        """`length` ids from `start` on; past the end it goes on at the beginning."""
        size = len(self._corpus)
        start %= size
        ids = self._corpus[start : start + length]
        while len(ids) < length:
            ids = ids + self._corpus[: length - len(ids)]
        return ids
