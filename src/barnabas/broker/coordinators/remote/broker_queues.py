"""What waits to be sent to other brokers.

There is one request in flight for each broker; the next one takes what was added meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from barnabas.runtime.clock import Clock
from barnabas.runtime.loop.timers import TimerService

T = TypeVar("T")
# Sends a request with the first elements of the queue and removes these; returns whether it sent one.  The
# last argument is to be called with the response, before anything else.
Send = Callable[[int, deque[T], Callable[[], None]], bool]


class _BrokerQueue(Generic[T]):
    __slots__ = ("in_flight", "is_scheduled", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[T] = deque()
        self.in_flight = False
        self.is_scheduled = False


class BrokerQueues(Generic[T]):
    """Runs on the event loop's thread."""

    def __init__(self, clock: Clock, timers: TimerService, send: Send[T], limit: int) -> None:
        self._clock = clock
        self._timers = timers
        self._send_first = send
        # The maximum number of elements that wait for one broker.
        self._limit = limit
        self._queues: dict[int, _BrokerQueue[T]] = {}

    def add(self, broker_id: int, element: T) -> bool:
        """Returns False if too much waits for this broker already."""
        queue = self._queues.get(broker_id)
        if queue is None:
            queue = self._queues[broker_id] = _BrokerQueue()
        if len(queue.waiting) >= self._limit:
            return False
        queue.waiting.append(element)
        self._schedule(broker_id, queue)
        return True

    def _schedule(self, broker_id: int, queue: _BrokerQueue[T]) -> None:
        """Sends in the next tick, with what has been added by then."""
        if not queue.in_flight and not queue.is_scheduled:
            queue.is_scheduled = True
            now_ns = self._clock.monotonic_ns()
            self._timers.set((self, broker_id), now_ns, partial(self._send, broker_id, queue))

    def _send(self, broker_id: int, queue: _BrokerQueue[T]) -> None:
        queue.is_scheduled = False
        queue.in_flight = True
        if not self._send_first(broker_id, queue.waiting, partial(self._received, broker_id, queue)):
            self._received(broker_id, queue)

    def _received(self, broker_id: int, queue: _BrokerQueue[T]) -> None:
        queue.in_flight = False
        if self._queues.get(broker_id) is not queue:
            return  # stopped meanwhile
        if queue.waiting:
            self._schedule(broker_id, queue)
        else:
            del self._queues[broker_id]

    def stop(self) -> None:
        """Drops what waits."""
        for broker_id in self._queues:
            self._timers.cancel((self, broker_id))
        self._queues.clear()
