"""The calls of one client that have no answer yet: their order, and how many are sent at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.zookeeper.client import ZooKeeperCode, ZooKeeperError
from barnabas.runtime.zookeeper.requests import Request

T = TypeVar("T")

# Calls without an answer: further ones fail.  A cluster of 100,000 partitions is read with fewer at a time.
CALLS_MAX = 1_000_000


class Call(Generic[T]):
    """One request: how its answer becomes the value of its promise."""

    __slots__ = ("absent", "decode", "error", "is_answered", "promise", "request", "seen", "value")

    def __init__(
        self,
        request: Request,
        decode: Callable[[Any], T],
        seen: Callable[[], None] | None = None,
        *,
        absent: bool = False,
    ) -> None:
        self.request = request
        self.decode = decode
        # Called as soon as the answer arrives, also if the promises of earlier calls are not settled yet.
        self.seen = seen
        # Whether the value is None if there is no znode.
        self.absent = absent
        self.promise: Promise[T] = Promise()
        self.is_answered = False
        self.value: Any = None
        self.error: ZooKeeperError | None = None

    def answer(self, value: Any, error: ZooKeeperError | None) -> None:
        if self.is_answered:
            return
        self.is_answered = True
        if self.absent and error is not None and error.code is ZooKeeperCode.NO_NODE:
            self.value = None
        else:
            self.value, self.error = value, error
            if self.seen is not None and error is None:
                self.seen()

    def settle(self, failure: Callable[[ZooKeeperError], ZooKeeperError]) -> None:
        if self.error is not None:
            self.promise.fail(failure(self.error))
        elif self.absent and self.value is None:
            self.promise.set(None)  # type: ignore[arg-type]  # T has None then
        else:
            self.promise.set(self.decode(self.value))


class Calls:
    """Sends calls in order, a bounded number at once, and settles their promises in the same order."""

    def __init__(
        self,
        max_in_flight: int,
        send: Callable[[Call[Any]], None],
        failure: Callable[[ZooKeeperError], ZooKeeperError],
    ) -> None:
        """`failure` makes of an error what the caller is told."""
        self._failure = failure
        self._max_in_flight = max_in_flight
        self._send = send
        # All without a settled promise, and those of them that wait to be sent.
        self._calls: deque[Call[Any]] = deque()
        self._waiting: deque[Call[Any]] = deque()
        self._in_flight = 0
        self._is_settling = False
        self._is_open = False

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, call: Call[T]) -> Promise[T]:
        if len(self._calls) >= CALLS_MAX:
            call.promise.fail(self._failure(ZooKeeperError(ZooKeeperCode.THROTTLED, call.request.path)))
            return call.promise
        self._calls.append(call)
        self._waiting.append(call)
        self._pump()
        return call.promise

    def open(self) -> None:
        """There is a connection."""
        self._is_open = True
        self._pump()

    def shut(self) -> None:
        """There is none: calls wait."""
        self._is_open = False

    def answered(self, call: Call[Any], value: Any, error: ZooKeeperError | None) -> None:
        if call.is_answered:
            return
        if error is not None and error.code is ZooKeeperCode.CONNECTION_LOSS:
            # Nothing more before the owner has heard of it: it fails what waits.
            self.shut()
        call.answer(value, error)
        self._in_flight -= 1
        self._settle()
        self._pump()

    def fail_waiting(self, code: ZooKeeperCode) -> None:
        """Fail what was not sent."""
        waiting, self._waiting = self._waiting, deque()
        for call in waiting:
            call.answer(None, ZooKeeperError(code, call.request.path))
        self._settle()

    def fail_all(self, code: ZooKeeperCode) -> None:
        """Fail everything: no answer will come."""
        self._waiting.clear()
        self._in_flight = 0
        for call in self._calls:
            call.answer(None, ZooKeeperError(code, call.request.path))
        self._settle()

    def _pump(self) -> None:
        while self._is_open and self._waiting and self._in_flight < self._max_in_flight:
            call = self._waiting.popleft()
            self._in_flight += 1
            self._send(call)

    def send_all(self) -> None:
        """Send what waits, however much it is: the session ends after it."""
        waiting, self._waiting = self._waiting, deque()
        self._in_flight += len(waiting)
        for call in waiting:
            self._send(call)

    def _settle(self) -> None:
        # Callbacks make further calls, and one of them may end the session.
        if self._is_settling:
            return
        self._is_settling = True
        try:
            while self._calls and self._calls[0].is_answered:
                self._calls.popleft().settle(self._failure)
        finally:
            self._is_settling = False
