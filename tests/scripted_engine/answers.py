"""What the scripted engine says. Nothing here is random: the same request gets the same answer."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Reply:
    pieces: tuple[str, ...]  # one a token
    finish_reason: str


def reply_to(body: Mapping[str, Any], question: str, answers: Mapping[str, str], default: str) -> Reply:
    """Exactly the tokens asked for under `ignore_eos`, else the configured answer, cut at the limit."""
    limit = int(body.get("max_completion_tokens") or body.get("max_tokens") or 16)
    text = next((answer for key, answer in answers.items() if key in question), default)
    words = text.split(" ")
    pieces = [word if index == 0 else f" {word}" for index, word in enumerate(words)] if text else []
    if body.get("ignore_eos"):
        filler = pieces or [" and"]
        return Reply(tuple(filler[index % len(filler)] for index in range(limit)), "length")
    if len(pieces) > limit:
        return Reply(tuple(pieces[:limit]), "length")
    return Reply(tuple(pieces), "stop")


def log_probability(before: Any, token: Any) -> float:
    """Between -8 and 0, fixed by the two tokens."""
    return -(zlib.crc32(f"{before}|{token}".encode()) % 8_000) / 1_000


def prompt_log_probabilities(tokens: Sequence[Any], names: Sequence[str]) -> dict[str, list[Any]]:
    """The `logprobs` object of /v1/completions for an echoed prompt; its first token has none."""
    values = [None, *(log_probability(before, token) for before, token in itertools.pairwise(tokens))]
    offsets, offset = [], 0
    for name in names:
        offsets.append(offset)
        offset += len(name)
    # The best alternative is the token itself for two in three, so that "is greedy" comes both ways.
    top = [
        None if value is None else ({name: value} if zlib.crc32(name.encode()) % 3 else {name: value, "\x00": 0.1})
        for name, value in zip(names, values, strict=True)
    ]
    return {"tokens": list(names), "token_logprobs": values, "top_logprobs": top, "text_offset": offsets}
