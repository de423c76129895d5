from __future__ import annotations

import io

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kitedash.measuring.request_table import COLUMNS, NAMES, decode, encode


def record(index: int, **changes: object) -> dict[str, object]:
    row: dict[str, object] = {
        "index": index,
        "due_s": 0.5 * index,
        "sent_s": 0.5 * index + 0.001,
        "first_byte_s": None,
        "first_token_s": None,
        "last_token_s": None,
        "ended_s": 9.0,
        "tokens_in": None,
        "tokens_cached": None,
        "tokens_out": None,
        "tokens_in_expected": 300,
        "tokens_out_expected": 20,
        "chunks": 0,
        "queue_time_ms": None,
        "engine_ttft_ms": None,
        "generation_time_ms": None,
        "finish_reason": "",
        "http_status": 0,
        "timed_out": True,
        "error": "timed out",
        "kind": "shared",
        "session": None,
        "turn": None,
        "planned_s": 0.5 * index,
        "tokens_shared": 280,
        "process": 0,
        "chunk_ms": [],
    }
    return row | changes


def test_what_goes_in_comes_out() -> None:
    answered: dict[str, object] = {"first_token_s": 0.21, "tokens_in": 300, "tokens_cached": 0, "http_status": 200}
    good = record(0, **answered, error="", timed_out=False, session=3, turn=1, chunk_ms=[20.5, 41.25])
    frame = decode(encode([good, record(1)]))
    assert tuple(frame.columns) == NAMES
    assert frame.loc[0, "first_token_s"] == 0.21
    assert frame.loc[0, "tokens_cached"] == 0
    assert pd.isna(frame.loc[1, "first_token_s"]), "a request without a first token has none, not zero"
    assert pd.isna(frame.loc[1, "tokens_cached"])
    assert list(frame["timed_out"]) == [False, True]
    assert list(frame["error"]) == ["", "timed out"]
    assert (frame.loc[0, "session"], frame.loc[0, "turn"]) == (3, 1)
    assert pd.isna(frame.loc[1, "session"]), "a request of no session is not of session 0"
    assert [list(chunks) for chunks in frame["chunk_ms"]] == [[20.5, 41.25], []]


def test_no_requests_is_an_empty_table() -> None:
    assert len(decode(encode([]))) == 0


def test_a_record_that_lacks_a_column_is_refused() -> None:
    row = record(0)
    del row["queue_time_ms"]
    with pytest.raises(KeyError):
        encode([row])


def test_a_table_of_the_first_format_is_read_with_nothing_said_in_its_later_columns() -> None:
    later = ("kind", "session", "turn", "planned_s", "tokens_shared", "process", "chunk_ms")
    table = pq.read_table(io.BytesIO(encode([record(0), record(1)])))
    sink = io.BytesIO()
    pq.write_table(table.drop_columns(list(later)).replace_schema_metadata({"kitedash.requests": "1"}), sink)
    frame = decode(sink.getvalue())
    assert tuple(frame.columns) == NAMES
    assert list(frame["due_s"]) == [0.0, 0.5]
    assert frame[list(later)].isna().all().all()


def test_another_parquet_file_is_refused() -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"due_s": [1.0]}), sink)
    with pytest.raises(ValueError, match="not a block's requests"):
        decode(sink.getvalue())


def test_the_blob_is_small() -> None:
    rows = [
        record(i, first_token_s=0.5 * i + 0.2037 + i % 7 / 1e4, tokens_shared=280, error="", timed_out=False)
        for i in range(1_000)
    ]
    assert len(encode(rows)) < 60_000


def test_every_column_says_what_it_means_also_in_the_file() -> None:
    assert all(column.meaning for column in COLUMNS)
    schema = pq.read_schema(io.BytesIO(encode([])))
    assert all(schema.field(name).metadata[b"meaning"] for name in NAMES)
