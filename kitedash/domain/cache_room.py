"""Which requests may have found their shared tokens gone, since the KV cache had no room to keep them so long.

A prefix cache drops what went unused longest. So what a request shares with an earlier one can only be gone where
that, and all that was used since, is more than the cache holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Use:
    """One request's use of the cache. Moments in s from the block's start, when each prefix was just used; `tokens`
    are of prompt and answer, `shared_tokens` the leading ones that an earlier request had too."""

    sent_s: float
    ended_s: float
    prefix: str
    session: int | None
    turn: int
    shared_tokens: int
    tokens: int


def may_be_gone(uses: Sequence[Use], *, room_tokens: float, block_size: int) -> list[bool]:
    """Of each request, in their order: whether the cache may have dropped what it shares before it came."""
    places: dict[str | tuple[str, int], int] = {}
    for number, use in enumerate(uses):
        places.setdefault(use.prefix, len(places))
        places.setdefault(_own(number, use), len(places))
    last_s, held = np.full(len(places), -math.inf), np.zeros(len(places))
    for use in uses:
        last_s[places[use.prefix]] = 0.0
    gone = [False] * len(uses)
    for number in sorted(range(len(uses)), key=lambda number: uses[number].sent_s):
        use = uses[number]
        prefix, own = places[use.prefix], places[_own(number, use)]
        shares = [own, prefix] if use.turn else [prefix]
        oldest_s = min(last_s[place] for place in shares)
        needed = _whole(use.shared_tokens, block_size)
        others = last_s > oldest_s
        others[shares] = False
        gone[number] = bool(needed + held[others].sum() > room_tokens)
        if not use.turn:
            held[prefix] = max(held[prefix], needed)
        held[own] = max(held[own], _whole(use.tokens, block_size) - held[prefix])
        last_s[[own, prefix]] = np.maximum(last_s[[own, prefix]], use.ended_s)
    return gone


def _own(number: int, use: Use) -> tuple[str, int]:
    """What a request has in the cache beside its prefix goes by its session, or by itself."""
    return ("request", number) if use.session is None else ("session", use.session)


def _whole(tokens: int, block_size: int) -> int:
    """In whole blocks."""
    return -(-tokens // block_size) * block_size
