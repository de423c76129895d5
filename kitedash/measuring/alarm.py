"""Calls things at their moment, to a fraction of a millisecond.

An event loop's own timers go by whole milliseconds. A thread sleeps until shortly before the moment and wakes the
loop, which goes round until the moment is there: cheaper than going round for the whole millisecond.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import threading
import time
from collections.abc import Callable

EARLY_S = 0.0002  # what it takes to wake the thread and then the loop


class Alarm:
    """For one event loop; moments are `time.perf_counter()` s. A moment that is past is now."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._entries: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def at(self, moment: float, call: Callable[[], None]) -> None:
        with self._changed:
            heapq.heappush(self._entries, (moment, next(self._numbers), call))
            if self._entries[0][0] == moment:
                self._changed.notify()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join()

    def _watch(self) -> None:
        with self._changed:
            while not self._stopped:
                left = self._entries[0][0] - EARLY_S - time.perf_counter() if self._entries else None
                if left is None or left > 0:
                    self._changed.wait(left)
                else:
                    moment, _, call = heapq.heappop(self._entries)
                    self._loop.call_soon_threadsafe(self._ring, moment, call)

    def _ring(self, moment: float, call: Callable[[], None]) -> None:
        if time.perf_counter() < moment:
            self._loop.call_soon(self._ring, moment, call)
        else:
            call()
