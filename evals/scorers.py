"""Scorers of generated answers. Each is exact on what it compares: similar is not the same (`x > 1`, `x < 1`)."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Mapping, Sequence
from typing import Final

MAX_ANSWER_CHARS: Final = 400
_LAYOUT: Final = {tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.COMMENT}


def _bare(text: str) -> str:
    """Without the marks that a chat model wraps code in, and without a full stop that ends a sentence."""
    text = text.strip().strip("`").strip()
    if text.endswith(".") and not text.endswith(("..", " .")):
        text = text[:-1].rstrip("`").rstrip()
    return text


def _literal(text: str) -> tuple[bool, object]:
    try:
        return True, ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return False, None


def _tokens(text: str) -> list[str] | None:
    try:
        found = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return None
    return [token.string for token in found if token.type not in _LAYOUT]


def _same(left: object, right: object) -> bool:
    """Equal in value and kind: 30 and 30.0 are the same number, True is not 1, and (1,) is not [1]."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left == right
    if type(left) is not type(right):
        return False
    if isinstance(left, tuple | list) and isinstance(right, tuple | list):
        return len(left) == len(right) and all(_same(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    return left == right


def value(answer: str, reference: str, args: Mapping[str, int]) -> float:
    """1 if the answer is the reference's Python value, however it is written ('a' or "a", 1_000 or 1000).

    An expression that is no literal must have the same tokens. No part of an answer counts: "5 or 6" is not 5.
    """
    text = _bare(answer)
    if not text or len(text) > MAX_ANSWER_CHARS:
        return 0.0
    wanted, literal = _literal(reference)
    given, found = _literal(text)
    if wanted or given:
        return float(wanted and given and _same(found, literal))
    tokens = _tokens(text)
    return float(bool(tokens) and tokens == _tokens(reference))


def name(answer: str, reference: str, args: Mapping[str, int]) -> float:
    """1 if the answer names the reference as a whole word, and no other name.

    A dotted reference may be answered by its last part and the other way round (`pydantic.BaseModel`). Lower-case words
    around it are language ("the class Base"); any other name among them is a list that hedges, and scores 0, as does
    an answer more than `max_extra_chars` (default 40) longer than the reference.
    """
    text = _bare(answer)
    if not text or len(text) > len(reference) + args.get("max_extra_chars", 40):
        return 0.0
    last = reference.rsplit(".", 1)[-1]
    names = re.findall(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*", text)
    hits = [found for found in names if found.rsplit(".", 1)[-1] == last]
    others = [found for found in names if found not in hits and (not found.islower() or "_" in found or "." in found)]
    return float(len(hits) == 1 and not others)


_SCORERS: Final = {"value": value, "name": name}


def score(kind: str, args: Mapping[str, int], references: Sequence[str], answer: str) -> float:
    """The best score of an answer over the references, 0 or 1. An empty answer scores 0 by every scorer."""
    scorer = _SCORERS[kind]
    return max((scorer(answer, reference, args) for reference in references), default=0.0)
