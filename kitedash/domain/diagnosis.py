"""Why a request was slow, from its parts alone: what took longer than the workload intends or than is usual.

Each cause explains some ms above a request that waits for nobody, finds the shared prefix in the cache and is as long
as the rate's median one. A prefill grows with the prompt tokens that are not cached, so it splits into the tokens that
should have been cached, those that the prompt has above the median, and the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from kitedash.domain.load_checks import expected_cached_tokens
from kitedash.domain.request_parts import Floats, Ints, PartsTable, StallRule, requests_around, stall_rule, stalled_ms
from kitedash.domain.workload import Workload

LEAST_MS = 10.0  # less is within what a busy machine's scheduler does to any request
LEAST_SHARE = 0.2  # of what all causes explain: a smaller one is not worth a sentence
REUSED = 0.5  # of the tokens that should have been cached: so many make it a reuse; of the requests: most reuse
LATE_CLIENT = 0.05  # of the requests sent late: such a client may have read late as well
_FIT_REQUESTS, _FIT_TOKENS = 12, 32  # from fewer requests, or over fewer tokens, no slope is read


class Cause(StrEnum):
    FAILED = "failed"
    PREFIX = "prefix not reused"
    QUEUE = "queue"
    LONG_PROMPT = "long prompt"
    CLIENT = "slow client"
    FRONT_END = "front end"
    SLOW_PREFILL = "slow prefill"
    STALLS = "stalls"
    LONG_ANSWER = "long answer"
    SLOW_DECODE = "slow decode"


ORDER = tuple(Cause)
AFTER_THE_FIRST_TOKEN = (Cause.STALLS, Cause.LONG_ANSWER, Cause.SLOW_DECODE)


@dataclass(frozen=True)
class Intended:
    """What the workload and the candidate intend. `shared_tokens` is by the kind of a request; a kind that is not in it
    goes by what the traffic file expects."""

    prefix_caching: bool
    block_size: int
    shared_tokens: Mapping[str, int]


def intended_prefixes(workload: Workload) -> dict[str, int]:
    """Shared tokens by kind of request. In a trace they differ from request to request: the traffic file knows."""
    return {} if workload.trace is not None else {one.name: one.shared_prefix_tokens for one in workload.classes}


@dataclass(frozen=True)
class Usual:
    """What the requests of a rate are like: medians over those that succeeded."""

    n: int
    computed_tokens: float  # if the cache does what is intended
    tokens_out: float
    token_ms: float  # decode without stalls, per token after the first
    prefill_fixed_ms: float
    prefill_token_ms: float | None  # None: all compute about as many tokens, so no slope can be read
    reused: float  # share of the requests with a shared prefix that found it
    late: float  # share of the requests that the client sent more than LEAST_MS late
    stalls: StallRule | None


@dataclass(frozen=True)
class Explained:
    cause: Cause
    ms: float  # above what is intended or usual, a mean where it is of several requests


@dataclass(frozen=True)
class Facts:
    """Means over the requests that a diagnosis is about; NaN: not known."""

    n: int
    took_ms: float  # from due to the token that the diagnosis ends with
    tokens_in: float
    tokens_cached: float
    cached_intended: float
    tokens_out: float


@dataclass(frozen=True)
class Diagnosis:
    """`causes` are the named ones in the order of what they explain, one that follows from another behind it; empty:
    nothing stands out."""

    facts: Facts
    of_several: bool  # the requests around a percentile; else one request
    to_the_last: bool  # what is explained ends with the last token; else with the first
    causes: tuple[Explained, ...]
    all_ms: dict[Cause, float]  # of every cause, those that are too small to be named among them
    usual: Usual
    prefix_caching: bool
    error: str = ""
    timings_known: bool = True

    @property
    def main(self) -> Cause | None:
        return self.causes[0].cause if self.causes else None


def usual_of(table: PartsTable, intended: Intended) -> Usual:
    ok = ~table.failed
    computed = (table.tokens_in - table.tokens_cached)[ok]
    cached_intended = _cached_intended(table, np.flatnonzero(ok), intended)
    rule = stall_rule(table.chunk_ms)
    stalled = stalled_ms(table.chunk_ms, rule)[ok]
    with np.errstate(divide="ignore", invalid="ignore"):
        after_first = table.tokens_out[ok] - 1
        token_ms = np.where(after_first > 0, (table.decode_ms[ok] - stalled) / after_first, np.nan)
    fixed_ms, slope_ms = _prefill_cost(computed, table.prefill_ms[ok])
    sharing = cached_intended > 0
    reused = table.tokens_cached[ok][sharing] >= REUSED * cached_intended[sharing]
    return Usual(
        n=int(np.sum(ok)),
        computed_tokens=_median(table.tokens_in[ok] - cached_intended),
        tokens_out=_median(table.tokens_out[ok]),
        token_ms=_median(token_ms),
        prefill_fixed_ms=fixed_ms,
        prefill_token_ms=slope_ms,
        reused=float(np.mean(reused)) if len(reused) else 1.0,
        late=float(np.mean(table.client_ms[ok] > LEAST_MS)) if ok.any() else 0.0,
        stalls=rule,
    )


def diagnose_request(
    table: PartsTable, position: int, usual: Usual, intended: Intended, *, to_the_last: bool = True
) -> Diagnosis:
    """One request, from when it was due to its last token or to its first one."""
    return _diagnosis(table, np.array([position]), usual, intended, of_several=False, to_the_last=to_the_last)


def diagnose_around(table: PartsTable, usual: Usual, intended: Intended, q: float = 0.9) -> Diagnosis | None:
    """The requests between the TTFT P85 and P95, up to their first token: the ones that `parts_around` splits."""
    found = requests_around(table, q)
    if not len(found):
        return None
    return _diagnosis(table, found, usual, intended, of_several=True, to_the_last=False)


def _diagnosis(
    table: PartsTable, which: Ints, usual: Usual, intended: Intended, *, of_several: bool, to_the_last: bool
) -> Diagnosis:
    failed = table.failed[which]
    errors = [table.errors[i] for i in which[failed]]
    ok = which[~failed]
    by_cause = _explained(table, ok, usual, intended)
    if not to_the_last:
        by_cause = {cause: ms for cause, ms in by_cause.items() if cause not in AFTER_THE_FIRST_TOKEN}
    means = {cause: float(np.nanmean(ms)) for cause, ms in by_cause.items() if np.isfinite(ms).any()}
    total = sum(means.values())
    named = [
        Explained(cause, ms)
        for cause, ms in means.items()
        if ms >= LEAST_MS and total > 0 and ms >= LEAST_SHARE * total
    ]
    follows = _follows({one.cause for one in named}, usual)
    named.sort(key=lambda one: (one.cause in follows, -one.ms, ORDER.index(one.cause)))
    if 2 * len(errors) >= len(which):
        named.insert(0, Explained(Cause.FAILED, float("nan")))
    took = (table.e2e_ms if to_the_last else table.ttft_ms)[ok]
    facts = Facts(
        n=len(which),
        took_ms=_mean(took),
        tokens_in=_mean(table.tokens_in[ok]),
        tokens_cached=_mean(table.tokens_cached[ok]),
        cached_intended=_mean(_cached_intended(table, ok, intended)),
        tokens_out=_mean(table.tokens_out[ok]),
    )
    return Diagnosis(
        facts=facts,
        of_several=of_several,
        to_the_last=to_the_last,
        causes=tuple(named),
        all_ms=means,
        usual=usual,
        prefix_caching=intended.prefix_caching,
        error=max(set(errors), key=errors.count) if errors else "",
        timings_known=bool(np.isfinite(table.prefill_ms[ok]).any()) or not len(ok),
    )


def _follows(named: set[Cause], usual: Usual) -> set[Cause]:
    """What another of the named causes makes: the queue where hardly any request of the rate finds the prefix, since
    then all take long; the front end where the client is late, since one that sends late reads late as well."""
    found = set()
    if Cause.PREFIX in named and usual.reused < REUSED:
        found.add(Cause.QUEUE)
    if Cause.CLIENT in named:
        found.add(Cause.FRONT_END)
    return found


def _explained(table: PartsTable, which: Ints, usual: Usual, intended: Intended) -> dict[Cause, Floats]:
    """Cause -> ms above the intended or usual request, by request; NaN where a part is not known."""
    prefill, tokens_in, cached = table.prefill_ms[which], table.tokens_in[which], table.tokens_cached[which]
    computed = np.maximum(1.0, tokens_in - cached)
    as_intended = np.maximum(1.0, tokens_in - _cached_intended(table, which, intended))
    token_ms = prefill / computed if usual.prefill_token_ms is None else np.full(len(which), usual.prefill_token_ms)
    # No request can be explained by more than it took: the slope is that of the others.
    token_ms = np.minimum(token_ms, prefill / computed)
    uncached = computed - as_intended
    uncached = np.where(uncached > intended.block_size, uncached, 0.0)
    longer = np.maximum(0.0, np.minimum(computed, as_intended) - usual.computed_tokens)
    expected_ms = usual.prefill_fixed_ms + token_ms * computed
    slow = np.zeros(len(which)) if usual.prefill_token_ms is None else np.maximum(0.0, prefill - expected_ms)
    stalled = stalled_ms([table.chunk_ms[i] for i in which], usual.stalls)
    out = table.tokens_out[which]
    return {
        Cause.PREFIX: uncached * token_ms,
        Cause.QUEUE: np.maximum(0.0, table.queue_ms[which]),
        Cause.LONG_PROMPT: longer * token_ms,
        Cause.CLIENT: np.maximum(0.0, table.client_ms[which]),
        Cause.FRONT_END: np.maximum(0.0, table.front_end_ms[which]),
        Cause.SLOW_PREFILL: slow,
        Cause.STALLS: stalled,
        Cause.LONG_ANSWER: np.maximum(0.0, out - usual.tokens_out) * usual.token_ms,
        Cause.SLOW_DECODE: np.maximum(0.0, table.decode_ms[which] - stalled - (out - 1) * usual.token_ms),
    }


def _cached_intended(table: PartsTable, which: Ints, intended: Intended) -> Floats:
    """Tokens of each prompt that the cache should hold. With caching off too: that it is off may be the cause."""
    found = np.zeros(len(which))
    for place, i in enumerate(which):
        told, tokens_in = table.tokens_shared[i], table.tokens_in[i]
        if np.isfinite(tokens_in):
            shared = max(intended.shared_tokens.get(table.kinds[i], 0), int(told) if np.isfinite(told) else 0)
            found[place] = expected_cached_tokens(
                prefix_caching=True, shared_tokens=shared, block_size=intended.block_size, tokens_in=int(tokens_in)
            )
    return found


def _prefill_cost(computed: Floats, prefill_ms: Floats) -> tuple[float, float | None]:
    """(ms that any prefill takes, ms per computed token), by a line through the medians of the outer thirds (Tukey's
    resistant line): a few prefills that shared their steps with others do not bend it."""
    known = np.isfinite(computed) & np.isfinite(prefill_ms)
    x, y = computed[known], prefill_ms[known]
    if len(x) < _FIT_REQUESTS:
        return 0.0, None
    order = np.argsort(x, kind="stable")
    third = len(x) // 3
    low, high = order[:third], order[-third:]
    spread = float(np.median(x[high]) - np.median(x[low]))
    if spread < _FIT_TOKENS:
        return 0.0, None
    slope = max(0.0, float(np.median(y[high]) - np.median(y[low])) / spread)
    return max(0.0, float(np.median(y - slope * x))), slope


def _median(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else 0.0


def _mean(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(np.mean(known)) if len(known) else float("nan")
