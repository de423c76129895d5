"""Load levels for tests of the rules that read them: only what a rule looks at has to be given."""

from __future__ import annotations

from kitedash.domain.results import Estimate, LevelStatus, LevelSummary


def level(
    rate_per_s: float,
    ttft: Estimate,
    *,
    tpot: Estimate | None = None,
    status: LevelStatus = LevelStatus.OK,
    error_rate: float = 0.0,
    delivered_rate_per_s: float | None = None,
    output_tokens_per_s: float | None = None,
    n_requests: int = 400,
    blocks: int = 8,
) -> LevelSummary:
    tpot = tpot or Estimate(20.0, 18.0, 22.0, n_requests)
    return LevelSummary(
        rate_per_s=rate_per_s,
        status=status,
        reason="" if status == LevelStatus.OK else status.value,
        blocks=blocks,
        n_requests=n_requests,
        n_failed=round(error_rate * n_requests),
        ttft_p50_ms=ttft,
        ttft_p90_ms=ttft,
        ttft_p99_ms=ttft,
        tpot_p50_ms=tpot,
        tpot_p90_ms=tpot,
        tpot_p99_ms=tpot,
        e2e_p90_ms=ttft,
        error_rate=error_rate,
        delivered_rate_per_s=rate_per_s if delivered_rate_per_s is None else delivered_rate_per_s,
        output_tokens_per_s=20 * rate_per_s if output_tokens_per_s is None else output_tokens_per_s,
        prefix_hit_rate=0.95,
        running_max=4,
        parts_ms={},
    )


def spread(value: float, low: float | None, high: float | None, n: int = 400) -> Estimate:
    return Estimate(value, low, high, n)
