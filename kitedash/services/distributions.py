"""The distributions of a run's latencies, rate by rate, from the requests of its blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from db import experiments, results, runs
from db.engine import sessions
from kitedash.domain.latency import BlockSample
from kitedash.domain.quantile_curve import QuantileCurve, quantile_curve
from kitedash.domain.results import LevelStatus
from kitedash.measuring.levels import sample
from kitedash.measuring.request_table import decode
from kitedash.services.bounded_cache import BoundedCache
from kitedash.settings import settings

MOST_REQUESTS: Final = 1_000_000  # in kept samples, 24 bytes each
_SAMPLES: BoundedCache[BlockSample] = BoundedCache(MOST_REQUESTS)


@dataclass(frozen=True)
class LevelCurves:
    """The curves of one rate in ms, over its valid blocks. `status` is None while the rate is still being measured.

    TTFT and E2E are over all requests after the warm-up (failed ones never arrive), TPOT over the successful ones with
    more than one token: as in `domain.latency.summarize`.
    """

    rate_per_s: float
    status: LevelStatus | None
    blocks: int
    ttft: QuantileCurve
    tpot: QuantileCurve
    e2e: QuantileCurve


def distributions(run_id: str) -> tuple[LevelCurves, ...]:
    """One entry a rate that has a request in a valid block. Opens each blob once, as far as the samples fit.

    Raises NotFound.
    """
    samples: dict[float, list[BlockSample]] = {}
    with sessions(settings().url)() as session:
        run = runs.get(session, run_id)
        warm_up_s = experiments.spec_of(experiments.get(session, run.experiment_id)).load.warm_up_s
        statuses = {level.rate_per_s: level.status for level in results.levels(session, run_id)}
        for rate_per_s, block, stored_at in results.valid_blocks(session, run_id):
            key = (session.get_bind(), run_id, rate_per_s, block, stored_at, warm_up_s)
            found = _SAMPLES.get(key)
            if found is None:
                (stored,) = results.blocks(session, run_id, rate_per_s=rate_per_s, block=block)
                found = sample(decode(stored.requests_blob), stored.duration_s, warm_up_s)
                _SAMPLES.put(key, found, 1 + len(found.ttft_ms))
            samples.setdefault(rate_per_s, []).append(found)
    return tuple(
        _curves(rate, statuses.get(rate), blocks)
        for rate, blocks in samples.items()
        if any(len(block.ttft_ms) for block in blocks)
    )


def _curves(rate_per_s: float, status: LevelStatus | None, blocks: list[BlockSample]) -> LevelCurves:
    tpot_ms = np.concatenate([block.tpot_ms for block in blocks])
    return LevelCurves(
        rate_per_s=rate_per_s,
        status=status,
        blocks=len(blocks),
        ttft=quantile_curve(np.concatenate([block.ttft_ms for block in blocks])),
        tpot=quantile_curve(tpot_ms[np.isfinite(tpot_ms)]),
        e2e=quantile_curve(np.concatenate([block.e2e_ms for block in blocks])),
    )
