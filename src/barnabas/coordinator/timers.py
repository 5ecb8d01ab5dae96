"""Timers of a shard: soft, keyed, and run as decisions.

There is no clock here: the shard sets the time before each decision, and its driver asks for the next
deadline.  Times are monotonic, in milliseconds.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from typing import TypeAlias

from barnabas.coordinator.decision import Context, Decision

Due: TypeAlias = Callable[[Context], Decision[None]]

# A queue of at most this size is never swept of stale entries.
MIN_QUEUE_TO_SWEEP = 64


class _Timer:
    __slots__ = ("deadline_ms", "decide", "key")

    def __init__(self, key: Hashable, deadline_ms: int, decide: Due) -> None:
        self.key = key
        self.deadline_ms = deadline_ms
        self.decide = decide


class Timers:
    """Scheduling a key again moves its timer; equal deadlines run in scheduling order.

    A timer that moves to a later time keeps its queue position until that is reached: a session that each
    heartbeat extends causes no queue work.
    """

    __slots__ = ("_queue", "_sequence", "_timers", "now_ms")

    def __init__(self) -> None:
        self.now_ms = 0
        self._timers: dict[Hashable, _Timer] = {}
        # (queued deadline, sequence number, timer); stale if the key has another timer.
        self._queue: list[tuple[int, int, _Timer]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._timers)

    def has(self, key: Hashable) -> bool:
        return key in self._timers

    def schedule(self, key: Hashable, delay_ms: int, decide: Due) -> None:
        """Run this decision after the delay, unless the key is cancelled or rescheduled before."""
        deadline_ms = self.now_ms + delay_ms
        existing = self._timers.get(key)
        if existing is not None and deadline_ms >= existing.deadline_ms:
            existing.deadline_ms = deadline_ms
            existing.decide = decide
            return
        timer = self._timers[key] = _Timer(key, deadline_ms, decide)
        self._push(timer)
        if existing is not None:
            self._sweep()

    def cancel(self, key: Hashable) -> None:
        if self._timers.pop(key, None) is not None:
            self._sweep()

    def postpone(self, delay_ms: int, wanted: Callable[[Hashable], bool]) -> None:
        """Every wanted timer is due so much later: time has passed that does not count."""
        for key, timer in self._timers.items():
            if wanted(key):
                timer.deadline_ms += delay_ms

    def clear(self) -> None:
        """Cancel all timers."""
        self._timers.clear()
        self._queue.clear()

    def next_deadline(self) -> int | None:
        """When to check next; may be early for a moved timer."""
        self._drop_stale()
        return self._queue[0][0] if self._queue else None

    def pop_due(self) -> tuple[Hashable, Due] | None:
        """Remove and return the first timer due at `now_ms`: its key and its decision."""
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
        if len(self._queue) > MIN_QUEUE_TO_SWEEP and len(self._queue) > 2 * len(self._timers):
            self._queue = [item for item in self._queue if self._timers.get(item[2].key) is item[2]]
            heapq.heapify(self._queue)
