"""Timers of a shard: soft, keyed, and run as decisions like any other.

What lives here: what is to be decided when.  What may not: a clock; the shard says what time it is before
each decision, and whoever drives the shard asks when the next timer is due.

Time is the monotonic one, in milliseconds.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from typing import TypeAlias

from barnabas.coordinator.decision import Context, Decision

Due: TypeAlias = Callable[[Context], Decision[None]]

# A queue with this many entries or fewer is never swept of dead ones.
SWEEP_ABOVE = 64


class _Timer:
    __slots__ = ("deadline_ms", "decide", "key")

    def __init__(self, key: Hashable, deadline_ms: int, decide: Due) -> None:
        self.key = key
        self.deadline_ms = deadline_ms
        self.decide = decide


class Timers:
    """Scheduling a key again moves it; equal deadlines are due in the order of scheduling.

    A timer that is moved to a later time keeps its place in the queue until that place is reached: a session
    that is prolonged by each heartbeat costs no work of the queue.
    """

    __slots__ = ("_queue", "_sequence", "_timers", "now_ms")

    def __init__(self) -> None:
        self.now_ms = 0
        self._timers: dict[Hashable, _Timer] = {}
        # (queued for, order of scheduling, timer); stale when the key has another timer by now.
        self._queue: list[tuple[int, int, _Timer]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._timers)

    def has(self, key: Hashable) -> bool:
        return key in self._timers

    def schedule(self, key: Hashable, delay_ms: int, decide: Due) -> None:
        """Decide this so much later, unless it is cancelled or scheduled anew before."""
        deadline_ms = self.now_ms + delay_ms
        known = self._timers.get(key)
        if known is not None and deadline_ms >= known.deadline_ms:
            known.deadline_ms = deadline_ms
            known.decide = decide
            return
        timer = self._timers[key] = _Timer(key, deadline_ms, decide)
        self._push(timer)
        if known is not None:
            self._sweep()

    def cancel(self, key: Hashable) -> None:
        if self._timers.pop(key, None) is not None:
            self._sweep()

    def clear(self) -> None:
        """Nothing is due any more."""
        self._timers.clear()
        self._queue.clear()

    def next_deadline(self) -> int | None:
        """When to look next; a moved timer may make that a little early."""
        self._drop_stale()
        return self._queue[0][0] if self._queue else None

    def pop_due(self) -> tuple[Hashable, Due] | None:
        """Take out the first that is due at `now_ms`: its key, and what is to be decided."""
        while True:
            self._drop_stale()
            if not self._queue or self._queue[0][0] > self.now_ms:
                return None
            timer = heapq.heappop(self._queue)[2]
            if timer.deadline_ms > self.now_ms:
                self._push(timer)
                continue
            del self._timers[timer.key]
            return timer.key, timer.decide

    def _push(self, timer: _Timer) -> None:
        self._sequence += 1
        heapq.heappush(self._queue, (timer.deadline_ms, self._sequence, timer))

    def _drop_stale(self) -> None:
        queue = self._queue
        while queue and self._timers.get(queue[0][2].key) is not queue[0][2]:
            heapq.heappop(queue)

    def _sweep(self) -> None:
        if len(self._queue) > SWEEP_ABOVE and len(self._queue) > 2 * len(self._timers):
            self._queue = [item for item in self._queue if self._timers.get(item[2].key) is item[2]]
            heapq.heapify(self._queue)
