"""How many of a run's requests were as fast as asked, rate by rate, and what its blocks differ by."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from db import results
from db.engine import sessions
from kitedash.domain.attainment import BlockPoint, attainment_interval, block_point, goodput, variance_between
from kitedash.domain.latency import BlockSample
from kitedash.domain.quantile import quantile_interval
from kitedash.domain.results import Estimate, LevelStatus
from kitedash.services.block_samples import samples_by_rate
from kitedash.settings import settings


@dataclass(frozen=True)
class LevelAttainment:
    """One rate over its valid blocks, against a TTFT target and a TPOT guardrail. Times in ms.

    `status` is None while the rate is still being measured. `between_share`: of the variance of TTFT, between blocks;
    None where the blocks don't tell.
    """

    rate_per_s: float
    status: LevelStatus | None
    attainment: Estimate  # share of requests
    goodput_per_s: Estimate
    ttft_p90_ms: Estimate
    e2e_p50_ms: Estimate
    e2e_p99_ms: Estimate
    between_share: float | None
    points: tuple[tuple[int, BlockPoint], ...]  # by number of block, those with a request
    invalid_blocks: int


def attainments(run_id: str, ttft_ms: float, tpot_ms: float) -> tuple[LevelAttainment, ...]:
    """One entry a rate that has a request in a valid block. Raises NotFound."""
    with sessions(settings().url)() as session:
        samples = samples_by_rate(session, run_id)
        statuses = {level.rate_per_s: level.status for level in results.levels(session, run_id)}
        heads = results.block_heads(session, run_id)
    invalid = Counter(block.rate_per_s for block in heads if block.status is LevelStatus.INVALID)
    return tuple(
        _level(rate, statuses.get(rate), blocks, invalid[rate], ttft_ms=ttft_ms, tpot_ms=tpot_ms)
        for rate, blocks in samples.items()
    )


def _level(
    rate_per_s: float,
    status: LevelStatus | None,
    blocks: dict[int, BlockSample],
    invalid_blocks: int,
    *,
    ttft_ms: float,
    tpot_ms: float,
) -> LevelAttainment:
    ttft = [block.ttft_ms for block in blocks.values()]
    e2e = [block.e2e_ms for block in blocks.values()]
    return LevelAttainment(
        rate_per_s=rate_per_s,
        status=status,
        attainment=attainment_interval(ttft, ttft_ms),
        goodput_per_s=goodput([*blocks.values()], ttft_ms=ttft_ms, tpot_ms=tpot_ms),
        ttft_p90_ms=quantile_interval(ttft, 0.9),
        e2e_p50_ms=quantile_interval(e2e, 0.5),
        e2e_p99_ms=quantile_interval(e2e, 0.99),
        between_share=variance_between(ttft),
        points=tuple(
            (number, block_point(block.ttft_ms, ttft_ms)) for number, block in blocks.items() if len(block.ttft_ms)
        ),
        invalid_blocks=invalid_blocks,
    )
