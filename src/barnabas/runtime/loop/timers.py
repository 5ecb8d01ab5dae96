"""Timers: a heap of deadlines with lazy deletion.

Contains keys, deadlines and their order, but no clock: the owner passes the current time, so that the
reactor, with real time, and the simulation, with virtual time, run the same code.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from typing import Protocol

Action = Callable[[], None]

# A heap with this many entries or fewer is never compacted: it would cost more than it saves.
COMPACT_ABOVE = 64
# One call fires at most this many timers, so that an action that sets itself again cannot block the loop.
MAX_FIRED_PER_CALL = 1024


class TimerService(Protocol):
    """The timer interface.

    Deadlines are monotonic nanoseconds of the same clock.
    """

    def set(self, key: Hashable, deadline_ns: int, action: Action) -> None: ...

    def cancel(self, key: Hashable) -> None: ...


class _Entry:
    """One deadline of one key.  A cancelled entry (no action) stays in the heap until popped or compacted."""

    __slots__ = ("action", "key")

    def __init__(self, key: Hashable, action: Action) -> None:
        self.key = key
        self.action: Action | None = action


class Timers:
    """Keyed timers: setting a key again moves it, and equal deadlines fire in the order in which they were
    set."""

    __slots__ = ("_entries", "_heap", "_sequence")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, _Entry]] = []
        self._entries: dict[Hashable, _Entry] = {}
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._entries

    @property
    def heap_size(self) -> int:
        """Entries in memory, including cancelled ones: at most twice the live ones, plus COMPACT_ABOVE."""
        return len(self._heap)

    def set(self, key: Hashable, deadline_ns: int, action: Action) -> None:
        entry = _Entry(key, action)
        previous = self._entries.get(key)
        self._entries[key] = entry
        self._sequence += 1
        heapq.heappush(self._heap, (deadline_ns, self._sequence, entry))
        if previous is not None:
            previous.action = None
            self._compact()

    def cancel(self, key: Hashable) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            entry.action = None
            self._compact()

    def next_deadline_ns(self) -> int | None:
        """The deadline of the first live timer."""
        heap = self._heap
        while heap:
            if heap[0][2].action is not None:
                return heap[0][0]
            heapq.heappop(heap)
        return None

    def pop(self) -> tuple[int, Action] | None:
        """Remove the first live timer, due or not; returns its deadline and its action."""
        heap = self._heap
        while heap:
            deadline_ns, _, entry = heapq.heappop(heap)
            action = entry.action
            if action is not None:
                del self._entries[entry.key]
                return deadline_ns, action
        return None

    def fire_due(self, now_ns: int, most: int = MAX_FIRED_PER_CALL) -> int:
        """Run the due actions in order of deadline, at most `most` of them; returns their number."""
        for fired in range(most):
            deadline_ns = self.next_deadline_ns()
            if deadline_ns is None or deadline_ns > now_ns:
                return fired
            due = self.pop()
            assert due is not None
            due[1]()
        return most

    def _compact(self) -> None:
        """Compact when more than half are cancelled: a timer that is postponed forever must not grow the
        heap."""
        if len(self._heap) > COMPACT_ABOVE and len(self._heap) > 2 * len(self._entries):
            self._heap = [item for item in self._heap if item[2].action is not None]
            heapq.heapify(self._heap)
