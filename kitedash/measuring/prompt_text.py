"""Prompts of an exact length in tokens, made of real text: the files of KiteDash itself.

The prefix is shared by all requests; a question begins with words that no other question of the plan begins with,
so nothing beyond the prefix can be found in a cache.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random

import kitedash
from kitedash.domain.errors import InvalidInput

INSTRUCTIONS = (
    "You help the engineers of the repository whose files follow. Answer briefly, and name the file and the function "
    "that you mean.\n"
)
_TOLERANCE = 0.01
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


@lru_cache(maxsize=1)
def repository_text() -> str:
    """KiteDash's own source files in a fixed order, each under its path."""
    root = Path(kitedash.__file__).resolve().parent
    parts = [f"\n# {path.relative_to(root.parent)}\n{path.read_text()}" for path in sorted(root.rglob("*.py"))]
    return "".join(part for part in parts if len(part) > 200)


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
    """Cuts text to token counts. `render(prefix, question)` gives the ids of the whole prompt as the server sees it."""

    def __init__(
        self,
        *,
        render: Callable[[str, str], Sequence[int]],
        encode: Callable[[str], list[int]],
        decode: Callable[[list[int]], str],
    ) -> None:
        self._render, self._encode, self._decode = render, encode, decode
        self._used: set[str] = set()
        self._corpus = encode(repository_text())
        words = sorted(set(re.findall(r"[a-z]{3,10}", repository_text())))
        self._words = [word for word in words if len(encode(f" {word}")) == 1]
        self._base: dict[str, int] = {}

    def shared_prefix(self, tokens: int, input_tokens: int, head: str = "") -> SharedPrefix:
        """A system message whose prompts share exactly `tokens` leading tokens, or those of the bare template where
        that is more. Raises InvalidInput where no question fits behind it."""
        bare = self._shared(head)
        text = head
        if tokens > bare:
            text = self._fit(head + INSTRUCTIONS, tokens, self._shared, "workload.shared_prefix_tokens")
        shared = self._shared(text)
        # What follows the question: the end of the turn and the head of the answer.
        room = input_tokens - (len(self._render(text, "why")) - len(self._encode("why")))
        if room < _MIN_QUESTION_TOKENS:
            most = shared - (_MIN_QUESTION_TOKENS - room)
            raise InvalidInput(
                "workload.input_tokens",
                f"{input_tokens} leaves {max(room, 0)} tokens for a question behind {shared} shared ones and the chat "
                f"template; at most {max(most, 0)} shared tokens fit, or at least "
                f"{input_tokens + _MIN_QUESTION_TOKENS - room} input tokens.",
            )
        return SharedPrefix(text.removeprefix(head), shared, head)

    def question(self, prefix: SharedPrefix, input_tokens: int, random: Random) -> tuple[str, int]:
        """(a question no other one begins like, the tokens of its whole prompt): within 1 % of `input_tokens`."""
        lead = self._lead(random, input_tokens - prefix.tokens)
        start = random.randrange(max(1, len(self._corpus) - input_tokens))
        system = prefix.head + prefix.text
        if system not in self._base:
            # The prefix is the long part; only what changes is counted anew for each question.
            self._base[system] = len(self._render(system, "why")) - len(self._render("x", "why"))
        base = self._base[system]

        def count(text: str) -> int:
            return base + len(self._render("x", text))

        text = self._fit(lead, input_tokens, count, "workload.input_tokens", start)
        return text, count(text)

    def shortest(self, prefix: SharedPrefix) -> int:
        """Tokens of the shortest prompt behind the prefix that leaves its question a few words: the template's end of
        the turn and head of the answer included."""
        system = prefix.head + prefix.text
        return len(self._render(system, "why")) - len(self._encode("why")) + _SHORT_QUESTION_TOKENS

    def tokens_of_head(self, head: str) -> tuple[int, ...]:
        """The leading tokens of a prompt whose system message begins with `head`, as far as that decides them."""
        pairs = zip(self._render(f"{head}alpha", "x"), self._render(f"{head}Why", "x"), strict=False)
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

    def _shared(self, prefix: str) -> int:
        """Leading tokens that two prompts with different questions have in common."""
        pairs = zip(self._render(prefix, "alpha"), self._render(prefix, "Why"), strict=False)
        return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))

    def _fit(self, head: str, target: int, count: Callable[[str], int], field: str, start: int = 0) -> str:
        """`head` + text from the corpus + single-token words such that `count` is `target`, or within 1 % of it."""
        filler = f" {self._words[0]}"
        take = max(0, target - count(head))
        pad, best, best_gap = 0, head, abs(target - count(head))
        for _ in range(16):
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
        while take == 0 and " " in best and count(best) > target:
            best = best.rpartition(" ")[0]
        best_gap = abs(target - count(best))
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
