"""When each token is due. A request takes the slot that is free first; slots are what `max-num-seqs` limits.

Everything is settled at arrival by arithmetic on the arrival time, so a late timer of this process never shifts
the requests that come after it, and a test can work the same times out on its own.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from tests.scripted_engine.kv_cache import KvCache
from tests.scripted_engine.script import Script


@dataclass(frozen=True)
class Times:
    """Seconds on one monotonic clock."""

    arrived: float
    scheduled: float
    first_token: float
    last_token: float
    token_s: float
    blocks: int = 0  # of the KV cache, held from `scheduled` on
    preempted: bool = False

    def token(self, index: int) -> float:
        return self.first_token + index * self.token_s

    @property
    def queue_s(self) -> float:
        return self.scheduled - self.arrived

    @property
    def prefill_s(self) -> float:
        return self.first_token - self.scheduled

    @property
    def decode_s(self) -> float:
        return self.last_token - self.first_token


class Slots:
    """First come, first served over `max_num_seqs` slots and the KV cache."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._free_at = [0.0] * script.max_num_seqs
        self.kv_cache = KvCache(script)

    def take(self, arrived: float, tokens_in: int, tokens_out: int, tokens_computed: int) -> Times:
        place = self.kv_cache.place(max(arrived, heapq.heappop(self._free_at)), tokens_in, tokens_out)
        first = place.complete + (self._script.first_token_ms + self._script.computed_token_ms * tokens_computed) / 1e3
        token_s = self._script.token_ms / 1e3
        last = first + max(0, tokens_out - 1) * token_s
        heapq.heappush(self._free_at, last)
        blocks = self.kv_cache.blocks(tokens_in + tokens_out - 1)
        self.kv_cache.hold(last, blocks)
        return Times(arrived, place.admitted, first, last, token_s, blocks, place.preempted)


class PrefixCache:
    """Whole blocks of token ids by everything before them, as vLLM hashes them; unbounded."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._seen: set[int] = set()

    def look_up(self, tokens: Sequence[object]) -> int:
        """How many leading tokens are cached; then remembers this prompt. The last token is always computed."""
        if not self._script.enable_prefix_caching:
            return 0
        size, chain, hits, unbroken = self._script.block_size, 0, 0, True
        for start in range(0, len(tokens) - size + 1, size):
            chain = hash((chain, *tokens[start : start + size]))
            unbroken = unbroken and chain in self._seen and start + size < len(tokens)
            hits += size if unbroken else 0
            self._seen.add(chain)
        return hits

    def reset(self) -> None:
        if not self._script.ignore_prefix_resets:
            self._seen.clear()
