"""A run's raw data as files: every request, the server's seconds, every load level and answer, as Parquet or CSV.

Written as it is read, block by block, so that no more than one block is held.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import BinaryIO, Final, Literal, get_args

import pyarrow as pa
import pyarrow.parquet as pq
from sqlalchemy.orm import Session

from db import experiments, results, runs
from db.engine import sessions
from kitedash.domain.csv_cell import csv_cell
from kitedash.domain.request_parts import PARTS
from kitedash.domain.results import Answer, BlockResult, LevelSummary
from kitedash.measuring import request_table, timeline
from kitedash.measuring.request_table import Column, decode_table
from kitedash.settings import settings

What = Literal["requests", "timeline", "levels", "answers"]
Format = Literal["parquet", "csv"]
WHATS: Final[tuple[What, ...]] = get_args(What)
FORMATS: Final[tuple[Format, ...]] = get_args(Format)
MOST_ROWS_ON_A_PAGE: Final = 200_000  # a download is built in memory, beside what is measured on the same machine
MIME: Final = {"parquet": "application/vnd.apache.parquet", "csv": "text/csv"}

_TEXT, _NUMBER, _COUNT, _YES_NO = pa.string(), pa.float64(), pa.int64(), pa.bool_()
_BLOCK_COLUMNS: Final = (
    Column("rate_per_s", _NUMBER, "offered rate of the load level, requests per second"),
    Column("block", pa.int32(), "number of the block within the level, from 0"),
    Column("block_status", _TEXT, "ok, overloaded, or invalid: an invalid block counts nowhere"),
)
_ESTIMATES: Final = tuple(field.name for field in fields(LevelSummary) if field.type == "Estimate")
_ANSWER_COLUMNS: Final = (
    Column("suite", _TEXT, "name of the suite"),
    Column("suite_version", _TEXT, "hash of its items and scorers; only equal versions compare"),
    Column("item_id", _TEXT, "the question"),
    Column("cluster", _TEXT, "items of one cluster may rise and fall together"),
    Column("kind", _TEXT, "kind of question"),
    Column("passed", _YES_NO, "scored 1 and came to its end"),
    Column("score", _NUMBER, "0 to 1"),
    Column("finish_reason", _TEXT, "as the server said it; length: cut off at the token limit"),
    Column("error", _TEXT, "why there is no answer; empty: there is one"),
    Column("tokens_out", _COUNT, "output tokens as the server counted them; null: not said"),
    Column("text", _TEXT, "the answer"),
    Column("reference", _TEXT, "what was expected"),
    Column("prompt_sha256", _TEXT, "hash of the prompt; equal hashes were asked the same"),
)


@dataclass(frozen=True)
class RawFile:
    name: str
    mime: str
    data: bytes


def columns(what: What) -> tuple[Column, ...]:
    """The columns of a file with their types and meanings; the unit is in the name."""
    if what == "requests":
        return (*_BLOCK_COLUMNS, *request_table.COLUMNS)
    if what == "timeline":
        return (*_BLOCK_COLUMNS, *timeline.COLUMNS)
    return _level_columns() if what == "levels" else _ANSWER_COLUMNS


def raw_file(run_id: str, what: What, file_format: Format) -> RawFile:
    """The whole file in memory, for a download of up to `MOST_ROWS_ON_A_PAGE`. Raises NotFound."""
    target = io.BytesIO()
    write(run_id, what, file_format, target)
    return RawFile(file_name(run_id, what, file_format), MIME[file_format], target.getvalue())


def write(run_id: str, what: What, file_format: Format, target: BinaryIO) -> int:
    """Writes the file to `target`, which stays open, and returns its rows. A run without such data has a file with no
    rows. Raises NotFound, before anything is written."""
    with sessions(settings().url)() as session:
        runs.get(session, run_id)
        of = {"requests": _requests, "timeline": _timeline, "levels": _levels, "answers": _answers}
        tables = of[what](session, run_id)
        return (_write_parquet if file_format == "parquet" else _write_csv)(_schema(what), tables, target)


def file_name(run_id: str, what: What, file_format: Format) -> str:
    """Experiment, candidate and run, such as `quickstart_int8_1a2b3c4d_requests.csv`. Raises NotFound."""
    with sessions(settings().url)() as session:
        run = runs.get(session, run_id)
        experiment = experiments.get(session, run.experiment_id)
        return name_of(experiment.name, run.candidate_name, run.id, what, file_format)


def name_of(experiment_name: str, candidate_name: str, run_id: str, what: What, file_format: Format) -> str:
    """As `file_name`, of a run that was read already."""
    parts = (experiment_name, candidate_name, run_id[:8], what)
    return "_".join(re.sub(r"[^A-Za-z0-9.=+-]+", "-", part).strip("-.") for part in parts) + f".{file_format}"


def _schema(what: What) -> pa.Schema:
    return pa.schema([pa.field(c.name, c.type, metadata={"meaning": c.meaning}) for c in columns(what)])


def _requests(session: Session, run_id: str) -> Iterator[pa.Table]:
    for block in results.each_block(session, run_id):
        yield _with_block(block, decode_table(block.requests_blob), _schema("requests"))


def _timeline(session: Session, run_id: str) -> Iterator[pa.Table]:
    for block in results.block_heads(session, run_id):
        if blob := results.timeline(session, run_id, block.rate_per_s, block.block):
            yield _with_block(block, timeline.decode_table(blob), _schema("timeline"))


def _with_block(block: BlockResult, table: pa.Table, schema: pa.Schema) -> pa.Table:
    head = (block.rate_per_s, block.block, str(block.status))
    first = [pa.array([value] * len(table), column.type) for value, column in zip(head, _BLOCK_COLUMNS, strict=True)]
    return pa.Table.from_arrays([*first, *table.columns], schema=schema)


def _levels(session: Session, run_id: str) -> Iterator[pa.Table]:
    rows = [_level_row(level) for level in results.levels(session, run_id)]
    yield pa.Table.from_pylist(rows, schema=_schema("levels"))


def _answers(session: Session, run_id: str) -> Iterator[pa.Table]:
    schema = _schema("answers")
    names = {field.name for field in fields(Answer)}
    for suite in results.suites(session, run_id):
        rows = [
            {"suite": suite.name, "suite_version": suite.version, **{name: getattr(answer, name) for name in names}}
            for answer in results.answers(session, run_id, suite.name)
        ]
        yield pa.Table.from_pylist(rows, schema=schema)


def _level_columns() -> tuple[Column, ...]:
    found = []
    for field in fields(LevelSummary):
        if field.name == "parts_ms":
            found += [
                Column(f"part_{part}_ms", _NUMBER, "mean over the requests around the TTFT P90") for part in PARTS
            ]
        elif field.name in _ESTIMATES:
            stem = field.name.removesuffix("_ms")
            found += [
                Column(field.name, _NUMBER, "from the due time; null: a failed request, or not known"),
                Column(f"{stem}_low_ms", _NUMBER, "lower end of its 95 % interval; null: not established"),
                Column(f"{stem}_high_ms", _NUMBER, "upper end of its 95 % interval; null: not established"),
                Column(f"{stem}_n", _COUNT, "requests that it rests on"),
                Column(f"{stem}_note", _TEXT, "why a bound is missing"),
            ]
        else:
            found.append(Column(field.name, *_OTHER_LEVEL_COLUMNS[field.name]))
    return tuple(found)


_OTHER_LEVEL_COLUMNS: Final = {
    "rate_per_s": (_NUMBER, "offered rate, requests per second"),
    "status": (_TEXT, "ok, overloaded or invalid"),
    "reason": (_TEXT, "why it is overloaded or invalid, or which blocks are"),
    "blocks": (_COUNT, "valid blocks"),
    "n_requests": (_COUNT, "requests after the warm-up"),
    "n_failed": (_COUNT, "failed ones among them"),
    "error_rate": (_NUMBER, "failed / all"),
    "delivered_rate_per_s": (_NUMBER, "sent / measured seconds, requests per second"),
    "output_tokens_per_s": (_NUMBER, "tokens of the answers that ended within the measured seconds"),
    "prefix_hit_rate": (_NUMBER, "cached / prompt tokens; null: not said"),
    "running_max": (_NUMBER, "largest value of the engine's gauge of running requests"),
}


def _level_row(level: LevelSummary) -> dict[str, object]:
    row: dict[str, object] = {name: getattr(level, name) for name in _OTHER_LEVEL_COLUMNS} | {
        "status": str(level.status)
    }
    row |= {f"part_{part}_ms": level.parts_ms.get(part) for part in PARTS}
    for name in _ESTIMATES:
        estimate, stem = getattr(level, name), name.removesuffix("_ms")
        row |= {name: estimate.value, f"{stem}_low_ms": estimate.low, f"{stem}_high_ms": estimate.high}
        row |= {f"{stem}_n": estimate.n, f"{stem}_note": estimate.note}
    return row


def _write_parquet(schema: pa.Schema, tables: Iterator[pa.Table], target: BinaryIO) -> int:
    rows = 0
    with pq.ParquetWriter(target, schema, compression="zstd") as writer:
        for table in tables:
            writer.write_table(table)
            rows += len(table)
    return rows


def _write_csv(schema: pa.Schema, tables: Iterator[pa.Table], target: BinaryIO) -> int:
    text = io.TextIOWrapper(target, encoding="utf-8", newline="", write_through=True)
    try:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(schema.names)
        rows = 0
        for table in tables:
            for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
                writer.writerow([csv_cell(cell) for cell in row])
                rows += 1
        return rows
    finally:
        text.detach()  # or closing the wrapper would close the target
