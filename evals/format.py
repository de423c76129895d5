"""The format of a repository suite: one item a line of JSON. The context is frozen in the item, so that a candidate
is tested and not a retriever, and so that an old suite still means what it meant when the code has moved on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from kitedash.domain.errors import InvalidInput

SCHEMA = 1
KINDS = ("default_value", "constant_value", "base_class")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Message(_Part):
    """A message of the chat. A last message of the assistant is the beginning of its answer, which it continues."""

    role: Literal["system", "user", "assistant"]
    content: Annotated[str, Field(min_length=1)]


class Context(_Part):
    """A piece of the repository that the prompt shows: lines `start`..`end` (from 1, inclusive) and their SHA-256."""

    path: str
    start: Annotated[int, Field(ge=1)]
    end: Annotated[int, Field(ge=1)]
    sha: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Scorer(_Part):
    """How an answer is compared with the references; the functions are in `scorers.py`."""

    type: Literal["value", "name"]
    args: dict[str, int] = Field(default_factory=dict)


class Item(_Part):
    """One question about a repository, with all that is needed to ask it and to score the answer."""

    id: Annotated[str, Field(min_length=1, max_length=200)]
    schema_version: Literal[1] = Field(alias="schema")
    kind: Literal["default_value", "constant_value", "base_class"]
    repo: str
    commit: str  # the one checked out when the item was made; "" outside of version control
    path: str
    span: tuple[int, int]  # lines that hold the answer
    lang: Literal["python"]
    messages: Annotated[tuple[Message, ...], Field(min_length=1)]
    context: tuple[Context, ...]
    reference: Annotated[tuple[str, ...], Field(min_length=1)]
    scorer: Scorer
    max_tokens: Annotated[int, Field(ge=1, le=4_096)]
    stop: Annotated[tuple[str, ...], Field(max_length=4)]
    cluster: str  # items of one cluster may rise and fall together: here the file
    tags: tuple[str, ...] = ()
    source: Literal["generated", "written"]
    reviewed_by: str = ""

    @model_validator(mode="after")
    def _references_say_something(self) -> Item:
        if any(not reference.strip() for reference in self.reference):
            raise ValueError("reference must not be empty: an empty answer would pass")
        return self

    @property
    def prompt_chars(self) -> int:
        return sum(len(message.content) for message in self.messages)

    @property
    def prompt_sha256(self) -> str:
        """Hash of all that decides the answer; equal hashes mean that two candidates were asked the same."""
        asked = [[m.role, m.content] for m in self.messages], self.max_tokens, self.stop
        return hashlib.sha256(json.dumps(asked, ensure_ascii=False).encode()).hexdigest()


def to_line(item: Item) -> str:
    return json.dumps(item.model_dump(by_alias=True, mode="json"), ensure_ascii=False, sort_keys=True)


def read_items(path: Path) -> tuple[Item, ...]:
    """The items of a file. Raises InvalidInput naming the line that is not an item, or an id that comes twice."""
    items: list[Item] = []
    seen: set[str] = set()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            item = Item.model_validate_json(line)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "line"
            raise InvalidInput(f"{path.name}:{number}", f"{where}: {first['msg']}.") from error
        if item.id in seen:
            raise InvalidInput(f"{path.name}:{number}", f"the id {item.id} comes twice; ids must be unique.")
        seen.add(item.id)
        items.append(item)
    return tuple(items)


def write_items(path: Path, items: Iterable[Item]) -> None:
    path.write_text("".join(to_line(item) + "\n" for item in items), encoding="utf-8")
