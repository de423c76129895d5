from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitedash.measuring.event_stream import Answer, EventStream


def chat(delta: dict[str, object], reason: str | None = None) -> bytes:
    return json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}).encode()


ROLE, HELLO, EMPTY = chat({"role": "assistant", "content": ""}), chat({"content": "Hé"}), chat({"content": ""})
STREAM = (
    b": ping\r\n\r\ndata: "
    + ROLE
    + b"\n\ndata:"
    + HELLO
    + b"\r\n\r\nevent: x\ndata: one\ndata: two\n\ndata: [DONE]\n\n"
)
EVENTS = [ROLE, HELLO, b"one\ntwo", b"[DONE]"]


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_events_do_not_depend_on_where_the_network_cuts(cuts: list[int]) -> None:
    stream, events = EventStream(), []
    edges = [0, *sorted(cuts), len(STREAM)]
    for begin, end in itertools.pairwise(edges):
        events += stream.feed(STREAM[begin:end])
    assert events == EVENTS


def test_an_event_is_given_only_when_it_is_complete() -> None:
    stream = EventStream()
    assert stream.feed(b"data: {}\n") == []
    assert stream.feed(b"\n") == [b"{}"]


def test_a_role_only_chunk_is_no_token() -> None:
    answer = Answer()
    answer.take(ROLE, 1.0)
    assert answer.first_token is None
    answer.take(HELLO, 2.0)
    answer.take(chat({"content": " you"}, "length"), 3.5)
    assert (answer.first_token, answer.last_token, answer.chunks) == (2.0, 3.5, 2)
    assert answer.finish_reason == "length"


def test_half_a_character_is_a_token_without_text() -> None:
    answer = Answer()
    answer.take(ROLE, 1.0)
    answer.take(EMPTY, 2.0)
    assert answer.first_token == 2.0


def test_the_empty_end_of_an_empty_answer_is_no_token() -> None:
    answer = Answer()
    answer.take(ROLE, 1.0)
    answer.take(chat({"content": ""}, "stop"), 2.0)
    answer.take(chat({}, "stop"), 2.0)
    assert answer.first_token is None


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_reasoning_is_output(name: str) -> None:
    answer = Answer()
    answer.take(chat({"role": "assistant", name: "Hm"}), 4.0)
    assert answer.first_token == 4.0


def test_completions_carry_text() -> None:
    answer = Answer()
    answer.take(b'{"choices":[{"text":"a","finish_reason":null}]}', 1.0)
    answer.take(b'{"choices":[{"text":"","finish_reason":"stop"}]}', 2.0)
    assert (answer.first_token, answer.last_token) == (1.0, 1.0)


def test_the_usage_chunk_gives_counts_and_timings() -> None:
    answer = Answer()
    usage = {"prompt_tokens": 300, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 256}}
    answer.take(json.dumps({"choices": [], "usage": usage, "metrics": {"queue_time_ms": 1.5}}).encode(), 9.0)
    assert (answer.tokens_in, answer.tokens_cached, answer.tokens_out) == (300, 256, 20)
    assert answer.metrics == {"queue_time_ms": 1.5}
    assert answer.last_token is None


def test_an_error_in_the_stream_is_kept() -> None:
    answer = Answer()
    answer.take(b'{"error":{"message":"out of memory","code":500}}', 1.0)
    assert answer.error == "out of memory"


@pytest.mark.parametrize("data", [b"not json", b"[1]", b""])
def test_what_is_no_event_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        Answer().take(data, 1.0)
