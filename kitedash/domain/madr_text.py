"""Markdown that text from outside can't break: escaping, tables, code blocks, and numbers with interval and n.

What people, engines and models wrote is data: it becomes text of one paragraph, cell or heading, and never a heading,
list, table, link, code block, HTML or front matter of its own. Addresses and @names stay text (live_text.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import isinf
from typing import Any

from kitedash.domain import wording
from kitedash.domain.live_text import inert

_INLINE = re.compile(r"([\\`*_\[\]<>|~&$#])")
_LINE_START = re.compile(r"^([-+=]|\d{1,9}(?=[.)](?:\s|$)))")
_HIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_TICKS = re.compile(r"`+")

Write = Callable[[float | None], str]


def line(text: str) -> str:
    """On one line, as it is written: for headings, cells, list items and the middle of sentences."""
    return _start(_INLINE.sub(r"\\\1", inert(" ".join(_HIDDEN.sub(" ", text).split()))))


def paragraphs(text: str) -> str:
    """With its line breaks and empty lines, and no other structure."""
    blocks = [
        "\\\n".join(line(one) for one in block.split("\n") if one.strip())
        for block in re.split(r"\n\s*\n", text.replace("\r\n", "\n").replace("\r", "\n"))
    ]
    return "\n\n".join(block for block in blocks if block)


def _start(text: str) -> str:
    """A line that begins no list, rule or underline."""
    found = _LINE_START.match(text)
    if found is None:
        return text
    sign = found[1]
    return f"{sign}\\{text[len(sign) :]}" if sign.isdigit() else f"\\{text}"


def code(text: str) -> str:
    """Short text in code style, safe for a table as well: only for what holds no backtick and no bar."""
    plain = _HIDDEN.sub(" ", text).replace("\n", " ")
    return line(plain) if "`" in plain or "|" in plain or not plain.strip() else f"`{plain}`"


def fenced(text: str, language: str = "text") -> str:
    """A code block whose fence is longer than any run of backticks in it."""
    text = _HIDDEN.sub("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n"))
    fence = "`" * max(3, 1 + max((len(run) for run in _TICKS.findall(text)), default=0))
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Cells must be safe already: from `line`, `code` or the functions below."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(cell or ' ' for cell in cells)} |" for cells in lines)


def bullets(items: Sequence[str]) -> str:
    return "\n".join(f"* {item}" for item in items)


def number_of(value: Any) -> float | None:
    """The number in a document's decimal text."""
    return None if value is None else float(value)


def amount(value: Any, write: Write) -> str:
    """One number of a document; what is beyond any bound is said in words."""
    found = number_of(value)
    return "beyond any bound" if found is not None and isinf(found) else write(found)


def estimate(found: Mapping[str, Any] | None, write: Write, level: str = "95 %", *, noted: bool = True) -> str:
    """ "564 ms (95 % 520 ms to 610 ms, n = 240)"; an end that is not established is "open"."""
    if found is None:
        return wording.UNKNOWN
    low, high = ("open" if found[end] is None else amount(found[end], write) for end in ("low", "high"))
    note = f"; {line(found['note'])}" if found["note"] and noted else ""
    return f"{amount(found['value'], write)} ({level} {low} to {high}, n = {found['n']:,}{note})"


def points(share: float | None) -> str:
    """A change of a share, in percentage points with its sign."""
    return wording.UNKNOWN if share is None else f"{100 * share:+.1f} points"
