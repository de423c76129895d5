"""A recorded trace: when requests came and how many tokens they had. Read from CSV or JSON Lines, and checked.

Column names are those of common public traces as well as our own; capitals, blanks and underscores make no difference.
Within KiteDash a trace is one canonical CSV, so that equal requests are one content whatever file they came from.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Literal

from kitedash.domain.errors import InvalidInput
from kitedash.domain.sentences import shown

MOST_BYTES = 100_000_000
MOST_ROWS = 1_000_000
LEAST_ROWS = 2
MOST_INPUT_TOKENS = 1_000_000
LEAST_INPUT_TOKENS = 8
MOST_OUTPUT_TOKENS = 100_000
MOST_TEXT = 200  # characters of a session's or a prefix's name
DISPERSION_WINDOWS = 50
SHORT_CHAT_TOKENS = 50  # some templates take as many, with a question of a few words

Unit = Literal["s", "ms"]
ARRIVAL, INPUT, OUTPUT, SESSION, PREFIX = "arrival", "input_tokens", "output_tokens", "session_id", "prefix_id"
COLUMNS = (ARRIVAL, INPUT, OUTPUT, SESSION, PREFIX)
# What each column may be called, without capitals, blanks and underscores.
_NAMES: Mapping[str, tuple[str, ...]] = {
    ARRIVAL: ("arrival", "arrivals", "arrivaltime", "timestamp", "time"),
    INPUT: ("inputtokens", "inputlength", "contexttokens", "prompttokens", "requesttokens"),
    OUTPUT: ("outputtokens", "outputlength", "generatedtokens", "completiontokens", "responsetokens"),
    SESSION: ("sessionid", "session", "conversationid"),
    PREFIX: ("prefixid", "prefix", "prefixhash", "hash", "hashids"),
}
_IDS_OF_BLOCKS = (
    "hashids"  # of a prompt's blocks from its first one on, so requests with the same first one begin alike
)
_COLUMN_OF = {name: column for column, names in _NAMES.items() for name in names}
_FRACTION = re.compile(r"(\.\d{6})\d+")  # finer than a microsecond, which Python's times can't hold


@dataclass(frozen=True)
class TraceRow:
    """One recorded request. `arrival_s` counts from the trace's first request. `session`: requests of one session
    follow each other; `prefix`: requests of one prefix begin alike. None: of none."""

    arrival_s: float
    tokens_in: int
    tokens_out: int
    session: str | None = None
    prefix: str | None = None


@dataclass(frozen=True)
class Trace:
    """Requests in the order of their arrival, from 0 s on. `has_prefixes`: the trace says which requests begin alike;
    else all do."""

    rows: tuple[TraceRow, ...]
    has_prefixes: bool = False

    @property
    def span_s(self) -> float:
        """From the first request to the last."""
        return self.rows[-1].arrival_s

    @property
    def rate_per_s(self) -> float:
        """As it was recorded: gaps over the time that they take."""
        return (len(self.rows) - 1) / self.span_s

    @property
    def period_s(self) -> float:
        """After which it begins again where it is replayed for longer: one mean gap behind its last request."""
        return len(self.rows) / self.rate_per_s

    @property
    def longest_request_tokens(self) -> int:
        """Prompt and answer together."""
        return max(row.tokens_in + row.tokens_out for row in self.rows)

    @property
    def shortest_prompt_tokens(self) -> int:
        return min(row.tokens_in for row in self.rows)

    @cached_property
    def dispersion(self) -> float:
        """Variance of the number of requests in a window over its mean: 1 for Poisson. Windows are a fiftieth of the
        trace, of ten requests at least; below two windows, or for regular requests, it is 1 (none is claimed)."""
        windows = min(DISPERSION_WINDOWS, len(self.rows) // 10)
        if windows < 2:
            return 1.0
        counts = [0] * windows
        for row in self.rows:
            counts[min(windows - 1, int(row.arrival_s / self.period_s * windows))] += 1
        mean = len(self.rows) / windows
        return max(1.0, sum((count - mean) ** 2 for count in counts) / (windows - 1) / mean)

    def csv(self) -> bytes:
        """The canonical form, which `parse` reads back to an equal trace."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS if self.has_prefixes else COLUMNS[:-1])
        for row in self.rows:
            cells = (repr(row.arrival_s), row.tokens_in, row.tokens_out, row.session or "")
            writer.writerow((*cells, row.prefix or "") if self.has_prefixes else cells)
        return text.getvalue().encode()

    @cached_property
    def sha256(self) -> str:
        """Of the canonical form."""
        return hashlib.sha256(self.csv()).hexdigest()


def parse(content: bytes, *, source: str = "the trace", unit: Unit = "s", sort: bool = False) -> Trace:
    """The trace in a CSV or JSON Lines file. `unit` is that of arrivals that are numbers; times with a date are read
    as ISO 8601. Rows must be in the order of arrival unless they are to be sorted (`sort`).

    Raises InvalidInput: one sentence that names the line and the column of the first fault.
    """
    if len(content) > MOST_BYTES:
        raise InvalidInput("", f"{source} has {len(content):,} bytes; at most {MOST_BYTES:,}")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInput("", f"{source} is not UTF-8 text") from None
    records = _json_lines(text, source) if text.lstrip()[:1] == "{" else _csv_rows(text, source)
    read: list[tuple[float, TraceRow]] = []
    has_prefixes = is_dated = False
    for line, record in records:
        if len(read) == MOST_ROWS:
            raise InvalidInput("", f"{source} has more than {MOST_ROWS:,} requests, the most that a trace may have")
        where = f"{source}, line {line}"
        has_prefixes = has_prefixes or PREFIX in record
        arrival_s, dated = _arrival_s(record, where, unit)
        if read and dated != is_dated:
            raise InvalidInput("", f"{where}, column {ARRIVAL}: some are times with a date and some are numbers")
        is_dated = dated
        if read and arrival_s < read[-1][0] and not sort:
            raise InvalidInput(
                "", f"{where}, column {ARRIVAL}: comes before the request above it; sort the requests by arrival"
            )
        row = TraceRow(
            0.0,
            _tokens(record, INPUT, where, LEAST_INPUT_TOKENS, MOST_INPUT_TOKENS),
            _tokens(record, OUTPUT, where, 1, MOST_OUTPUT_TOKENS),
            _text(record, SESSION, where),
            _text(record, PREFIX, where),
        )
        read.append((arrival_s, row))
    if len(read) < LEAST_ROWS:
        raise InvalidInput("", f"{source} has {len(read)} requests; a trace has {LEAST_ROWS} or more")
    if sort:
        read.sort(key=lambda one: one[0])
    first_s = read[0][0]
    if read[-1][0] == first_s:
        raise InvalidInput("", f"{source}, column {ARRIVAL}: all requests come at the same moment")
    rows = tuple(
        TraceRow(round(moment - first_s, 9), row.tokens_in, row.tokens_out, row.session, row.prefix)
        for moment, row in read
    )
    return Trace(rows, has_prefixes)


def short_prompts(name: str, shortest_prompt_tokens: int) -> str:
    """What to know of a trace whose prompts may be too short for a chat template, or ""."""
    if shortest_prompt_tokens >= SHORT_CHAT_TOKENS:
        return ""
    return (
        f"{name} has a prompt of {shortest_prompt_tokens:,} tokens: a model's chat template and a question take some "
        f"15 to {SHORT_CHAT_TOKENS}, and a run that can't write a prompt so short fails. Completions have no template."
    )


def _csv_rows(text: str, source: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(reader, None)
        if header is None:
            raise InvalidInput("", f"{source} is empty")
        columns = _columns(header, f"{source}, line 1")
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(header):
                raise InvalidInput(
                    "", f"{source}, line {reader.line_num}: has {len(cells)} cells, and the header has {len(header)}"
                )
            where = f"{source}, line {reader.line_num}"
            yield (
                reader.line_num,
                {column: _value(header[at], cells[at].strip(), where) for column, at in columns.items()},
            )
    except csv.Error as error:
        raise InvalidInput("", f"{source}, line {reader.line_num}: is no CSV ({error})") from None


def _json_lines(text: str, source: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for line, written in enumerate(io.StringIO(text), 1):
        if not written.strip():
            continue
        where = f"{source}, line {line}"
        try:
            record = json.loads(written)
        except (ValueError, RecursionError):
            raise InvalidInput("", f"{where}: is no JSON") from None
        if not isinstance(record, dict):
            raise InvalidInput("", f"{where}: must be a JSON object, not {shown(record)}")
        columns = _columns(list(record), where)
        names = list(record)
        yield line, {column: _value(names[at], record[names[at]], where) for column, at in columns.items()}


def _columns(names: list[str], where: str) -> dict[str, int]:
    """Column -> its place; columns that say nothing here are passed over."""
    found: dict[str, int] = {}
    for place, name in enumerate(names):
        column = _COLUMN_OF.get(_plain(name))
        if column is None:
            continue
        if column in found:
            raise InvalidInput("", f"{where}: {shown(names[found[column]])} and {shown(name)} are both the {column}")
        found[column] = place
    if missing := [column for column in (ARRIVAL, INPUT, OUTPUT) if column not in found]:
        raise InvalidInput("", f"{where}: there is no column {', '.join(missing)}")
    return found


def _plain(name: str) -> str:
    return re.sub(r"[\s_]", "", name).lower()


def _value(name: str, value: Any, where: str) -> Any:
    """What a column says; of the ids of a prompt's blocks it is the first one."""
    if _plain(name) != _IDS_OF_BLOCKS or value in ("", None):
        return value
    try:
        ids = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        ids = None
    if not isinstance(ids, list):
        raise InvalidInput("", f"{where}, column {name}: must be a list of ids such as [0, 1], not {shown(value)}")
    return ids[0] if ids else None


def _arrival_s(record: Mapping[str, Any], where: str, unit: Unit) -> tuple[float, bool]:
    """(seconds, whether it was a time with a date)."""
    value = record[ARRIVAL]
    per_s = 1_000 if unit == "ms" else 1
    if isinstance(value, int | float) and not isinstance(value, bool):
        number = _finite(value)
        if number is not None:
            return number / per_s, False
    if isinstance(value, str):
        if (number := _finite(value)) is not None:
            return number / per_s, False
        try:
            moment = datetime.fromisoformat(_FRACTION.sub(r"\1", value.strip()))
        except ValueError:
            pass
        else:
            moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
            return (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds(), True
    raise InvalidInput(
        "",
        f"{where}, column {ARRIVAL}: must be a number of {unit} or a time such as 2026-11-30 12:00:00.5, not "
        f"{shown(value)}",
    )


def _finite(value: Any) -> float | None:
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and abs(number) < 1e15 else None


def _tokens(record: Mapping[str, Any], column: str, where: str, least: int, most: int) -> int:
    value = record[column]
    number = _finite(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else None
    if number is None or not number.is_integer() or not least <= number <= most:
        raise InvalidInput(
            "", f"{where}, column {column}: must be a whole number from {least:,} to {most:,}, not {shown(value)}"
        )
    return int(number)


def _text(record: Mapping[str, Any], column: str, where: str) -> str | None:
    value = record.get(column)
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, str | int) or len(str(value)) > MOST_TEXT:
        raise InvalidInput("", f"{where}, column {column}: must be a name of at most {MOST_TEXT} characters")
    if not str(value).isprintable():
        raise InvalidInput("", f"{where}, column {column}: holds a character that can't be printed")
    return str(value)
