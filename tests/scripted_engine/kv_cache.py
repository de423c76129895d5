"""The scripted engine's KV cache: how many whole blocks are taken when. Arithmetic only, no clock."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tests.scripted_engine.script import Script


@dataclass(frozen=True)
class Place:
    """When a request is admitted and when it has all its blocks: later where it was preempted in between."""

    admitted: float
    complete: float
    preempted: bool


class KvCache:
    """First come, first served. A request is admitted when its prompt fits, and holds whole blocks of prompt and
    answer, but for the answer's last token, to its end; where the answer does not fit beside the others it is
    preempted, and goes on when it does."""

    def __init__(self, script: Script) -> None:
        self._block = script.block_size
        self.total = script.kv_cache_tokens // script.block_size - 1 if script.kv_cache_tokens else 0  # one is its own
        self._taken: list[tuple[float, int]] = []  # (until when, blocks)
        self._latest = 0.0

    def blocks(self, tokens: int) -> int:
        return math.ceil(tokens / self._block)

    def place(self, at: float, tokens_in: int, tokens_out: int) -> Place:
        if not self.total:
            return Place(at, at, preempted=False)
        self._latest = admitted = self._free_from(max(at, self._latest), self.blocks(tokens_in))
        complete = self._free_from(admitted, self.blocks(tokens_in + tokens_out - 1))
        return Place(admitted, complete, preempted=complete > admitted)

    def hold(self, until: float, blocks: int) -> None:
        if self.total:
            self._taken.append((until, blocks))

    def _free_from(self, moment: float, blocks: int) -> float:
        while True:
            self._taken = [one for one in self._taken if one[0] > self._latest]
            taken = [one for one in self._taken if one[0] > moment]
            if not taken or sum(held for _, held in taken) + blocks <= self.total:
                return moment
            moment = min(until for until, _ in taken)
