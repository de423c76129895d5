"""What was worked out is kept for whoever asks next, as far as it fits: a page is drawn anew far more often than
something is stored."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

Value = TypeVar("Value")


class BoundedCache(Generic[Value]):
    """Keeps values up to a total weight and forgets first what was not asked for the longest. Safe between threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[Hashable, tuple[Value, int]] = OrderedDict()
        self._weight = 0
        self._lock = Lock()

    def get(self, key: Hashable) -> Value | None:
        with self._lock:
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            return self._kept[key][0]

    def put(self, key: Hashable, value: Value, weight: int = 1) -> Value:
        """Returns `value`. What weighs more than all that may be kept is not kept at all."""
        with self._lock:
            if key in self._kept:
                self._weight -= self._kept.pop(key)[1]
            if weight <= self._most:
                self._kept[key] = (value, weight)
                self._weight += weight
            while self._weight > self._most:
                _, (_, lost) = self._kept.popitem(last=False)
                self._weight -= lost
        return value
