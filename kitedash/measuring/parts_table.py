"""From the stored requests of blocks to the parts of each: opens the blobs, hands arrays to domain/request_parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kitedash.domain.request_parts import Floats, PartsTable
from kitedash.domain.results import BlockResult
from kitedash.measuring.levels import sample
from kitedash.measuring.request_table import decode

_NONE = np.empty(0)


def parts_table(blocks: Sequence[BlockResult], warm_up_s: float) -> PartsTable:
    """The requests of these blocks of one rate that count, block after block: those due in the warm-up are cut.

    Raises ValueError on no blocks.
    """
    return joined([_of_block(block, warm_up_s) for block in blocks])


def joined(tables: Sequence[PartsTable]) -> PartsTable:
    """One table after the other. Raises ValueError on none."""
    if not tables:
        raise ValueError("no block, no parts")
    return PartsTable(**{name: _joined([getattr(table, name) for table in tables]) for name in _FIELDS})


def _of_block(block: BlockResult, warm_up_s: float) -> PartsTable:
    frame = decode(block.requests_blob)
    kept = frame[frame["due_s"] >= warm_up_s]
    arrays = sample(frame, block.duration_s, warm_up_s)

    def column(name: str) -> Floats:
        values: Floats = kept[name].to_numpy(dtype=float, na_value=np.nan)
        return values

    return PartsTable(
        block=np.full(len(kept), block.block, dtype=np.int64),
        index=kept["index"].to_numpy(dtype=np.int64),
        due_s=column("due_s"),
        ended_s=column("ended_s"),
        ttft_ms=arrays.ttft_ms,
        e2e_ms=arrays.e2e_ms,
        client_ms=arrays.client_ms,
        front_end_ms=arrays.front_end_ms,
        queue_ms=arrays.queue_ms,
        prefill_ms=arrays.prefill_ms,
        decode_ms=arrays.decode_ms,
        tokens_in=arrays.tokens_in,
        tokens_cached=arrays.tokens_cached,
        tokens_out=column("tokens_out"),
        tokens_shared=column("tokens_shared"),
        chunk_ms=tuple(_NONE if chunks is None else np.asarray(chunks, dtype=float) for chunks in kept["chunk_ms"]),
        kinds=tuple(kind if isinstance(kind, str) else "" for kind in kept["kind"]),
        errors=tuple(kept["error"]),
    )


_FIELDS = tuple(PartsTable.__dataclass_fields__)


def _joined(values: Sequence[Any]) -> Any:
    if isinstance(values[0], tuple):
        return tuple(one for part in values for one in part)
    return np.concatenate(values)
