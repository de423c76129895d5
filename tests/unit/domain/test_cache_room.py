"""What a KV cache may have dropped, against a cache that really drops what went unused longest."""

from __future__ import annotations

from collections import OrderedDict
from random import Random

from kitedash.domain.cache_room import Use, may_be_gone

PREFIX = 20


def sessions_on_a_cache(random: Random, sessions: int, room: int) -> tuple[list[bool], list[bool]]:
    """(lost, said to be possibly gone) of requests that follow each other, each a further turn of some session, on a
    cache of one-token blocks that drops the one unused longest."""
    cache: OrderedDict[tuple[str, int, int], None] = OrderedDict((("p", 0, at), None) for at in range(PREFIX))
    lengths, turns, uses, lost = [0] * sessions, [0] * sessions, [], []
    for number in range(150):
        session = random.randrange(sessions)
        shared = [("p", 0, at) for at in range(PREFIX)] + [("s", session, at) for at in range(lengths[session])]
        lost.append(not all(block in cache for block in shared))
        lengths[session] += random.randrange(1, 9)
        for block in [*shared[:PREFIX], *(("s", session, at) for at in range(lengths[session]))]:
            cache[block] = None
            cache.move_to_end(block)
        while len(cache) > room:
            cache.popitem(last=False)
        tokens = PREFIX + lengths[session]
        uses.append(Use(number + 1, number + 1.5, "p", session, turns[session], len(shared), tokens))
        turns[session] += 1
    return lost, may_be_gone(uses, room_tokens=room, block_size=1)


def test_what_is_lost_is_said_and_little_else() -> None:
    lost_in_all = said_in_all = 0
    for seed in range(40):
        random = Random(seed)
        lost, gone = sessions_on_a_cache(random, sessions=random.randrange(2, 12), room=random.randrange(150, 900))
        assert all(said for was, said in zip(lost, gone, strict=True) if was), seed
        lost_in_all, said_in_all = lost_in_all + sum(lost), said_in_all + sum(gone)
    assert lost_in_all > 500
    assert said_in_all < 1.1 * lost_in_all


def test_a_prefix_that_is_always_used_stays_however_much_goes_by() -> None:
    uses = [Use(at, at + 0.5, "p", None, 0, 64, 100) for at in range(500)]
    assert not any(may_be_gone(uses, room_tokens=300, block_size=32))


def test_a_prefix_that_is_seldom_used_may_go() -> None:
    """Each request holds 64 shared tokens of its prefix and 64 of its own, in blocks of 32."""
    often = [Use(at, at + 0.5, "often", None, 0, 64, 100) for at in range(20)]
    seldom = Use(20.0, 20.5, "seldom", None, 0, 64, 100)
    needed = 64 + 64 + 20 * 64
    assert may_be_gone([*often, seldom], room_tokens=needed - 1, block_size=32) == [False] * 20 + [True]
    assert not any(may_be_gone([*often, seldom], room_tokens=needed, block_size=32))
