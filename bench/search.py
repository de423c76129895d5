"""`python -m bench.search --seeds 100 --seed 1`: does the search find the highest rate held, and for how many requests?
Prints a few lines for each engine; status 1 where a claim fails. About five minutes on two cores.

The engine is the scripted one of the tests, by its own arithmetic (tests/scripted_engine/timeline.py) in virtual time:
so many slots, each request takes one for a fixed time, and waits for it in the order of arrival (M/D/c). Arrivals are
the product's (`domain/schedule.py`), and so is all that comes after them: the checks and the overload rule of each
block, `summarize_level`, `rate_search.next_step`. Nothing is sent, so the client and the machine are not in it, but
that each first token is noted up to 0.2 ms late: else answers that waited for nobody would differ by rounding alone.

What is true is worked out without any of that: the highest rate on a grid of 0.2 % of the capacity whose P90 TTFT is
within the target, from two million arrivals by the recurrence that a queue with equal service times follows.

Each seed has its own arrivals and its own guess of where the rate lies: three listed rates, each twice the one before,
and the true one anywhere from 0.75 of the lowest to 1.4 of the highest. The requests of the listed rates count.

The sweep that it is held against: 20 rates up to twice the true one, so that its steps are 10 % of that, each with as
many requests as a whole level of the search has at the true rate.

Claims, of each engine: in at least 90 % of the seeds the highest rate held is within 10 % of the true one and took
fewer than a quarter of the sweep's requests; in at least 90 % the rates called sure enclose the true one.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import exp, inf, log

import numpy as np
import numpy.typing as npt

from kitedash.domain.experiment import Guardrails, LoadPlan, Targets
from kitedash.domain.load_checks import BlockFacts, check_block, overload_reason, status_of
from kitedash.domain.rate_search import Probe, SearchResult, SearchStatus, Tried, is_clearly_missed, next_step
from kitedash.domain.results import BlockResult
from kitedash.domain.run_plan import is_settled
from kitedash.domain.schedule import due_times_s
from kitedash.measuring import request_table
from kitedash.measuring.levels import summarize_level
from tests.scripted_engine.script import Script
from tests.scripted_engine.timeline import Slots

Floats = npt.NDArray[np.float64]

WITHIN = 0.10
PRECISION = 0.06  # asked for: what the estimates are off by comes on top
MOST_BLOCKS = 26  # of the search, of the 50 that a quarter of the sweep is where rates are near the true one
SWEEP_STEPS = 20
SHARE_OF_SWEEP = 0.25
SHARE_OF_SEEDS = 0.9
LISTED = (1.0, 1.7, 2.9)  # times the lowest
GUESSES = (0.75, 4.0)  # the true rate over the lowest listed one
TOKENS_IN = 300
GUARDRAILS = Guardrails(tpot_p90_ms=1_000)
MOST_LATE_S = 0.0002
TRUTH_ARRIVALS = 2_000_000
TRUTH_GRID = 0.002  # of the capacity
NOT_RECORDED = dict.fromkeys(request_table.NAMES)


@dataclass(frozen=True)
class Engine:
    """A scripted engine and the target that it is held to, with the plan by which it is measured."""

    name: str
    script: Script
    tokens_out: int
    target_ms: float
    blocks: int
    block_duration_s: float
    warm_up_s: float

    @property
    def service_s(self) -> float:
        return (self.script.first_token_ms + (self.tokens_out - 1) * self.script.token_ms) / 1e3

    @property
    def capacity_per_s(self) -> float:
        return self.script.max_num_seqs / self.service_s

    @property
    def targets(self) -> Targets:
        return Targets(ttft_p90_ms=self.target_ms, cost_per_1000_requests_usd=1, pass_rate=0.5)


ENGINES = (
    Engine("1 slot of 0.1 s", Script(max_num_seqs=1, first_token_ms=40, token_ms=4), 16, 200, 10, 60, 5),
    Engine("4 slots of 0.4 s", Script(max_num_seqs=4, first_token_ms=100, token_ms=10), 31, 250, 10, 60, 5),
    Engine("16 slots of 1 s", Script(max_num_seqs=16, first_token_ms=100, token_ms=10), 91, 200, 10, 60, 5),
    Engine("16 slots, wide target", Script(max_num_seqs=16, first_token_ms=100, token_ms=10), 91, 600, 10, 90, 15),
)


def true_rate_per_s(engine: Engine, seed: int) -> float:
    """The highest rate of the grid whose P90 TTFT is within the target. One series of gaps for all rates: they only
    stretch, so that the P90 grows with the rate and the grid may be bisected."""
    gaps = np.random.default_rng([seed, 77]).exponential(size=TRUTH_ARRIVALS)
    slots, service_s = engine.script.max_num_seqs, engine.service_s

    def p90_ms(rate_per_s: float) -> float:
        arrived = np.cumsum(gaps / rate_per_s)[: TRUTH_ARRIVALS // slots * slots].reshape(-1, slots)
        # Equal service times: a request gets the slot of the one `slots` before it, so each slot is a queue by itself.
        served = service_s * np.arange(len(arrived))[:, None]
        began = np.maximum.accumulate(arrived - served, axis=0) + served
        waits = (began - arrived).ravel()[TRUTH_ARRIVALS // 10 :]
        return engine.script.first_token_ms + 1e3 * float(np.quantile(waits, 0.9))

    low, high = 0, round(1 / TRUTH_GRID)  # held, not held: in steps of the grid
    while high - low > 1:
        middle = (low + high) // 2
        is_within = p90_ms(middle * TRUTH_GRID * engine.capacity_per_s) <= engine.target_ms
        low, high = (middle, high) if is_within else (low, middle)
    return low * TRUTH_GRID * engine.capacity_per_s


def block_of(engine: Engine, plan: LoadPlan, rate_per_s: float, block: int) -> BlockResult:
    """One block in virtual time, by the arithmetic of the scripted engine and the checks of the product."""
    due = due_times_s(seed=plan.seed, rate_per_s=rate_per_s, block=block, duration_s=plan.block_duration_s)
    slots = Slots(engine.script)
    times = [slots.take(moment, TOKENS_IN, engine.tokens_out, 0) for moment in due]
    late = np.random.default_rng([plan.seed, block, round(1e6 * rate_per_s)]).uniform(0, MOST_LATE_S, len(due))
    in_time = [t.last_token - t.arrived <= plan.request_timeout_s for t in times]
    records = [
        NOT_RECORDED
        | {
            "index": index,
            "due_s": t.arrived,
            "sent_s": t.arrived,
            "first_byte_s": t.first_token + late[index],
            "first_token_s": t.first_token + late[index],
            "last_token_s": t.last_token,
            "ended_s": t.last_token if ended else t.arrived + plan.request_timeout_s,
            "tokens_in": TOKENS_IN,
            "tokens_cached": 0,
            "tokens_out": engine.tokens_out,
            "tokens_in_expected": TOKENS_IN,
            "tokens_out_expected": engine.tokens_out,
            "queue_time_ms": 1e3 * t.queue_s,
            "engine_ttft_ms": 1e3 * t.prefill_s,
            "generation_time_ms": 1e3 * t.decode_s,
            "finish_reason": "length",
            "http_status": 200,
            "timed_out": not ended,
            "error": "" if ended else "timed out",
            "kind": "shared",
        }
        for index, (t, ended) in enumerate(zip(times, in_time, strict=True))
    ]
    checks = check_block(_facts(records, plan))
    status, reason = status_of(checks, overload_reason(_facts(records, plan)))
    return BlockResult(
        rate_per_s=rate_per_s,
        block=block,
        seed=plan.seed,
        status=status,
        reason=reason,
        checks=checks,
        n_requests=len(records),
        n_failed=len(records) - sum(in_time),
        duration_s=plan.block_duration_s,
        schedule_sha256="",
        requests_blob=request_table.encode(records),
    )


def _facts(records: Sequence[dict[str, object]], plan: LoadPlan) -> BlockFacts:
    def column(name: str) -> Floats:
        return np.array([record[name] for record in records], dtype=np.float64)

    return BlockFacts(
        due_s=column("due_s"),
        sent_s=column("sent_s"),
        first_token_s=column("first_token_s"),
        ended_s=column("ended_s"),
        tokens_in=column("tokens_in"),
        tokens_cached=column("tokens_cached"),
        tokens_in_expected=column("tokens_in_expected"),
        queue_ms=column("queue_time_ms"),
        engine_ttft_ms=column("engine_ttft_ms"),
        timed_out=np.array([record["timed_out"] for record in records], dtype=bool),
        errors=tuple(str(record["error"]) for record in records),
        duration_s=plan.block_duration_s,
        warm_up_s=plan.warm_up_s,
        cached_tokens_expected=0.0,
        client_cpu_share=0.0,
        engine_queue_and_prefill_s=None,
        engine_finished=None,
    )


@dataclass(frozen=True)
class Searched:
    """One seed. `requests`: of all blocks, those of the listed rates too."""

    result: SearchResult
    requests: int


def search(engine: Engine, plan: LoadPlan) -> Searched:
    """As `running/stages.py` goes about it: the listed rates up to a clear miss, then what the search asks for."""
    measured: dict[float, list[BlockResult]] = {}

    def measure(rate_per_s: float, block: int) -> None:
        measured.setdefault(rate_per_s, []).append(block_of(engine, plan, rate_per_s, block))

    tried: dict[float, Tried] = {}

    def sum_up(rate_per_s: float) -> None:
        blocks = measured[rate_per_s]
        tried[rate_per_s] = Tried(summarize_level(blocks, plan.warm_up_s), tuple(block.status for block in blocks))

    def is_over(rate_per_s: float) -> bool:
        return is_clearly_missed(tried[rate_per_s], engine.targets, GUARDRAILS)

    for rate_per_s in plan.rates_per_s:
        for block in range(plan.blocks):
            measure(rate_per_s, block)
            sum_up(rate_per_s)
            if is_settled(tried[rate_per_s].blocks) or is_over(rate_per_s):
                break
        if is_over(rate_per_s):
            break
    while isinstance(step := next_step(list(tried.values()), plan, engine.targets, GUARDRAILS), Probe):
        measure(step.rate_per_s, step.block)
        sum_up(step.rate_per_s)
    requests = sum(block.n_requests for blocks in measured.values() for block in blocks)
    return Searched(step, requests)


@dataclass(frozen=True)
class Outcome:
    """Of one seed against the truth. `share`: of the sweep's requests."""

    status: SearchStatus
    off: float | None
    encloses: bool
    share: float
    rates: int

    @property
    def is_good(self) -> bool:
        return self.off is not None and abs(self.off) <= WITHIN and self.share < SHARE_OF_SWEEP


def outcome(engine: Engine, true_per_s: float, seed: int) -> Outcome:
    low, high = GUESSES
    guess = exp(random.Random(seed).uniform(log(low), log(high)))
    plan = LoadPlan(
        rates_per_s=tuple(float(f"{true_per_s / guess * times:.3g}") for times in LISTED),
        blocks=engine.blocks,
        block_duration_s=engine.block_duration_s,
        warm_up_s=engine.warm_up_s,
        request_timeout_s=60,
        seed=seed,
        search=True,
        search_precision=PRECISION,
        search_most_blocks=MOST_BLOCKS,
    )
    found = search(engine, plan)
    of_a_level = plan.blocks * plan.block_duration_s * true_per_s
    held = found.result.highest_held
    return Outcome(
        status=found.result.status,
        off=None if held is None else held / true_per_s - 1,
        encloses=(found.result.surely_held or 0.0) <= true_per_s < (found.result.surely_missed or inf),
        share=found.requests / (SWEEP_STEPS * of_a_level),
        rates=found.result.rates,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.search", description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args(arguments)
    failed = False
    with ProcessPoolExecutor(asked.processes) as pool:
        for engine in ENGINES:
            true_per_s = true_rate_per_s(engine, asked.seed)
            seeds = range(asked.seed, asked.seed + asked.seeds)
            found = list(pool.map(partial(outcome, engine, true_per_s), seeds, chunksize=5))
            failed |= not say(engine, true_per_s, found)
    return 1 if failed else 0


def say(engine: Engine, true_per_s: float, found: Sequence[Outcome]) -> bool:
    """Prints what the seeds came to; False where a claim fails."""
    n = len(found)
    within = [one for one in found if one.off is not None and abs(one.off) <= WITHIN]
    good, encloses = sum(one.is_good for one in found), sum(one.encloses for one in found)
    off = sorted(inf if one.off is None else abs(one.off) for one in found)
    ended = ", ".join(f"{k} {status.value}" for status in SearchStatus if (k := sum(o.status is status for o in found)))
    requests = engine.blocks * engine.block_duration_s * true_per_s
    print(
        f"{engine.name}, P90 TTFT within {engine.target_ms:g} ms: holds {true_per_s:.3f}/s in truth "
        f"({true_per_s / engine.capacity_per_s:.0%} of its capacity); {engine.blocks} blocks of "
        f"{engine.block_duration_s:g} s, {requests:,.0f} requests a level there\n"
        f"  off by {off[n // 2]:.1%} (median), {off[9 * n // 10]:.1%} (P90); within 10 %: {len(within)} of {n}\n"
        f"  ended: {ended}; sure rates enclose the true one: {encloses} of {n}\n"
        f"  requests, share of the sweep's: mean {np.mean([one.share for one in found]):.1%}, largest "
        f"{max(one.share for one in found):.1%}; further rates: {np.mean([one.rates for one in found]):.1f}"
    )
    claims = {
        f"within 10 % for fewer than a quarter of the requests: {good} of {n}": good >= SHARE_OF_SEEDS * n,
        f"enclosed: {encloses} of {n}": encloses >= SHARE_OF_SEEDS * n,
    }
    for claim, holds in claims.items():
        print(f"  {'ok  ' if holds else 'FAIL'} {claim}", flush=True)
    return all(claims.values())


if __name__ == "__main__":
    sys.exit(main())
