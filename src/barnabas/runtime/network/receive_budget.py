"""Memory for the requests that are still arriving, all connections together.

Contains the accounting, whose turn it is when memory is exhausted, and which connection is closed for
stalling.

Like Apache Kafka's `queued.max.request.bytes`, but bytes count when they arrive, not when they are announced.
When memory is exhausted only the connection whose frame began first is read, so that one of them always
progresses; if it stops sending, it is closed: half a request must not block others forever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from barnabas.runtime.loop.timers import TimerService

# While others wait for memory, the first frame must progress within this time.
STALLED_NS = 10_000_000_000
_LOOK_NS = 1_000_000_000


class Receiver(Protocol):
    """A connection that receives a large frame."""

    def memory_is_free(self) -> None:
        """Memory is available again, or it is this connection's turn."""
        ...

    def receiving_stalled(self) -> None:
        """This connection holds memory that others wait for, and has received nothing for long."""
        ...


class ReceiveBudget:
    """The budget of one network."""

    def __init__(self, limit: int, timers: TimerService, now_ns: Callable[[], int]) -> None:
        self.limit = limit
        self.used_bytes = 0
        self._timers = timers
        self._now_ns = now_ns
        # Received bytes of each frame, in the order in which the frames began.
        self._frames: dict[Receiver, int] = {}
        self._waiting: dict[Receiver, None] = {}
        self._progress_ns = 0

    def begin(self, receiver: Receiver, size: int) -> None:
        """A frame has begun to arrive."""
        self._frames[receiver] = 0
        self.arrived(receiver, size)

    def may_receive(self, receiver: Receiver) -> bool:
        """Whether it may receive now; if not, `memory_is_free` is called later."""
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
        """The frame is complete and was handed over, or its connection is closed."""
        size = self._frames.pop(receiver, None)
        if size is None:
            return
        self.used_bytes -= size
        self._waiting.pop(receiver, None)
        if self._waiting:
            self._progress_ns = self._now_ns()
            waiting, self._waiting = self._waiting, {}
            for receiver in waiting:
                receiver.memory_is_free()

    def _look_later(self) -> None:
        self._timers.set(self, self._now_ns() + _LOOK_NS, self._look)

    def _look(self) -> None:
        if not self._waiting:
            return
        if self._now_ns() - self._progress_ns >= STALLED_NS:
            next(iter(self._frames)).receiving_stalled()
        if self._waiting:
            self._look_later()
