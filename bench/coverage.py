"""`python -m bench.coverage --seed N [--simulations 2000]`: how often the 95 % intervals hold the truth. About five
minutes on two quiet cores; status 1 where a claim fails.

Simulated are independent draws (exponential, lognormal), where at least 94 % must hold the truth, and the time in
system of M/D/1 and M/M/1 queues at utilisation 0.3, 0.5 and 0.7, where 92 to 98 % must. A service takes 1 on average.
A block is as the product's: Poisson arrivals over a fixed time into an empty queue, the warm-up cut off; here it is 200
services long, so that what is left is the steady state, whose truth is known without simulating: exponential for M/M/1,
Crommelin's formula for M/D/1 (a long simulation beside it must agree). Two more tables have no warm-up (the product's
default; the truth is what such blocks hold on average, from a long simulation) and blocks between which the machine
changes (each is slower or faster as a whole).

An answer counts as given where both ends are: with an end missing it is "too few". Coverage is among the answers
given; where fewer than 5 % of the simulations have one, the case is "too few" and only its wrong answers are counted.
A truth that many requests share (no wait at all in M/D/1) may be held more often, since it can't be missed on one side.

The bounds are claimed of the true coverage. What so many answers show of it differs by chance (0.3 to 0.5 points of
2,000 answers, more of fewer), so a number outside the bounds by at most two binomial standard errors is marked ~ and
counted apart; one further outside is marked ! and fails.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy import integrate, optimize, special

from kitedash.domain.attainment import attainment_interval
from kitedash.domain.quantile import quantile_interval
from kitedash.domain.results import Estimate

Floats = npt.NDArray[np.float64]
Rng = np.random.Generator

WARM_UP = 200.0  # services: what is left of an empty start is then below 1 % even at utilisation 0.7
SHARES = (0.5, 0.9, 0.99)
TARGET_AT = 0.9  # the attainment's target is the true value at this share
INDEPENDENT_LEAST, QUEUE_LEAST, QUEUE_MOST = 0.94, 0.92, 0.98
LEAST_ANSWERED = 0.05
LONG_REQUESTS = 4_000_000
AT_ONCE = 50  # simulations of one task
CHANCE = 2.0  # standard errors
AGREE = 0.002  # of a share: four times what so long a simulation is off by at utilisation 0.7


@dataclass(frozen=True)
class Case:
    """`law`: exponential, lognormal, M/D/1, M/M/1 or drift. `level`: the utilisation of a queue, or the standard
    deviation of the logarithm of a drifting block's factor."""

    law: str
    level: float
    blocks: int
    requests: int  # a block, on average where they arrive at random
    warm_up: float = WARM_UP

    @property
    def is_queue(self) -> bool:
        return self.law in ("M/D/1", "M/M/1")

    @property
    def name(self) -> str:
        return f"{self.law} {self.level:g}" if self.level else self.law


@dataclass
class Tally:
    held: int = 0
    answered: int = 0
    asked: int = 0

    def count(self, estimate: Estimate, truth: float) -> None:
        self.asked += 1
        if estimate.low is not None and estimate.high is not None:
            self.answered += 1
            self.held += estimate.low <= truth <= estimate.high

    def add(self, other: Tally) -> None:
        self.held, self.answered, self.asked = (
            self.held + other.held,
            self.answered + other.answered,
            self.asked + other.asked,
        )


LAYOUTS = ((6, 100), (8, 150), (10, 200), (10, 1_000))
CASES = tuple(
    Case(law, level, blocks, requests)
    for law, levels in {
        **{"exponential": (0.0,), "lognormal": (0.0,)},
        **{"M/D/1": (0.3, 0.5, 0.7), "M/M/1": (0.3, 0.5, 0.7)},
    }.items()
    for level in levels
    for blocks, requests in LAYOUTS
)
NO_WARM_UP = tuple(Case(law, level, 8, 150, 0.0) for law in ("M/D/1", "M/M/1") for level in (0.3, 0.5, 0.7))
DRIFT = tuple(Case("drift", level, blocks, requests) for level in (0.1, 0.2, 0.4) for blocks, requests in LAYOUTS[:3])
NAMES = ("P50", "P90", "P99", "attainment")


def draw(case: Case, rng: Rng, times: int) -> Iterator[list[Floats]]:
    """Simulations one by one: the latencies of each block in order of arrival."""
    shape = (times, case.blocks, case.requests)
    if not case.is_queue:
        values = rng.lognormal(size=shape) if case.law == "lognormal" else rng.exponential(size=shape)
        if case.law == "drift":
            values *= np.exp(case.level * rng.normal(size=(*shape[:2], 1)))
        yield from (list(blocks) for blocks in values)
        return
    length = case.requests / case.level + case.warm_up
    mean = case.level * length
    room = math.ceil(mean + 7 * math.sqrt(mean) + 10)  # of a Poisson number, all but once in a million million
    gaps = rng.exponential(1 / case.level, (*shape[:2], room))
    services = np.ones_like(gaps) if case.law == "M/D/1" else rng.exponential(size=gaps.shape)
    arrivals = np.cumsum(gaps, axis=-1)
    latencies = waits(gaps, services) + services
    kept = (arrivals >= case.warm_up) & (arrivals < length)
    for values, keep in zip(latencies, kept, strict=True):
        yield [block[mine] for block, mine in zip(values, keep, strict=True)]


def waits(gaps: Floats, services: Floats) -> Floats:
    """Lindley's recursion, wait = max(0, wait before + service before - gap), all at once along the last axis: the
    walk of service - gap above its own minimum so far."""
    walk = np.zeros_like(gaps)
    walk[..., 1:] = np.cumsum(services[..., :-1] - gaps[..., 1:], axis=-1)
    lowest: Floats = np.minimum.accumulate(walk, axis=-1)
    return walk - lowest


def share_below(case: Case, at: float) -> float:
    """The true share of latencies at or below `at`, without simulating (in the steady state)."""
    if case.law == "M/M/1":
        return -math.expm1(-(1 - case.level) * at)
    if case.law == "M/D/1":  # Crommelin 1932: the wait of a constant service of 1
        wait = at - 1
        terms = ((case.level * (k - wait)) ** k / math.factorial(k) * math.exp(-case.level * (k - wait)) for k in
                 range(math.floor(wait) + 1))  # fmt: skip
        return (1 - case.level) * math.fsum(terms) if wait >= 0 else 0.0
    if case.law == "lognormal":
        return float(special.ndtr(math.log(at)))
    if case.law == "exponential":
        return -math.expm1(-at)
    density = 1 / math.sqrt(2 * math.pi)
    found, _ = integrate.quad(
        lambda z: -math.expm1(-at * math.exp(-case.level * z)) * density * math.exp(-z * z / 2), -8, 8
    )
    return float(found)


@cache
def truths(case: Case) -> dict[float, float]:
    """The true value at each share: the smallest with so much at or below it."""
    if case.is_queue and not case.warm_up:
        pooled = long_run(case)
        return {share: float(pooled[math.ceil(share * len(pooled)) - 1]) for share in SHARES}
    found = {}
    for share in SHARES:
        if case.law == "M/D/1" and share_below(case, 1.0) >= share - 1e-12:
            found[share] = 1.0  # no wait at all
        else:
            start = 1.0 if case.law == "M/D/1" else 1e-9
            found[share] = float(optimize.brentq(lambda at, q=share: share_below(case, at) - q, start, 60, xtol=1e-10))
    return found


def is_atom(case: Case, share: float) -> bool:
    return case.law == "M/D/1" and truths(case)[share] == 1.0


def true_attainment(case: Case) -> float:
    if case.is_queue and not case.warm_up:
        return float(np.mean(long_run(case) <= truths(case)[TARGET_AT]))
    return share_below(case, truths(case)[TARGET_AT])


@cache
def long_run(case: Case) -> Floats:
    """Latencies of many blocks of their own seed, sorted."""
    rng = np.random.default_rng([20, int(case.level * 10), int(case.warm_up), int(case.law == "M/D/1")])
    times = math.ceil(LONG_REQUESTS / (case.blocks * case.requests))
    simulations = (found for _ in range(math.ceil(times / AT_ONCE)) for found in draw(case, rng, AT_ONCE))
    return np.sort(np.concatenate([block for blocks in simulations for block in blocks]))


def largest_gap() -> float:
    """Between the formulas of the queues and long simulations, in shares at the true values."""
    gaps = []
    for case in (Case(law, level, 10, 1_000) for law in ("M/D/1", "M/M/1") for level in (0.3, 0.5, 0.7)):
        pooled = long_run(case)
        for at in truths(case).values():
            gaps.append(abs(np.searchsorted(pooled, at + 1e-9, "right") / len(pooled) - share_below(case, at + 1e-9)))
    return float(max(gaps))


def run(task: tuple[Case, dict[float, float], float, list[int], int]) -> tuple[Case, list[Tally]]:
    case, truth, attained, entropy, times = task
    tallies = [Tally() for _ in NAMES]
    for blocks in draw(case, np.random.default_rng(entropy), times):
        for tally, share in zip(tallies, SHARES, strict=False):
            tally.count(quantile_interval(blocks, share), truth[share])
        tallies[-1].count(attainment_interval(blocks, truth[TARGET_AT]), attained)
    return case, tallies


def simulate(cases: Sequence[Case], seed: int, simulations: int) -> dict[Case, list[Tally]]:
    tasks = []
    for number, case in enumerate(cases):
        known = truths(case), true_attainment(case)
        for start in range(0, simulations, AT_ONCE):
            tasks.append((case, *known, [seed, number, start], min(AT_ONCE, simulations - start)))
    found = {case: [Tally() for _ in NAMES] for case in cases}
    with multiprocessing.get_context("fork").Pool(os.cpu_count()) as pool:
        for case, tallies in pool.imap_unordered(run, tasks):
            for total, part in zip(found[case], tallies, strict=True):
                total.add(part)
    return found


def cell(case: Case, name: str, tally: Tally) -> tuple[str, str]:
    """What is printed of one number, and how it is out of its bounds ("" where it is not)."""
    few = 1 - tally.answered / tally.asked
    wrong = (tally.answered - tally.held) / tally.asked
    if tally.answered < LEAST_ANSWERED * tally.asked:
        said = f"too few ({few:.1%}{f'; wrong {wrong:.1%}' if wrong else ''})"
        return said, ""
    coverage = tally.held / tally.answered
    atom = name in NAMES[:3] and is_atom(case, SHARES[NAMES.index(name)])
    least = QUEUE_LEAST if case.is_queue or case.law == "drift" else INDEPENDENT_LEAST
    most = QUEUE_MOST if case.is_queue and not atom else 1.0
    beyond = max(least - coverage, coverage - most)
    bound = least if coverage < least else most
    sign = "" if beyond <= 0 else "~" if beyond <= CHANCE * math.sqrt(bound * (1 - bound) / tally.answered) else "!"
    said = f"{coverage:.1%}{' shared' if atom else ''}{f' ({few:.1%})' if few else ''}{f' {sign}' if sign else ''}"
    return (
        said,
        f"{sign} {case.name}, {case.blocks} x {case.requests}, {name}: {coverage:.2%}, too few {few:.1%}" * bool(sign),
    )


def table(title: str, found: dict[Case, list[Tally]]) -> list[str]:
    """Prints one row a case and returns what is out of its bounds."""
    print(f"\n{title}\n")
    print(f"| simulated | blocks x requests | {' | '.join(NAMES)} |\n|---|---|{'---|' * len(NAMES)}")
    failed = []
    for case, tallies in found.items():
        cells = [cell(case, name, tally) for name, tally in zip(NAMES, tallies, strict=True)]
        print(f"| {case.name} | {case.blocks} x {case.requests} | {' | '.join(said for said, _ in cells)} |")
        failed += [out for _, out in cells if out]
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--simulations", type=int, default=2_000)
    asked = parser.parse_args()
    os.nice(10)
    start = time.monotonic()
    print(f"seed {asked.seed}, {asked.simulations:,} simulations a row, {os.cpu_count()} processes")
    print('share of the answers that held the truth (share of simulations answered "too few")')
    print(f"! is out of bounds; ~ is outside by at most {CHANCE:g} standard errors, which is no claim failed")
    gap = largest_gap()
    print(f"formulas and long simulations of the queues differ by at most {gap:.4f} of a share")
    failed = [] if gap <= AGREE else ["! the formulas of the queues are not what is simulated"]
    titles = {
        "At least 94 % of independent draws, 92 to 98 % in queues": CASES,
        "Without a warm-up, from an empty queue: 92 to 98 %": NO_WARM_UP,
        "A machine that changes between blocks, by this standard deviation of the logarithm: at least 92 %": DRIFT,
    }
    for number, (title, cases) in enumerate(titles.items()):
        failed += table(title, simulate(cases, asked.seed * 10 + number, asked.simulations))
    wrong = sum(said.startswith("!") for said in failed)
    print(
        f"\n{time.monotonic() - start:.0f} s; {wrong} out of bounds, {len(failed) - wrong} within two standard errors",
        *failed,
        sep="\n",
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
