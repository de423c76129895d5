"""Where a ready engine answers, and what a client has to know of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Endpoint:
    """An engine that is ready. The key stays out of the representation, so that no log or traceback shows it.

    `base_url` is such as "http://127.0.0.1:8123", without a path. `model` is the name it serves the model by,
    `block_size` the tokens in a KV cache block (None where the engine does not tell).
    """

    base_url: str
    api_key: str = field(repr=False)
    model: str
    tokenizer_dir: Path
    max_model_len: int
    prefix_caching: bool
    block_size: int | None
    max_num_seqs: int | None = None
    pid: int | None = None  # root of the engine's processes; None where they are not on this machine
    device_ids: tuple[str, ...] = ()  # of the slot, as in `device.Device`

    @property
    def headers(self) -> dict[str, str]:
        """What every request has to carry."""
        return {"Authorization": f"Bearer {self.api_key}"}
