"""The distributions of a run's latencies, rate by rate, from the requests of its blocks."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from db import results
from db.engine import sessions
from kitedash.domain.latency import BlockSample
from kitedash.domain.quantile_curve import QuantileCurve, quantile_curve
from kitedash.domain.results import LevelStatus
from kitedash.services.block_samples import samples_by_rate
from kitedash.settings import settings


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
    """One entry a rate that has a request in a valid block. Raises NotFound."""
    with sessions(settings().url)() as session:
        samples = samples_by_rate(session, run_id)
        statuses = {level.rate_per_s: level.status for level in results.levels(session, run_id)}
    return tuple(_curves(rate, statuses.get(rate), blocks.values()) for rate, blocks in samples.items())


def _curves(rate_per_s: float, status: LevelStatus | None, blocks: Collection[BlockSample]) -> LevelCurves:
    tpot_ms = np.concatenate([block.tpot_ms for block in blocks])
    return LevelCurves(
        rate_per_s=rate_per_s,
        status=status,
        blocks=len(blocks),
        ttft=quantile_curve(np.concatenate([block.ttft_ms for block in blocks])),
        tpot=quantile_curve(tpot_ms[np.isfinite(tpot_ms)]),
        e2e=quantile_curve(np.concatenate([block.e2e_ms for block in blocks])),
    )
