"""A slot: a fixed set of devices that runs one candidate at a time. Its queue follows from how many there are."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass

from kitedash.domain.errors import InvalidInput
from kitedash.measuring.device import CPU, gpu_count
from kitedash.running.queue import queue_name

FORM = "a slot is cpu, or GPU numbers joined by commas such as 0 or 2,3"


@dataclass(frozen=True)
class Slot:
    """`ids` are device ids; `name` names the slot over all machines and is the worker's executor id."""

    ids: tuple[str, ...]
    host: str

    @property
    def is_cpu(self) -> bool:
        return self.ids == (CPU,)

    @property
    def name(self) -> str:
        return f"{self.host}:{'+'.join(self.ids)}"

    @property
    def queue(self) -> str:
        return queue_name("cpu" if self.is_cpu else "gpu", len(self.ids))


def parse_slot(text: str) -> Slot:
    """ "cpu", "0" or "2,3". Raises InvalidInput (field `slots`)."""
    ids = tuple(part.strip() for part in text.split(","))
    if ids != (CPU,) and not all(part.isdecimal() for part in ids):
        raise InvalidInput("slots", f"{text!r} is no slot: {FORM}")
    if len(set(ids)) != len(ids):
        raise InvalidInput("slots", f"{text!r} names a device twice: {FORM}")
    ordered = ids if ids == (CPU,) else tuple(sorted({str(int(part)) for part in ids}, key=int))
    return Slot(ordered, socket.gethostname())


def parse_slots(texts: Sequence[str]) -> tuple[Slot, ...]:
    """The slots of one machine; none named: one a GPU, or the processor. No device may be in two of them."""
    slots = tuple(parse_slot(text) for text in texts or default_slots())
    ids = [name for slot in slots for name in slot.ids]
    if twice := next((name for name in ids if ids.count(name) > 1), None):
        raise InvalidInput("slots", f"device {twice} is in two slots, but runs must not share a device")
    return slots


def default_slots() -> list[str]:
    return [str(index) for index in range(gpu_count())] or [CPU]
