"""`python -m bench.cache_contamination`: does it matter which of two candidates is measured first, or how often a level
was measured before? Prints the effects with their intervals; status 1 where a claim fails. About four minutes.

The engine is the scripted one of the tests: it has a prefix cache like vLLM's, and every prompt token that it must
compute takes 0.5 ms, so what a warm cache does to a TTFT is known beforehand. Blocks are measured by the product's own
`measure_block`, with its real client, in four series:

  own servers, protocol on    each candidate on a server of its own, started once; the order swaps from repeat to
                              repeat, and it is always the same level: in the cache the second time are its prompts
  warm server, protocol on    both candidates on one server that is never restarted; each repeat has new prompts, which
                              the one that comes second could find in the cache
  own servers, protocol off   the same without flush and prime, which only this bench can leave out, by replacing the
  warm server, protocol off   two functions: the product has no such switch

Of two candidates with log TTFT a and b, a pair in the order AB shows second - first = b - a + o and one in the order BA
a - b + o: the mean over both orders is the effect o of being second, whatever the two differ by. Its interval is
Student's over the pairs, the two orders apart. The noise floor is an A/A one: nine in ten differences of two
measurements of one thing under the same requests are smaller, as seen in both series with the protocol (`noise_floor`).

Claims: with the protocol the whole interval of the order effect lies within the noise floor, and the first repeat of a
level differs from the later ones by no more; without it, the second candidate is faster by more than the floor with its
whole interval, and so are later repeats.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import math
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

import numpy as np
from scipy import stats

from kitedash.domain.experiment import LoadPlan, Workload
from kitedash.domain.load_checks import LATENESS
from kitedash.domain.results import BlockResult, LevelStatus
from kitedash.measuring import load_stage
from kitedash.measuring.endpoint import Endpoint
from kitedash.measuring.model_store import unpack_default_model
from kitedash.measuring.process import direct_spawn
from kitedash.measuring.request_table import decode
from kitedash.settings import settings
from tests.e2e.load_blocks import scripted_engine

RATE_PER_S = 24.0
WORKLOAD = Workload(input_tokens=200, shared_prefix_tokens=80, output_tokens=4)
SCRIPTS = {  # two candidates that differ by a known 10 ms of about 100
    "A": ("--first-token-ms", "40", "--computed-token-ms", "0.5", "--token-ms", "2"),
    "B": ("--first-token-ms", "50", "--computed-token-ms", "0.5", "--token-ms", "2"),
}
LEVEL = 0.95
TRIES = 3  # so many times the pairs asked for, where the machine is busy
FLOOR_SHARE = 0.9  # of the A/A pairs differ by less than the floor


@dataclass(frozen=True)
class Measured:
    """One block: `ttft_ms` is its P90 TTFT; `place` 0 where it came first in its repeat."""

    candidate: str
    repeat: int
    place: int
    ttft_ms: float
    valid: bool

    @property
    def log_ttft(self) -> float:
        return math.log(self.ttft_ms)


@dataclass(frozen=True)
class Effect:
    """Of a log TTFT: 0.1 is about 10 % slower."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        value, low, high = (f"{100 * math.expm1(one):+.1f}" for one in (self.value, self.low, self.high))
        return f"{value} % [{low}, {high}]"


@dataclass
class Series:
    """`late`: pairs that were measured again for the client's lateness; `refused`: other reasons of invalid blocks."""

    title: str
    blocks: list[Measured] = field(default_factory=list)
    late: int = 0
    refused: list[str] = field(default_factory=list)

    def of(self, candidate: str) -> list[Measured]:
        return [block for block in self.blocks if block.candidate == candidate]

    @property
    def pairs(self) -> list[tuple[Measured, Measured]]:
        """(first, second) of each repeat."""
        by_repeat = itertools.groupby(sorted(self.blocks, key=lambda block: (block.repeat, block.place)), _repeat)
        return [(first, second) for _, (first, second) in by_repeat]


def _repeat(block: Measured) -> int:
    return block.repeat


def order_effect(series: Series) -> Effect:
    """What it does to a log TTFT to be measured second; the difference of the candidates cancels."""
    by_order: dict[str, list[float]] = {}
    for first, second in series.pairs:
        by_order.setdefault(first.candidate, []).append(second.log_ttft - first.log_ttft)
    groups = [np.array(found) for found in by_order.values()]
    degrees = sum(len(group) - 1 for group in groups)
    variance = sum(float(np.sum((group - group.mean()) ** 2)) for group in groups) / degrees
    error = math.sqrt(variance * sum(1 / len(group) for group in groups)) / len(groups)
    value = float(np.mean([group.mean() for group in groups]))
    half = float(stats.t.ppf((1 + LEVEL) / 2, degrees)) * error
    return Effect(value, value - half, value + half)


def repeat_effect(series: Series) -> float:
    """How much slower the first repeat of the level was than the later ones, over both candidates."""
    found = []
    for candidate in SCRIPTS:
        first, *later = (block.log_ttft for block in series.of(candidate))
        found.append(first - float(np.mean(later)))
    return float(np.mean(found))


def noise_floor(found: Sequence[Series]) -> float:
    """Nine in ten A/A differences are smaller (as a log): of two measurements of one thing under the same requests.

    second - first of a pair is such a difference but for a constant of its order, so of two pairs in the same order
    the difference over the square root of 2 is distributed as one.
    """
    apart: list[float] = []
    for series in found:
        for one, other in itertools.combinations(series.pairs, 2):
            if one[0].candidate == other[0].candidate:
                mine, theirs = (second.log_ttft - first.log_ttft for first, second in (one, other))
                apart.append(abs(mine - theirs) / math.sqrt(2))
    return float(np.quantile(apart, FLOOR_SHARE))


async def swapped(
    title: str,
    endpoints: dict[str, Endpoint],
    plan: LoadPlan,
    work_dir: Path,
    repeats: int,
    *,
    same_level: bool,
    on: bool,
) -> Series:
    """`repeats` times both candidates, in the order AB and BA by turns. `same_level`: always the same requests.

    Where this machine was too busy for the client to be in time, the pair is measured again, as the product would
    refuse it: with other requests, or without the protocol not at all, since it would find its own.
    """
    series = Series(title)
    tries = 0
    while len(series.pairs) < repeats and tries < TRIES * repeats:
        repeat = len(series.pairs)
        found = []
        for place, candidate in enumerate(list(SCRIPTS)[:: 1 if repeat % 2 == 0 else -1]):
            block = await _block(endpoints[candidate], plan, work_dir, 0 if same_level else tries, protocol=on)
            late = any(check.name == LATENESS and not check.passed for check in block.checks)
            if on and block.status is not LevelStatus.OK and not late:
                series.refused.append(block.reason)
            valid = block.status is LevelStatus.OK
            found.append((Measured(candidate, repeat, place, ttft_p90_ms(block), valid), late))
        tries += 1
        if any(late for _, late in found) and (on or not same_level):
            series.late += 1
        else:
            series.blocks += [measured for measured, _ in found]
    return series


async def _block(endpoint: Endpoint, plan: LoadPlan, work_dir: Path, block: int, *, protocol: bool) -> BlockResult:
    with contextlib.nullcontext() if protocol else without_protocol():
        return await load_stage.measure_block(
            endpoint,
            workload=WORKLOAD,
            plan=plan,
            rate_per_s=RATE_PER_S,
            block=block,
            spawn=direct_spawn,
            work_dir=work_dir,
        )


@contextlib.contextmanager
def without_protocol() -> Iterator[None]:
    """Neither flush nor prime: what every tool does that measures one setting after the other."""

    async def no_flush(*_: object) -> float:
        return 0.0

    async def no_prime(*_: object) -> None:
        return None

    with patch.object(load_stage, "flush", no_flush), patch.object(load_stage, "_prime", no_prime):
        yield


def ttft_p90_ms(block: BlockResult) -> float:
    """From when requests were due, also of a block that the checks refuse, as those without the protocol are."""
    table = decode(block.requests_blob)
    return float(np.quantile((table["first_token_s"] - table["due_s"]) * 1e3, 0.9, method="inverted_cdf"))


@contextlib.asynccontextmanager
async def engines(model_dir: Path, work_dir: Path, *, shared: bool) -> AsyncIterator[dict[str, Endpoint]]:
    """One engine for each candidate, or the first one's for both."""
    async with contextlib.AsyncExitStack() as stack:
        started = {
            name: await stack.enter_async_context(scripted_engine(model_dir, work_dir / f"{name}.log", *script))
            for name, script in list(SCRIPTS.items())[: 1 if shared else None]
        }
        yield {name: started.get(name, started["A"]) for name in SCRIPTS}


async def run(model_dir: Path, work_dir: Path, *, repeats: int, block_s: float, seed: int) -> list[Series]:
    plan = LoadPlan(
        rates_per_s=(RATE_PER_S, 2 * RATE_PER_S, 3 * RATE_PER_S),
        blocks=TRIES * repeats,
        block_duration_s=block_s,
        request_timeout_s=10,
        seed=seed,
    )
    found = []
    for shared, on in ((False, True), (True, True), (False, False), (True, False)):
        title = f"{'warm server' if shared else 'own servers'}, protocol {'on' if on else 'off'}"
        folder = work_dir / title.replace(", ", " ").replace(" ", "-")
        folder.mkdir(parents=True)
        began = time.monotonic()
        async with engines(model_dir, folder, shared=shared) as endpoints:
            # Without the protocol a level's own repeats only have to show the first one: three are enough.
            count = repeats if on or shared else 4
            series = await swapped(title, endpoints, plan, work_dir, count, same_level=not shared, on=on)
        found.append(series)
        print(
            f"  {title}: {len(series.blocks)} blocks in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True
        )
    return found


def report(found: Sequence[Series]) -> int:
    """Prints the numbers; how many claims fail."""
    own_on, warm_on, own_off, warm_off = found
    floor = noise_floor((own_on, warm_on))
    failed = 0

    def claim(words: str, holds: bool) -> None:
        nonlocal failed
        failed += not holds
        print(f"    {'holds' if holds else 'FAILS'}: {words}")

    print(f"Noise floor (A/A, nine in ten differ by less): {100 * math.expm1(floor):.1f} % of P90 TTFT")
    truth = math.log(_mean(own_on.of("B")) / _mean(own_on.of("A")))
    print(f"A {_mean(own_on.of('A')):.1f} ms, B {_mean(own_on.of('B')):.1f} ms: {100 * math.expm1(truth):+.1f} %")
    for series in found:
        effect = order_effect(series)
        valid = sum(block.valid for block in series.blocks)
        passed = f"{valid} of {len(series.blocks)} blocks passed their checks"
        print(f"{series.title}: {len(series.pairs)} swaps, {passed}; {series.late} more while the client was late")
        print(f"    being second does {effect} to P90 TTFT")
        if series in (own_on, own_off):
            change = 100 * math.expm1(repeat_effect(series))
            print(f"    against the later ones the first repeat of the level had {change:+.1f} % P90 TTFT")
    claim("protocol on, own servers: no order effect beyond the floor", _within(order_effect(own_on), floor))
    claim("protocol on, own servers: a level repeated is the level", abs(repeat_effect(own_on)) <= floor)
    claim("protocol on, warm server: no order effect beyond the floor", _within(order_effect(warm_on), floor))
    claim("protocol on: nothing is refused but a late client", not own_on.refused and not warm_on.refused)
    claim("protocol off, warm server: the second is faster", order_effect(warm_off).high < -floor)
    claim("protocol off, own servers: later repeats are faster", repeat_effect(own_off) > floor)
    spoiled = [block for block in warm_off.blocks if block.place == 1]
    claim("protocol off: the checks refuse what was contaminated", not any(block.valid for block in spoiled))
    return failed


def _within(effect: Effect, floor: float) -> bool:
    return -floor <= effect.low and effect.high <= floor


def _mean(blocks: Sequence[Measured]) -> float:
    return float(np.exp(np.mean([block.log_ttft for block in blocks])))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=10, help="how often the order is swapped")
    parser.add_argument("--block-s", type=float, default=1.5, help="seconds of a block")
    parser.add_argument("--seed", type=int, default=1, help="of arrivals and prompts")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work_dir = Path(folder)
        model_dir = unpack_default_model(settings().data_dir / "models")
        print(f"P90 TTFT at {RATE_PER_S:g} requests/s, blocks of {given.block_s:g} s, seed {given.seed}", flush=True)
        found = asyncio.run(run(model_dir, work_dir, repeats=given.repeats, block_s=given.block_s, seed=given.seed))
    raise SystemExit(1 if report(found) else 0)


if __name__ == "__main__":
    main()
