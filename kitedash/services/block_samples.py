"""The requests of a run's valid blocks, rate by rate, as what is worked out from them needs them."""

from __future__ import annotations

from typing import Final

from sqlalchemy.orm import Session

from db import experiments, results, runs
from kitedash.domain.latency import BlockSample
from kitedash.measuring.levels import sample
from kitedash.measuring.request_table import decode
from kitedash.services.bounded_cache import BoundedCache

MOST_REQUESTS: Final = 1_000_000  # in kept samples, 24 bytes each
_SAMPLES: BoundedCache[BlockSample] = BoundedCache(MOST_REQUESTS)


def samples_by_rate(session: Session, run_id: str) -> dict[float, dict[int, BlockSample]]:
    """By rate and number of block, of the rates that have a request in a valid block. Opens each blob once, as far as
    the samples fit.

    Raises NotFound.
    """
    run = runs.get(session, run_id)
    warm_up_s = experiments.spec_of(experiments.get(session, run.experiment_id)).load.warm_up_s
    samples: dict[float, dict[int, BlockSample]] = {}
    for rate_per_s, block, stored_at in results.valid_blocks(session, run_id):
        key = (session.get_bind(), run_id, rate_per_s, block, stored_at, warm_up_s)
        found = _SAMPLES.get(key)
        if found is None:
            (stored,) = results.blocks(session, run_id, rate_per_s=rate_per_s, block=block)
            found = sample(decode(stored.requests_blob), stored.duration_s, warm_up_s)
            _SAMPLES.put(key, found, 1 + len(found.ttft_ms))
        samples.setdefault(rate_per_s, {})[block] = found
    return {rate: blocks for rate, blocks in samples.items() if any(len(one.ttft_ms) for one in blocks.values())}
