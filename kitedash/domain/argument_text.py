"""Arguments as a person types them into a form, `max-num-seqs=4, dtype=float32`, and back without loss.

A value reads as in an experiment file: `true` and `1e-3` are no text, `"1"` in quotes is. Items are parted by commas
or line breaks; a value that holds one of them, or begins with a quote, is written in quotes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from kitedash.domain import plain_yaml
from kitedash.domain.errors import InvalidInput
from kitedash.domain.experiment import ArgValue
from kitedash.domain.sentences import shown

LONGEST = 20_000  # characters of one input
_SIGN = re.compile('[",]')
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*+"')  # possessive: one look at each character
_MAY_BE_NO_TEXT = re.compile(r"~|[\w.+-]+", re.ASCII)
_EXAMPLE = "write name=value, such as max-num-seqs=4"


def in_words(value: ArgValue) -> str:
    """A value as it is shown, text without quotes: to be read, not to be read back."""
    return value if isinstance(value, str) else text_of(value)


def text_of(value: ArgValue) -> str:
    """A value as it is typed: `value_of` reads it back with its type."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return plain_yaml.dump([value]).strip().removeprefix("[").removesuffix("]")
    return value if _is_plain(value) else json.dumps(value, ensure_ascii=False)


@lru_cache(maxsize=4_096)
def value_of(text: str) -> ArgValue | None:
    """What a typed value means; None for `null`, which no argument may hold. Text that looks like nothing else, a
    quote without its end among it, is text, and so is what is longer than an input may be."""
    text = text.strip()
    if len(text) > LONGEST:
        return text
    if text.startswith('"'):
        try:
            read = json.loads(text)
        except ValueError:
            return text
        return read if isinstance(read, str) else text
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if _MAY_BE_NO_TEXT.fullmatch(text):
        try:
            read = plain_yaml.load(text)
        except InvalidInput:
            return text
        if read is None or isinstance(read, bool | int | float):
            return read
    return text


def pairs_text(args: Mapping[str, ArgValue]) -> str:
    return ", ".join(f"{name}={text_of(value)}" for name, value in args.items())


def parse_pairs(text: str, field: str) -> dict[str, ArgValue | None]:
    """The arguments of `name=value, name=value`. Raises InvalidInput for `field` where an item is no such pair."""
    return {name: value_of(value) for name, value in _split_pairs(text, field, _EXAMPLE)}


def values_text(values: Iterable[ArgValue]) -> str:
    return ", ".join(text_of(value) for value in values)


def parse_values(text: str, field: str) -> list[ArgValue | None]:
    """The values of `value, value`. Raises InvalidInput for `field` where the text is too long."""
    return [value_of(item) for item in _items(text, field)]


def environment_text(environment: Mapping[str, str]) -> str:
    """One variable a line."""
    return "\n".join(
        f"{name}={value if _is_one_item(value) else json.dumps(value, ensure_ascii=False)}"
        for name, value in environment.items()
    )


def parse_environment(text: str, field: str) -> dict[str, str]:
    """As `parse_pairs`, but every value is text: `OMP_NUM_THREADS=2` holds "2"."""
    example = 'write NAME=value, and a value with commas in quotes, such as VLLM_CPU_OMP_THREADS_BIND="0,2"'
    found = {}
    for name, value in _split_pairs(text, field, example):
        read = value_of(value) if value.startswith('"') else value
        found[name] = read if isinstance(read, str) else value
    return found


def _split_pairs(text: str, field: str, example: str) -> list[tuple[str, str]]:
    found: dict[str, str] = {}
    for item in _items(text, field):
        name, sign, value = item.partition("=")
        name, value = name.strip(), value.strip()
        if not sign or not name:
            raise InvalidInput(field, f"{example}, not {shown(item)}")
        if not value:
            raise InvalidInput(field, f"{shown(name)} has no value: {example}")
        if name in found:
            raise InvalidInput(field, f"{shown(name)} is there twice")
        found[name] = value
    return list(found.items())


def _items(text: str, field: str) -> list[str]:
    if len(text) > LONGEST:
        raise InvalidInput(field, f"holds {len(text):,} characters; at most {LONGEST:,}")
    return [item for line in text.split("\n") for part in _parts(line) if (item := part.strip())]


def _parts(line: str) -> list[str]:
    """Between the commas that are not in quotes. After a quote without its end there is none that has one: each later
    one is escaped in what the first would hold."""
    found, start, at = [], 0, 0
    while sign := _SIGN.search(line, at):
        at = sign.end()
        if sign[0] == ",":
            found.append(line[start : sign.start()])
            start = at
        elif quoted := _QUOTED.match(line, sign.start()):
            at = quoted.end()
        else:
            first, *rest = line[sign.start() :].split(",")
            return [*found, line[start : sign.start()] + first, *rest]
    return [*found, line[start:]]


def _is_one_item(text: str) -> bool:
    """Can stand without quotes: it is neither parted nor trimmed, nor taken for a quoted text."""
    return bool(text) and text == text.strip() and not any(sign in text for sign in ',"\n')


def _is_plain(text: str) -> bool:
    read = value_of(text) if _is_one_item(text) else None
    return isinstance(read, str) and read == text
