"""The requests of a block as one Parquet blob (zstd): one row a request, columns as described here, units in names."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

FORMAT = b"2"
READABLE = (b"1", FORMAT)  # 1 had no classes, sessions, client processes and moments of single chunks


@dataclass(frozen=True)
class Column:
    name: str
    type: Any
    meaning: str


COLUMNS: tuple[Column, ...] = (
    Column("index", pa.int32(), "position in the block's traffic file"),
    Column("due_s", pa.float64(), "when it was due, s from the start of the block"),
    Column("sent_s", pa.float64(), "when the client sent it, same clock; null: no connection could be made"),
    Column("first_byte_s", pa.float64(), "first byte of the answer's body; null: none came"),
    Column("first_token_s", pa.float64(), "first chunk with output (a role-only chunk is none); null: none came"),
    Column("last_token_s", pa.float64(), "last chunk with output; null: none came"),
    Column("ended_s", pa.float64(), "end of the answer, failure or time-out"),
    Column("tokens_in", pa.int32(), "prompt tokens as the server counted them, template included; null: not said"),
    Column("tokens_cached", pa.int32(), "of those, found in the prefix cache; null: not said"),
    Column("tokens_out", pa.int32(), "output tokens as the server counted them; null: not said"),
    Column("tokens_in_expected", pa.int32(), "prompt tokens that the traffic file promises"),
    Column("tokens_out_expected", pa.int32(), "output tokens asked for; less is a failure"),
    Column("chunks", pa.int32(), "stream chunks with output (several tokens each under speculative decoding)"),
    Column("queue_time_ms", pa.float64(), "engine: from queued to scheduled; null: not said"),
    Column(
        "engine_ttft_ms", pa.float64(), "engine: from scheduled to the first token, that is prefill; null: not said"
    ),
    Column("generation_time_ms", pa.float64(), "engine: from the first token to the last; null: not said"),
    Column("finish_reason", pa.string(), "as the server said it; empty: none"),
    Column("http_status", pa.int32(), "0: no answer came"),
    Column("timed_out", pa.bool_(), "cut off at its time-out, counted from the due time"),
    Column("error", pa.string(), "why it is a failure; empty: it is none"),
    Column("kind", pa.string(), "which of the workload's kinds of requests it is of"),
    Column("session", pa.int32(), "position of its session in the traffic file; null: it is of none"),
    Column("turn", pa.int32(), "its turn in the session, from 0"),
    Column("planned_s", pa.float64(), "when the traffic file has it due; null: when its session comes to it"),
    Column("tokens_shared", pa.int32(), "leading prompt tokens that should have been seen before"),
    Column("process", pa.int32(), "which client process sent it, from 0"),
    Column("chunk_ms", pa.list_(pa.float32()), "output chunks: ms from the first one to each further one"),
)
NAMES = tuple(column.name for column in COLUMNS)
_SCHEMA = pa.schema(
    [pa.field(column.name, column.type, metadata={"meaning": column.meaning}) for column in COLUMNS],
    metadata={"kitedash.requests": FORMAT},
)


def encode(records: Sequence[Mapping[str, Any]]) -> bytes:
    """Rows by column name; a missing key is an error, None is null."""
    columns = {column.name: [record[column.name] for record in records] for column in COLUMNS}
    sink = io.BytesIO()
    pq.write_table(pa.table(columns, schema=_SCHEMA), sink, compression="zstd")
    return sink.getvalue()


def decode(blob: bytes) -> pd.DataFrame:
    """The columns of COLUMNS; null numbers are NaN. Raises ValueError on a blob of another format."""
    frame: pd.DataFrame = decode_table(blob).to_pandas()
    return frame


def decode_table(blob: bytes) -> pa.Table:
    """The columns of COLUMNS with their types, null where nothing was said. Raises ValueError as `decode` does."""
    table = pq.read_table(io.BytesIO(blob))
    if (table.schema.metadata or {}).get(b"kitedash.requests") not in READABLE:
        raise ValueError("not a block's requests in a format that this version reads")
    for field in _SCHEMA:
        if field.name not in table.schema.names:
            table = table.append_column(field, pa.nulls(len(table), field.type))
    return table.select(NAMES)
