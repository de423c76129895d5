"""Which requests a block consists of, before their texts are written: of which kind, due when, how long.

Drawn from (workload, load plan, rate, block) alone, each purpose from its own random stream, so that every candidate
gets the same. Due times come from `schedule.py`; a trace brings its own.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from kitedash.domain.experiment import LoadPlan
from kitedash.domain.schedule import due_times_s, generator
from kitedash.domain.trace import Trace
from kitedash.domain.workload import LEAST_OWN_TOKENS, REPLAYED, RequestClass, Workload, drawn_tokens

SAME_RATE_SHARE = 0.005  # nearer than this to its own rate, a trace is replayed as it was recorded
REPLAYED_OWN_TOKENS = 24  # behind a prefix: a question, and what a chat template puts after it
LEAST_PREFIX_TOKENS = 64  # of a trace's prefix that is halved for a request that is too short for the whole


@dataclass(frozen=True)
class PlannedRequest:
    """`planned_s`: when it comes at the earliest; `due_s` is None for a turn that comes a think time after the answer
    before it. `tokens_in` is that of the whole prompt, or, where `added`, what this turn adds to the prompt and answer
    before it. `prefix_tokens` lead the prompt, with the text that goes by `prefix`."""

    kind: str
    prefix: str
    prefix_tokens: int
    planned_s: float
    due_s: float | None
    tokens_in: int
    tokens_out: int
    session: int | None = None
    turn: int = 0
    think_time_s: float = 0.0
    added: bool = False


def planned_block(workload: Workload, plan: LoadPlan, rate_per_s: float, block: int) -> Iterator[PlannedRequest]:
    """The requests of a block that no trace prescribes, session by session in the order in which these start.

    `rate_per_s` counts requests: sessions start so much more seldom as they have turns. A turn whose think times alone
    put it behind the block's end is left out.
    """
    classes = workload.classes
    starts = [one.weight / one.turns for one in classes]
    due = due_times_s(
        seed=plan.seed,
        rate_per_s=rate_per_s * (sum(starts) / sum(one.weight for one in classes)),
        block=block,
        duration_s=plan.block_duration_s,
        arrivals=workload.arrivals,
        burstiness=workload.burstiness,
        ramp_s=plan.ramp_s,
    )
    kinds, lengths, thoughts = (
        generator(plan.seed, rate_per_s, block, purpose) for purpose in ("classes", "lengths", "think times")
    )
    for number, due_s in enumerate(due):
        one = kinds.choices(classes, starts)[0]
        planned_s = due_s
        for turn in range(one.turns):
            think_time_s = _thought_s(thoughts, one) if turn else 0.0
            planned_s += think_time_s
            if planned_s >= plan.block_duration_s:
                break
            whole, tokens_out = _lengths(lengths, one)
            yield PlannedRequest(
                kind=one.name,
                prefix=one.name,
                prefix_tokens=one.shared_prefix_tokens,
                planned_s=planned_s,
                due_s=None if turn else due_s,
                tokens_in=whole - one.shared_prefix_tokens if turn else whole,
                tokens_out=tokens_out,
                session=number if one.turns > 1 else None,
                turn=turn,
                think_time_s=think_time_s,
                added=turn > 0,
            )


def _lengths(random: Random, one: RequestClass) -> tuple[int, int]:
    least = min(one.input_tokens, one.shared_prefix_tokens + LEAST_OWN_TOKENS)
    tokens_in = drawn_tokens(random.random(), one.input_tokens, one.input_tokens_p90, least)
    return tokens_in, drawn_tokens(random.random(), one.output_tokens, one.output_tokens_p90, 1)


def _thought_s(random: Random, one: RequestClass) -> float:
    """Exponential around the mean, as waits of people are taken to be; none stays none."""
    return -math.log(1.0 - random.random()) * one.think_time_s


def time_scale(trace: Trace, rate_per_s: float) -> float:
    """What a trace's times are multiplied with to come at `rate_per_s`; exactly 1 within half a per cent of its own."""
    scale = trace.rate_per_s / rate_per_s
    return 1.0 if abs(scale - 1) <= SAME_RATE_SHARE else scale


def replayed_block(
    trace: Trace, workload: Workload, plan: LoadPlan, rate_per_s: float, block: int
) -> Iterator[PlannedRequest]:
    """The requests of the trace that fall into a block, in the order of arrival.

    Block 0 begins with the trace, each further block where the one before it ended; behind its end the trace begins
    again. A session's later requests keep their time, and wait for the one before.
    """
    scale = time_scale(trace, rate_per_s)
    arrivals = [row.arrival_s for row in trace.rows]
    often = Counter(row.prefix for row in trace.rows)
    names = {prefix: f"{REPLAYED}/{number}" for number, prefix in enumerate(often)}
    begin, end = block * plan.block_duration_s, (block + 1) * plan.block_duration_s
    sessions: dict[tuple[int, str], tuple[int, int]] = {}  # of this block -> (its number, the next turn)
    period = trace.period_s * scale
    for pass_number in range(int(begin // period), int(end // period) + 1):
        # One row more at both ends, since dividing rounds; which of them belong here is decided by the due time.
        first = max(0, bisect_left(arrivals, (begin - pass_number * period) / scale) - 1)
        last = bisect_right(arrivals, (end - pass_number * period) / scale) + 1
        for row in trace.rows[first:last]:
            moment = row.arrival_s * scale + pass_number * period
            if not begin <= moment < end:
                continue
            session, turn = None, 0
            if row.session is not None:
                session, turn = sessions.get((pass_number, row.session), (len(sessions), 0))
                sessions[pass_number, row.session] = (session, turn + 1)
            alike = not trace.has_prefixes or (row.prefix is not None and often[row.prefix] > 1)
            prefix_tokens = _halved(workload.shared_prefix_tokens, row.tokens_in - REPLAYED_OWN_TOKENS) if alike else 0
            name = (names[row.prefix] if trace.has_prefixes else REPLAYED) if prefix_tokens else f"{REPLAYED}/none"
            halved = "" if prefix_tokens in (0, workload.shared_prefix_tokens) else f"/{prefix_tokens}"
            yield PlannedRequest(
                kind=REPLAYED,
                prefix=f"{name}{halved}",
                prefix_tokens=prefix_tokens,
                planned_s=moment - begin,
                due_s=moment - begin,
                tokens_in=row.tokens_in,
                tokens_out=row.tokens_out,
                session=session,
                turn=turn,
            )


def _halved(tokens: int, most: int) -> int:
    """`tokens`, halved until a request has room for it; 0 where that is too little to be worth a prefix."""
    while tokens > most:
        tokens //= 2
        if tokens < LEAST_PREFIX_TOKENS:
            return 0
    return tokens
