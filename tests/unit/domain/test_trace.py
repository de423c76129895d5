from __future__ import annotations

import json
from random import Random

import pytest

from kitedash.domain import trace as traces
from kitedash.domain.errors import InvalidInput
from kitedash.domain.trace import TraceRow, parse, short_prompts

AZURE = (
    b"TIMESTAMP,ContextTokens,GeneratedTokens\n"
    b"2023-11-16 18:17:03.9799600,4808,10\n"
    b"2023-11-16 18:17:04.0319600,3180,8\n"
)
BURSTGPT = b"Timestamp,Model,Request tokens,Response tokens,Total tokens\n5,x,472,18,490\n45,x,1087,230,1317\n"


def test_our_own_columns_with_sessions_and_prefixes() -> None:
    trace = parse(
        b"arrival,input_tokens,output_tokens,session_id,prefix_id\n10.5,100,20,a,p\n12,90,10,,p\n13.25,300,5,a,\n"
    )
    assert trace.has_prefixes
    assert trace.rows == (
        TraceRow(0.0, 100, 20, "a", "p"),
        TraceRow(1.5, 90, 10, None, "p"),
        TraceRow(2.75, 300, 5, "a", None),
    )
    assert trace.span_s == 2.75
    assert trace.rate_per_s == pytest.approx(2 / 2.75), "two gaps in 2.75 s"
    assert trace.period_s == pytest.approx(2.75 * 3 / 2)
    assert trace.longest_request_tokens == 305


@pytest.mark.parametrize(
    ("content", "arrivals", "tokens"),
    [
        (AZURE, [0, 0.052], [(4808, 10), (3180, 8)]),
        (BURSTGPT, [0, 40], [(472, 18), (1087, 230)]),
        (
            b'{"timestamp": 1, "input_length": 9, "output_length": 1, "model": "m"}\n\n'
            b'{"timestamp": 3, "input_length": 10, "output_length": 2}\n',
            [0, 2],
            [(9, 1), (10, 2)],
        ),
        (
            b'\xef\xbb\xbf"arrival","prompt_tokens","completion_tokens"\r\n2026-11-30T12:00:00Z,9,1\r\n2026-11-30T13:00:00+00:30,9,1\r\n',
            [0, 1_800],
            [(9, 1), (9, 1)],
        ),
    ],
    ids=["azure", "burstgpt", "json lines", "ISO times with zones"],
)
def test_files_of_common_public_traces(content: bytes, arrivals: list[float], tokens: list[tuple[int, int]]) -> None:
    trace = parse(content)
    assert [row.arrival_s for row in trace.rows] == pytest.approx(arrivals)
    assert [(row.tokens_in, row.tokens_out) for row in trace.rows] == tokens
    assert not trace.has_prefixes


def test_of_the_ids_of_a_prompt_s_blocks_the_first_says_who_begins_alike() -> None:
    lines = [
        {"timestamp": 0, "input_length": 6_758, "output_length": 500, "hash_ids": [0, 1, 2]},
        {"timestamp": 27, "input_length": 900, "output_length": 5, "hash_ids": [0, 7]},
        {"timestamp": 30, "input_length": 700, "output_length": 5, "hash_ids": [9]},
        {"timestamp": 31, "input_length": 70, "output_length": 5, "hash_ids": []},
    ]
    trace = parse("\n".join(map(json.dumps, lines)).encode(), unit="ms")
    assert [row.prefix for row in trace.rows] == ["0", "0", "9", None]
    assert trace.has_prefixes
    cells = b'timestamp,input_length,output_length,Hash IDs\n0,99,1,"[4, 5]"\n1,99,1,[4]\n2,99,1,\n'
    assert [row.prefix for row in parse(cells).rows] == ["4", "4", None]
    with pytest.raises(InvalidInput, match=r"line 2, column hash_ids: must be a list of ids such as \[0, 1\], not '7'"):
        parse(b"timestamp,input_length,output_length,hash_ids\n0,99,1,7\n1,99,1,7\n")


def test_a_prompt_that_a_chat_template_may_not_leave_room_for_is_named() -> None:
    trace = parse(b"timestamp,input_length,output_length\n0,12,1\n1,90,1\n")
    assert trace.shortest_prompt_tokens == 12
    assert short_prompts("monday", 12).startswith("monday has a prompt of 12 tokens: a model's chat template")
    assert short_prompts("monday", 50) == ""


def test_numbers_may_be_milliseconds() -> None:
    content = b"timestamp,input_length,output_length\n0,9,1\n2500,9,1\n"
    assert parse(content, unit="ms").span_s == 2.5


HEAD = "arrival,input_tokens,output_tokens\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the trace is empty"),
        (HEAD, "the trace has 0 requests; a trace has 2 or more"),
        (HEAD + "0,9,1\n", "the trace has 1 requests; a trace has 2 or more"),
        ("arrival,input_tokens\n", "line 1: there is no column output_tokens"),
        ("a,b\n", "line 1: there is no column arrival, input_tokens, output_tokens"),
        ("arrival,timestamp,input_tokens,output_tokens\n", "line 1: 'arrival' and 'timestamp' are both the arrival"),
        (HEAD + "0,9,1\n1,9\n", "line 3: has 2 cells, and the header has 3"),
        (HEAD + "0,9,1\nsoon,9,1\n", "line 3, column arrival: must be a number of s or a time such as"),
        (HEAD + "0,9,1\nnan,9,1\n", "line 3, column arrival: must be a number"),
        (
            HEAD + "0,9,1\n1,nine,1\n",
            "line 3, column input_tokens: must be a whole number from 8 to 1,000,000, not 'nine'",
        ),
        (HEAD + "0,7,1\n", "line 2, column input_tokens: must be a whole number from 8 to 1,000,000, not '7'"),
        (HEAD + "0,9,0\n", "line 2, column output_tokens: must be a whole number from 1 to 100,000, not '0'"),
        (HEAD + "0,9.5,1\n", "line 2, column input_tokens: must be a whole number"),
        (HEAD + "1,9,1\n0.5,9,1\n", "line 3, column arrival: comes before the request above it; sort"),
        (HEAD + "1,9,1\n1,9,1\n", "column arrival: all requests come at the same moment"),
        (
            HEAD + "1,9,1\n2026-11-30 12:00,9,1\n",
            "line 3, column arrival: some are times with a date and some are numbers",
        ),
        (HEAD + '1,"9,1\n', "is no CSV"),
        ('{"arrival": 0}\n', "line 1: there is no column input_tokens, output_tokens"),
        ('{"arrival": 0, "input_tokens": 9, "output_tokens": 1}\n[1]\n', "line 2: must be a JSON object, not a list"),
        ('{"arrival": 0, "input_tokens": 9, "output_tokens": 1}\n{"a\n', "line 2: is no JSON"),
        ('{"arrival": true, "input_tokens": 9, "output_tokens": 1}\n', "line 1, column arrival: must be a number"),
        ('{"arrival": 0, "input_tokens": true, "output_tokens": 1}\n', "line 1, column input_tokens: must be a whole"),
        (
            '{"arrival": 0, "input_tokens": 9, "output_tokens": 1, "session": "a\\u0000b"}\n',
            "column session_id: holds a char",
        ),
        (
            '{"arrival": 0, "input_tokens": 9, "output_tokens": 1, "prefix": [1]}\n',
            "line 1, column prefix_id: must be a name",
        ),
    ],
)
def test_each_fault_is_one_sentence_with_its_line_and_column(text: str, says: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse(text.encode())
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_no_text_and_what_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="mine is not UTF-8 text"):
        parse(b"\xff\xfe", source="mine")
    monkeypatch.setattr(traces, "MOST_ROWS", 3)
    with pytest.raises(InvalidInput, match="more than 3 requests"):
        parse((HEAD + "".join(f"{at},9,1\n" for at in range(4))).encode())
    monkeypatch.setattr(traces, "MOST_BYTES", 10)
    with pytest.raises(InvalidInput, match="has 11 bytes; at most 10"):
        parse(b"x" * 11)


def test_requests_are_sorted_only_where_that_is_asked_for() -> None:
    trace = parse((HEAD + "2,9,1\n0,10,1\n1,11,1\n").encode(), sort=True)
    assert [(row.arrival_s, row.tokens_in) for row in trace.rows] == [(0, 10), (1, 11), (2, 9)]


def test_the_canonical_file_is_the_same_whatever_file_it_came_from() -> None:
    random = Random(1)
    rows = [
        {"arrival": round(0.1 * at + random.random() / 20, 6), "input_tokens": 8 + at, "output_tokens": 1 + at % 7}
        | {"session_id": f"s{at % 5}", "prefix_id": 'p, "q"' if at % 3 else None}
        for at in range(200)
    ]
    written = parse("\n".join(json.dumps(row) for row in rows).encode())
    again = parse(written.csv())
    assert again == written
    assert again.sha256 == written.sha256 == parse(again.csv()).sha256
    later = [row | {"arrival": row["arrival"] + 1_000_000} for row in rows]  # type: ignore[operator]
    assert parse("\n".join(json.dumps(row) for row in later).encode()).sha256 == written.sha256, "it starts at 0"
    assert parse(written.csv().replace(b",8,", b",9,", 1)).sha256 != written.sha256


def test_dispersion_tells_bursts_from_poisson_arrivals() -> None:
    random = Random(3)
    at, arrivals = 0.0, []
    for _ in range(20_000):
        at += random.expovariate(1)
        arrivals.append(at)
    poisson = "".join(f"{moment},9,1\n" for moment in arrivals)
    # The same in bursts of eight: the count's variance is eight times its mean.
    bursts = "".join(f"{8 * arrivals[number // 8]},9,1\n" for number in range(20_000))
    assert parse((HEAD + poisson).encode()).dispersion == pytest.approx(1, abs=0.6), "50 windows: +- 3 x 0.2"
    assert parse((HEAD + bursts).encode()).dispersion == pytest.approx(8, rel=0.6)
    regular = "".join(f"{at},9,1\n" for at in range(1_000))
    assert parse((HEAD + regular).encode()).dispersion == 1.0
