"""What the requests that are still arriving may take of memory, all connections together.

What lives here: the count, whose turn it is when there is no room, and who is closed for not going on.  What
may not: reading.

Like Apache Kafka's `queued.max.request.bytes`, but bytes count when they arrive, not when they are announced.
Without room only the connection whose frame began first is read from, so that one of them always goes on; if
it stops sending, it is closed: half a request must not keep others waiting for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from barnabas.runtime.loop.timers import TimerService

# While others wait for memory, the first frame must go on within this time.
STALLED_NS = 10_000_000_000
_LOOK_NS = 1_000_000_000


class Receiver(Protocol):
    """A connection that receives a large frame."""

    def memory_is_free(self) -> None:
        """There is room again, or it is your turn."""
        ...

    def receiving_stalled(self) -> None:
        """You hold memory that others wait for, and nothing has come for long."""
        ...


class ReceiveBudget:
    """Of one network."""

    def __init__(self, limit: int, timers: TimerService, now_ns: Callable[[], int]) -> None:
        self.limit = limit
        self.used_bytes = 0
        self._timers = timers
        self._now_ns = now_ns
        # Bytes that have arrived of each, in the order in which they began.
        self._frames: dict[Receiver, int] = {}
        self._waiting: dict[Receiver, None] = {}
        self._progress_ns = 0

    def begin(self, receiver: Receiver, size: int) -> None:
        """A frame has begun to arrive."""
        self._frames[receiver] = 0
        self.arrived(receiver, size)

    def may_receive(self, receiver: Receiver) -> bool:
        """Whether it may go on; if not, it hears when it may."""
        if self.used_bytes < self.limit or next(iter(self._frames)) is receiver:
            return True
        if not self._waiting:
            self._progress_ns = self._now_ns()
            self._look_later()
        self._waiting[receiver] = None
        return False

    def arrived(self, receiver: Receiver, size: int) -> None:
        self._frames[receiver] += size
        self.used_bytes += size
        if self._waiting:
            self._progress_ns = self._now_ns()

    def end(self, receiver: Receiver) -> None:
        """The frame is whole and handed over, or its connection is closed."""
        size = self._frames.pop(receiver, None)
        if size is None:
            return
        self.used_bytes -= size
        self._waiting.pop(receiver, None)
        if self._waiting:
            self._progress_ns = self._now_ns()
            waiting, self._waiting = self._waiting, {}
            for one in waiting:
                one.memory_is_free()

    def _look_later(self) -> None:
        self._timers.set(self, self._now_ns() + _LOOK_NS, self._look)

    def _look(self) -> None:
        if not self._waiting:
            return
        if self._now_ns() - self._progress_ns >= STALLED_NS:
            next(iter(self._frames)).receiving_stalled()
        if self._waiting:
            self._look_later()
