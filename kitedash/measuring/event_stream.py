"""Server-sent events out of arbitrary network chunks, and what a chunk of an OpenAI stream means for the timing."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


class EventStream:
    """Collects bytes, gives whole events' data. Lines end in LF, CRLF or CR; comments and other fields are skipped."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of every event that this chunk completes."""
        events: list[bytes] = []
        lines = (self._rest + chunk).splitlines(keepends=True)
        self._rest = b""
        # A line that ends in CR may yet get its LF, so it waits as well.
        if lines and not lines[-1].endswith(b"\n"):
            self._rest = lines.pop()
        for whole in lines:
            line = whole.rstrip(b"\r\n")
            if not line:
                if self._data:
                    events.append(b"\n".join(self._data))
                    self._data = []
            elif line.startswith(b"data:"):
                self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
        return events


@dataclass
class Answer:
    """What one streamed answer said, as far as timing needs it. Moments are the caller's clock."""

    first_token: float | None = None
    last_token: float | None = None
    chunks: int = 0  # chunks that carried output
    chunk_moments: list[float] = field(default_factory=list)  # of all but the first
    finish_reason: str = ""
    done: bool = False  # the stream said [DONE]
    tokens_in: int | None = None
    tokens_cached: int | None = None
    tokens_out: int | None = None
    metrics: dict[str, Any] = field(default_factory=dict)
    error: str = ""

    def take(self, data: bytes, moment: float) -> None:
        """Reads one event. Raises ValueError on anything that is no JSON object."""
        if data == b"[DONE]":
            self.done = True
            return
        event = json.loads(data)
        if not isinstance(event, dict):
            raise ValueError("an event is no JSON object")
        if error := event.get("error"):
            self.error = str(error.get("message", error) if isinstance(error, dict) else error)
            return
        for choice in event.get("choices") or ():
            if _carries_output(choice):
                self.chunks += 1
                self.last_token = moment
                if self.first_token is None:
                    self.first_token = moment
                else:
                    self.chunk_moments.append(moment)
            self.finish_reason = choice.get("finish_reason") or self.finish_reason
        if usage := event.get("usage"):
            self.tokens_in = usage.get("prompt_tokens")
            self.tokens_out = usage.get("completion_tokens")
            self.tokens_cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
        if metrics := event.get("metrics"):
            self.metrics = metrics


def _carries_output(choice: dict[str, Any]) -> bool:
    """A role-only chunk is no token. A chunk without a role is one even when its text is empty: a token may be half
    of a character, and vLLM sends nothing where it has none (entrypoints/openai/chat_completion/serving.py). A chunk
    that ends at the length limit carries the last token, a chunk that ends otherwise may carry none."""
    may_be_empty = choice.get("finish_reason") in (None, "length")
    if "text" in choice:
        return bool(choice["text"]) or may_be_empty
    delta = choice.get("delta") or {}
    if any(delta.get(name) for name in ("content", "reasoning", "reasoning_content", "tool_calls")):
        return True
    return bool(delta) and "role" not in delta and may_be_empty
