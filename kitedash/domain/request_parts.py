"""Where the time of a request goes: client, front end, queue, prefill, decode, and the stalls inside the decode.

Percentiles of parts do not add up, means over the same requests do. Times in ms unless the name says else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

PARTS = ("client", "front_end", "queue", "prefill", "decode")
_BAND = (0.85, 0.95)
# A gap three times the usual one is no longer the batch's own pace. Below 50 ms it could be the client's: its lateness
# may be 20 ms in a valid block (load_checks), and two of its late wake-ups meet in one gap.
STALL_TIMES_MEDIAN = 3.0
STALL_LEAST_MS = 50.0
MOST_BINS = 30
REQUESTS_PER_BIN = 10


class HasParts(Protocol):
    """Arrays over requests; NaN where a part is not known, TTFT +inf where the request failed."""

    @property
    def ttft_ms(self) -> Floats: ...
    @property
    def client_ms(self) -> Floats: ...
    @property
    def front_end_ms(self) -> Floats: ...
    @property
    def queue_ms(self) -> Floats: ...
    @property
    def prefill_ms(self) -> Floats: ...
    @property
    def decode_ms(self) -> Floats: ...


@dataclass(frozen=True, eq=False)
class PartsTable:
    """The requests of one rate that count, over one block or several, as arrays over requests; NaN: not known.

    `ttft_ms` and `e2e_ms` are +inf where the request failed. `chunk_ms` has for each request the ms from its first
    output chunk to each further one.
    """

    block: Ints
    index: Ints  # position in the block's traffic
    due_s: Floats  # from the block's start
    ended_s: Floats
    ttft_ms: Floats
    e2e_ms: Floats
    client_ms: Floats
    front_end_ms: Floats
    queue_ms: Floats
    prefill_ms: Floats
    decode_ms: Floats
    tokens_in: Floats
    tokens_cached: Floats
    tokens_out: Floats
    tokens_shared: Floats  # leading prompt tokens that the traffic file expects to have been seen before
    chunk_ms: tuple[Floats, ...]
    kinds: tuple[str, ...]
    errors: tuple[str, ...]  # "" where it succeeded

    def __len__(self) -> int:
        return len(self.due_s)

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """The requests that succeeded and whose parts are all known."""
        parts = np.column_stack([self.ttft_ms, *_parts_of(self)])
        found: npt.NDArray[np.bool_] = np.all(np.isfinite(parts), axis=1)
        return found

    @property
    def failed(self) -> npt.NDArray[np.bool_]:
        return np.array([bool(error) for error in self.errors], dtype=bool)


@dataclass(frozen=True)
class Stall:
    """A pause between two output chunks."""

    start_ms: float  # after the first output chunk
    ms: float


@dataclass(frozen=True)
class StallRule:
    """A gap of at least `least_ms` is a stall; what it costs is what it has above the usual gap."""

    usual_ms: float
    least_ms: float


@dataclass(frozen=True)
class TimeBin:
    """The mean parts of the requests due in a span of the blocks' time; failed ones apart. Empty parts: none known."""

    start_s: float
    end_s: float
    n: int  # whose parts are known
    n_failed: int
    parts_ms: dict[str, float]
    stall_ms: float  # inside the decode, mean


def front_end_ms(*, ttft_ms: Floats, client_ms: Floats, queue_ms: Floats, prefill_ms: Floats) -> Floats:
    """What neither the client's lateness nor the engine accounts for: HTTP, tokenising, the server's event loop, and a
    client that reads late. A residual; that it is not below -1 ms is a check of the block."""
    return ttft_ms - client_ms - queue_ms - prefill_ms


def parts_around(blocks: Sequence[HasParts], q: float = 0.9) -> dict[str, float]:
    """Mean parts in ms of the requests between the TTFT P85 and P95 (all whose rank is that near to q).

    client + front_end + queue + prefill is these requests' mean TTFT. Empty where the engine reported no timings.
    """
    table = (
        np.concatenate([np.column_stack([b.ttft_ms, *_parts_of(b)]) for b in blocks]) if blocks else np.empty((0, 6))
    )
    band = table[_ranks_around(table[:, 0], q)]
    band = band[np.all(np.isfinite(band), axis=1)]
    if not len(band):
        return {}
    means = np.mean(band, axis=0)[1:]
    return {name: float(value) for name, value in zip(PARTS, means, strict=True)}


def requests_around(table: PartsTable, q: float = 0.9) -> Ints:
    """Positions in the table of the requests that `parts_around` is about, the failed ones among them."""
    return _ranks_around(table.ttft_ms, q)


def _ranks_around(ttft_ms: Floats, q: float) -> Ints:
    n = len(ttft_ms)
    order: Ints = np.argsort(ttft_ms, kind="stable")
    return order[math.floor((q - 0.9 + _BAND[0]) * n) : math.ceil((q - 0.9 + _BAND[1]) * n)]


def _parts_of(block: HasParts) -> tuple[Floats, ...]:
    return block.client_ms, block.front_end_ms, block.queue_ms, block.prefill_ms, block.decode_ms


def stall_rule(chunk_ms: Sequence[Floats]) -> StallRule | None:
    """From all gaps between chunks of a rate's requests; None where there is no gap."""
    gaps, _ = _gaps(chunk_ms)
    if not len(gaps):
        return None
    usual_ms = float(np.median(gaps))
    return StallRule(usual_ms, max(STALL_TIMES_MEDIAN * usual_ms, STALL_LEAST_MS))


def stalls_of(chunk_ms: Floats, rule: StallRule | None) -> tuple[Stall, ...]:
    if rule is None or not len(chunk_ms):
        return ()
    gaps = np.diff(chunk_ms, prepend=0.0)
    found = np.flatnonzero(gaps >= rule.least_ms)
    return tuple(Stall(float(chunk_ms[i] - gaps[i]), float(gaps[i])) for i in found)


def stalled_ms(chunk_ms: Sequence[Floats], rule: StallRule | None) -> Floats:
    """How much longer the stalls of each request took than as many usual gaps."""
    if rule is None:
        return np.zeros(len(chunk_ms))
    gaps, owner = _gaps(chunk_ms)
    lost: Floats = np.where(gaps >= rule.least_ms, gaps - rule.usual_ms, 0.0)
    return np.bincount(owner, weights=lost, minlength=len(chunk_ms)).astype(np.float64)


def _gaps(chunk_ms: Sequence[Floats]) -> tuple[Floats, Ints]:
    """(all gaps, the request of each): at once, since a rate may have millions of them."""
    counts = np.array([len(chunks) for chunks in chunk_ms], dtype=np.int64)
    if not counts.sum():
        return np.empty(0), np.empty(0, dtype=np.int64)
    moments = np.concatenate([chunks for chunks in chunk_ms if len(chunks)])
    gaps = np.diff(moments, prepend=0.0)
    starts = (np.cumsum(counts) - counts)[counts > 0]
    gaps[starts] = moments[starts]
    return gaps, np.repeat(np.arange(len(counts)), counts)


def parts_over_time(table: PartsTable, *, start_s: float, end_s: float) -> tuple[TimeBin, ...]:
    """The parts by when the requests were due, over all blocks of the table alike: a drift or a burst shows, which a
    mean over the block hides. Bins are so wide that about ten requests fall into one."""
    if end_s <= start_s or not len(table):
        return ()
    count = max(1, min(MOST_BINS, len(table) // REQUESTS_PER_BIN))
    edges = np.linspace(start_s, end_s, count + 1)
    place = np.clip(np.searchsorted(edges, table.due_s, side="right") - 1, 0, count - 1)
    rule = stall_rule(table.chunk_ms)
    stalled = stalled_ms(table.chunk_ms, rule)
    parts, known, failed = np.column_stack(_parts_of(table)), table.known, table.failed
    found = []
    for i in range(count):
        mine = known & (place == i)
        means = np.mean(parts[mine], axis=0) if mine.any() else []
        found.append(
            TimeBin(
                start_s=float(edges[i]),
                end_s=float(edges[i + 1]),
                n=int(np.sum(mine)),
                n_failed=int(np.sum(failed & (place == i))),
                parts_ms={name: float(value) for name, value in zip(PARTS, means, strict=False)},
                stall_ms=float(np.mean(stalled[mine])) if mine.any() else 0.0,
            )
        )
    return tuple(found)
