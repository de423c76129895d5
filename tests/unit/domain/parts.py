"""Requests with parts made by hand: what nobody delayed, and what a test changes."""

from __future__ import annotations

from typing import Any

import numpy as np

from kitedash.domain.request_parts import PartsTable

TOKENS_IN, SHARED, TOKENS_OUT, TOKEN_MS = 306, 288, 20, 20.0


def table(n: int = 40, **changed: Any) -> PartsTable:
    """`n` requests a second apart, each 1 ms late, 3 ms in the front end, 0.2 ms queued, 38 ms prefill of 18 tokens,
    then 19 gaps of 20 ms. `changed`: arrays or single values by field; `errors` makes requests fail."""
    columns: dict[str, Any] = {
        "client_ms": 1.0,
        "front_end_ms": 3.0,
        "queue_ms": 0.2,
        "prefill_ms": 38.0,
        "tokens_in": TOKENS_IN,
        "tokens_cached": SHARED,
        "tokens_out": TOKENS_OUT,
        "tokens_shared": 290,
        "due_s": np.arange(n, dtype=float),
    }
    columns |= {name: value for name, value in changed.items() if name in columns}
    arrays = {name: np.broadcast_to(np.asarray(value, dtype=float), n).copy() for name, value in columns.items()}
    chunks = changed.get("chunk_ms", tuple(np.arange(1, TOKENS_OUT) * TOKEN_MS for _ in range(n)))
    errors = changed.get("errors", ("",) * n)
    failed = np.array([bool(error) for error in errors])
    decode = np.array([one[-1] if len(one) else 0.0 for one in chunks])
    ttft = sum(arrays[name] for name in ("client_ms", "front_end_ms", "queue_ms", "prefill_ms"))
    return PartsTable(
        block=np.zeros(n, dtype=np.int64),
        index=np.arange(n),
        ended_s=arrays["due_s"] + (ttft + decode) / 1e3,
        ttft_ms=np.where(failed, np.inf, ttft),
        e2e_ms=np.where(failed, np.inf, ttft + decode),
        decode_ms=decode,
        chunk_ms=tuple(chunks),
        kinds=changed.get("kinds", ("shared",) * n),
        errors=tuple(errors),
        **arrays,
    )


def one_of(n: int, value: float, usual: float) -> np.ndarray[Any, Any]:
    """`usual` for all but the last of `n`, which has `value`."""
    return np.array([usual] * (n - 1) + [value])
