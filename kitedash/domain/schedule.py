"""When each request is due. Drawn from (seed, rate, block) alone: every candidate gets the same due times."""

from __future__ import annotations

import hashlib
import math
from random import Random

from kitedash.domain.workload import Arrivals as Arrivals


def generator(seed: int, rate_per_s: float, block: int, purpose: str) -> Random:
    """An independent random stream for each (seed, rate, block, purpose); equal arguments give equal streams.

    Seeded through SHA-256, so neighbouring seeds, rates and blocks share nothing.
    """
    key = f"{seed}/{float(rate_per_s)!r}/{block}/{purpose}"
    return Random(int.from_bytes(hashlib.sha256(key.encode()).digest()))


def due_times_s(
    *,
    seed: int,
    rate_per_s: float,
    block: int,
    duration_s: float,
    arrivals: Arrivals = "poisson",
    burstiness: float = 1.0,
    ramp_s: float = 0.0,
) -> tuple[float, ...]:
    """Ascending due times in [0, duration_s), in s from the start of the block; may be empty at a low rate.

    poisson: exponential gaps of mean 1/rate (the count is random, as it must be). constant: one each 1/rate
    seconds from a drawn phase on, so that blocks differ. gamma: gaps of mean 1/rate whose squared coefficient of
    variation is `burstiness` (gamma of shape 1/burstiness, which `vllm bench serve` calls its burstiness).

    Over the first `ramp_s` the rate rises from zero to `rate_per_s` along a line: the same process in another time, by
    the inverse of the cumulative rate (Cinlar, Introduction to Stochastic Processes, 1975, section 4.7).
    """
    if ramp_s:
        # At the full rate the ramp's requests would have come in half its time.
        steady = due_times_s(
            seed=seed,
            rate_per_s=rate_per_s,
            block=block,
            duration_s=duration_s - ramp_s / 2 if ramp_s <= duration_s else duration_s**2 / (2 * ramp_s),
            arrivals=arrivals,
            burstiness=burstiness,
        )
        return tuple(math.sqrt(2 * ramp_s * due) if due < ramp_s / 2 else due + ramp_s / 2 for due in steady)
    if not (rate_per_s > 0 and math.isfinite(rate_per_s) and duration_s > 0 and math.isfinite(duration_s)):
        raise ValueError("rate_per_s and duration_s must be positive and finite")
    random = generator(seed, rate_per_s, block, "arrivals")
    due: list[float] = []
    if arrivals == "constant":
        phase = random.random()
        count = math.ceil(duration_s * rate_per_s - phase)
        return tuple((phase + index) / rate_per_s for index in range(count))

    def gap_s() -> float:
        if arrivals == "gamma":
            return random.gammavariate(1 / burstiness, burstiness / rate_per_s)
        return -math.log(1.0 - random.random()) / rate_per_s

    elapsed = gap_s()
    while elapsed < duration_s:
        due.append(elapsed)
        elapsed += gap_s()
    return tuple(due)


def sha256_of(content: bytes) -> str:
    """The hash that is stored with a block: of the file of due times and prompts, byte by byte."""
    return hashlib.sha256(content).hexdigest()
