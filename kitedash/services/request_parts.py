"""The requests of a run, one by one: why those around the P90 are slow, the slowest of a rate, and one in full."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
import pandas as pd
from sqlalchemy.orm import Session

from db import experiments, results, runs
from db.engine import sessions
from kitedash.domain.diagnosis import (
    Intended,
    Usual,
    diagnose_around,
    diagnose_request,
    intended_prefixes,
    usual_of,
)
from kitedash.domain.diagnosis_text import advice, explanation, sentence
from kitedash.domain.errors import NotFound
from kitedash.domain.experiment import ExperimentSpec
from kitedash.domain.form_fields import PREFIX_CACHING
from kitedash.domain.request_parts import (
    PARTS,
    PartsTable,
    Stall,
    TimeBin,
    parts_over_time,
    stalled_ms,
    stalls_of,
)
from kitedash.domain.results import BlockResult, LevelStatus
from kitedash.measuring import timeline
from kitedash.measuring.parts_table import joined, parts_table
from kitedash.services.bounded_cache import BoundedCache
from kitedash.settings import settings

By = Literal["first token", "last token", "stalls"]
FIRST: Final = "first token"
BYS: Final[tuple[By, ...]] = get_args(By)
MOST_ROWS: Final = 10
MOST_NUMBERS: Final = 6_000_000  # in kept tables, 8 bytes each: an output chunk is one, a request about 20
_TABLES: BoundedCache[PartsTable] = BoundedCache(MOST_NUMBERS)
_USUAL: BoundedCache[Usual] = BoundedCache(200)  # rates


@dataclass(frozen=True)
class LevelParts:
    """A rate over its valid blocks: what makes the requests around its P90 slow, what to do about it, and its parts
    over a block's time."""

    rate_per_s: float
    n: int  # of them
    said: str
    advice: str
    over_time: tuple[TimeBin, ...]


@dataclass(frozen=True)
class RequestRow:
    """A request of a list. Times are +inf where it failed."""

    block: int
    index: int
    kind: str
    due_s: float
    ttft_ms: float
    e2e_ms: float
    stalled_ms: float
    tokens_in: float
    tokens_cached: float
    tokens_out: float
    cause: str  # the main one; "" where nothing stands out
    error: str


@dataclass(frozen=True)
class SlowRequests:
    """The slowest of a rate, or of one of its blocks. `n`: all that they are the slowest of, after the warm-up."""

    rate_per_s: float
    block: int | None
    n: int
    rows: tuple[RequestRow, ...]


@dataclass(frozen=True, eq=False)
class RequestDetail:
    """One request: its parts on one axis, its tokens, why it took so long, and the server meanwhile.

    `parts_ms` lacks the parts that are not known. `chunk_ms` counts from the first output chunk. `server` has the
    columns of `measuring/timeline.py`; None where the block has no timeline.
    """

    row: RequestRow
    ended_s: float
    duration_s: float  # of the block
    parts_ms: dict[str, float]
    chunk_ms: tuple[float, ...]
    stalls: tuple[Stall, ...]
    said: str
    server: pd.DataFrame | None


@dataclass(frozen=True)
class _Rate:
    """What a rate's requests are held against, and its tables by block."""

    tables: dict[int, PartsTable]
    usual: Usual
    intended: Intended


def level_parts(run_id: str) -> tuple[LevelParts, ...]:
    """One entry a rate that has a request in a valid block. Raises NotFound."""
    found = []
    with sessions(settings().url)() as session:
        spec = _spec(session, run_id)
        heads = results.block_heads(session, run_id)
        valid = [block for block in heads if block.status is not LevelStatus.INVALID]
        for rate_per_s in sorted({block.rate_per_s for block in valid}):
            mine = [block for block in valid if block.rate_per_s == rate_per_s]
            rate = _rate(session, run_id, spec, mine)
            table = joined([rate.tables[block.block] for block in mine])
            if len(table):
                found.append(_level(rate_per_s, table, rate, spec.load.warm_up_s, mine[0].duration_s))
    return tuple(found)


def slow_requests(run_id: str, rate_per_s: float, block: int | None, by: By) -> SlowRequests:
    """Failed requests come first. A block that is named may be an invalid one. Raises NotFound."""
    with sessions(settings().url)() as session:
        spec = _spec(session, run_id)
        mine = _blocks(session, run_id, rate_per_s, block)
        rate = _rate(session, run_id, spec, mine)
    table = joined([rate.tables[one.block] for one in mine if block is None or one.block == block])
    stalled = stalled_ms(table.chunk_ms, rate.usual.stalls)
    worth = {"first token": table.ttft_ms, "last token": table.e2e_ms, "stalls": stalled}[by]
    order = np.argsort(-worth, kind="stable")[:MOST_ROWS]
    rows = tuple(_row(table, int(i), rate, by) for i in order if by != "stalls" or stalled[i] > 0)
    return SlowRequests(rate_per_s, block, len(table), rows)


def request_detail(run_id: str, rate_per_s: float, block: int, index: int, by: By) -> RequestDetail:
    """`by`: whether its first token is explained or its whole answer. Raises NotFound for a request that is not
    stored, or was due in the warm-up."""
    with sessions(settings().url)() as session:
        spec = _spec(session, run_id)
        mine = _blocks(session, run_id, rate_per_s, block)
        rate = _rate(session, run_id, spec, mine)
        blob = results.timeline(session, run_id, rate_per_s, block)
    table = rate.tables[block]
    places = np.flatnonzero(table.index == index)
    if not len(places):
        raise NotFound(f"Block {block} of {rate_per_s:g}/s has no request {index} after the warm-up.")
    place = int(places[0])
    diagnosis = diagnose_request(table, place, rate.usual, rate.intended, to_the_last=by != FIRST)
    parts = {part: float(getattr(table, f"{part}_ms")[place]) for part in PARTS}
    return RequestDetail(
        row=_row(table, place, rate, by),
        ended_s=float(table.ended_s[place]),
        duration_s=next(one.duration_s for one in mine if one.block == block),
        parts_ms={part: ms for part, ms in parts.items() if np.isfinite(ms)},
        chunk_ms=tuple(table.chunk_ms[place].tolist()),
        stalls=stalls_of(table.chunk_ms[place], rate.usual.stalls),
        said=sentence(diagnosis),
        server=timeline.decode(blob) if blob else None,
    )


def _spec(session: Session, run_id: str) -> ExperimentSpec:
    return experiments.spec_of(experiments.get(session, runs.get(session, run_id).experiment_id))


def _blocks(session: Session, run_id: str, rate_per_s: float, block: int | None) -> list[BlockResult]:
    """Heads of the blocks of a rate that count, and of the one that is named. Raises NotFound."""
    stored = [one for one in results.block_heads(session, run_id) if one.rate_per_s == rate_per_s]
    found = [one for one in stored if one.status is not LevelStatus.INVALID or one.block == block]
    if not found or (block is not None and block not in {one.block for one in found}):
        raise NotFound(f"Run {run_id} has no such block of {rate_per_s:g}/s.")
    return found


def _rate(session: Session, run_id: str, spec: ExperimentSpec, blocks: list[BlockResult]) -> _Rate:
    """What is usual comes from the blocks that count; only where there is none, from those at hand."""
    warm_up_s = spec.load.warm_up_s
    keys = {block.block: _key(session, run_id, block, warm_up_s) for block in blocks}
    tables = {block.block: _table(session, run_id, block, warm_up_s, keys[block.block]) for block in blocks}
    counting = [block.block for block in blocks if block.status is not LevelStatus.INVALID] or list(tables)
    arguments = runs.candidate_of(runs.get(session, run_id)).engine_args
    intended = Intended(
        prefix_caching=arguments.get(PREFIX_CACHING, True) is not False,
        block_size=max(1, int(blocks[0].server_counters.get("block_size", 1))),
        shared_tokens=intended_prefixes(spec.workload),
    )
    key = tuple(keys[number] for number in counting)
    usual = _USUAL.get(key)
    if usual is None:
        usual = _USUAL.put(key, usual_of(joined([tables[number] for number in counting]), intended))
    return _Rate(tables, usual, intended)


def _key(session: Session, run_id: str, block: BlockResult, warm_up_s: float) -> Hashable:
    stored_at = results.stored_at(session, run_id, block.rate_per_s, block.block)
    return session.get_bind(), run_id, block.rate_per_s, block.block, stored_at, warm_up_s


def _table(session: Session, run_id: str, block: BlockResult, warm_up_s: float, key: Hashable) -> PartsTable:
    """Opens each blob once, as far as the tables fit."""
    found = _TABLES.get(key)
    if found is None:
        whole = results.blocks(session, run_id, rate_per_s=block.rate_per_s, block=block.block)
        found = parts_table(whole, warm_up_s)
        _TABLES.put(key, found, 1 + 20 * len(found) + sum(len(chunks) for chunks in found.chunk_ms))
    return found


def _level(rate_per_s: float, table: PartsTable, rate: _Rate, start_s: float, end_s: float) -> LevelParts:
    diagnosis = diagnose_around(table, rate.usual, rate.intended)
    return LevelParts(
        rate_per_s=rate_per_s,
        n=0 if diagnosis is None else diagnosis.facts.n,
        said="" if diagnosis is None else explanation(diagnosis),
        advice="" if diagnosis is None else advice(diagnosis),
        over_time=parts_over_time(table, start_s=start_s, end_s=end_s),
    )


def _row(table: PartsTable, place: int, rate: _Rate, by: By) -> RequestRow:
    main = diagnose_request(table, place, rate.usual, rate.intended, to_the_last=by != FIRST).main
    return RequestRow(
        block=int(table.block[place]),
        index=int(table.index[place]),
        kind=table.kinds[place],
        due_s=float(table.due_s[place]),
        ttft_ms=float(table.ttft_ms[place]),
        e2e_ms=float(table.e2e_ms[place]),
        stalled_ms=float(stalled_ms([table.chunk_ms[place]], rate.usual.stalls)[0]),
        tokens_in=float(table.tokens_in[place]),
        tokens_cached=float(table.tokens_cached[place]),
        tokens_out=float(table.tokens_out[place]),
        cause="" if main is None else str(main),
        error=table.errors[place],
    )
