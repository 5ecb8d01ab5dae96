"""The purgatory: delayed operations, each of which waits for an event or its deadline.

Contains which operations watch which keys, their deadlines, and checking them again after an event.  The
conditions they wait for belong in their subclasses.  Produce with acks=all, fetches, DeleteRecords and
elections all wait here.

Operations are not checked while an event is processed, but at the end of the loop's tick: ten appends in a
tick cost a waiting fetch one check.  An operation that counts (a fetch, in bytes) is not checked before it
has counted enough.  A completed operation leaves every list at once, so the lists contain pending ones only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.runtime.loop.timers import TimerService

logger = logging.getLogger(__name__)

# Operations that may wait at a time.  A connection has one in progress, so this is far above its limits.
DELAYED_OPERATIONS_MAX = 1_000_000


class DelayedOperation:
    """A request that waits.  Subclasses define the condition."""

    __slots__ = ("is_dirty", "is_done", "keys", "missing")

    def __init__(self, missing: int = 0) -> None:
        self.keys: tuple[Hashable, ...] = ()
        self.is_done = False
        self.is_dirty = False
        # How much must arrive before a check is worthwhile; 0 for operations that do not count.
        self.missing = missing

    def try_complete(self) -> bool:
        """Check the condition; if it holds, respond.  Called repeatedly, until it returns True."""
        raise NotImplementedError

    def expire(self) -> None:
        """The deadline has passed: respond with what is available."""
        raise NotImplementedError

    def fail(self, error: BaseException) -> None:
        """One of the two above raised this: answer with an error, unless an answer went out before it did."""
        raise NotImplementedError


class Purgatory:
    """All delayed operations of a broker.  For the loop's thread."""

    def __init__(self, timers: TimerService, at_tick_end: Callable[[Callable[[], None]], None]) -> None:
        self._timers = timers
        self._at_tick_end = at_tick_end
        # A dict of dicts for their order: a simulation must not depend on memory addresses.
        self._watched: dict[Hashable, dict[DelayedOperation, None]] = {}
        self._dirty: list[DelayedOperation] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def watched_keys(self) -> int:
        return len(self._watched)

    def wait(self, operation: DelayedOperation, keys: Iterable[Hashable], deadline_ns: int) -> None:
        """Watch these keys.  The caller has already checked that the operation is not complete."""
        if self._count >= DELAYED_OPERATIONS_MAX:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"{DELAYED_OPERATIONS_MAX} requests wait already; try again later",
            )
        self._count += 1
        operation.keys = tuple(keys)
        watched = self._watched
        for key in operation.keys:
            operations = watched.get(key)
            if operations is None:
                watched[key] = {operation: None}
            else:
                operations[operation] = None
        self._timers.set(operation, deadline_ns, lambda: self._expire(operation))

    def arrived(self, key: Hashable, amount: int) -> None:
        """This amount (of bytes, in practice) has arrived at a key; checks operations that have enough."""
        operations = self._watched.get(key)
        if operations is not None:
            for operation in operations:
                operation.missing -= amount
                if operation.missing <= 0 and not operation.is_dirty:
                    self._mark(operation)

    def changed(self, key: Hashable) -> None:
        """Another event has happened: checks every operation that watches this key."""
        operations = self._watched.get(key)
        if operations is not None:
            for operation in operations:
                if not operation.is_dirty:
                    self._mark(operation)

    def _mark(self, operation: DelayedOperation) -> None:
        operation.is_dirty = True
        if not self._dirty:
            self._at_tick_end(self._look)
        self._dirty.append(operation)

    def _look(self) -> None:
        dirty, self._dirty = self._dirty, []
        for operation in dirty:
            operation.is_dirty = False
            if operation.is_done:
                continue
            try:
                if operation.try_complete():
                    self.forget(operation)
            except Exception as error:
                self._fail(operation, error)

    def _expire(self, operation: DelayedOperation) -> None:
        if not operation.is_done:
            self.forget(operation)
            try:
                operation.expire()
            except Exception as error:
                self._fail(operation, error)

    def _fail(self, operation: DelayedOperation, error: Exception) -> None:
        """A fault in one delayed operation: its own client gets an error, the others are looked at."""
        logger.error("a delayed operation failed: %r", operation, exc_info=error)
        self.forget(operation)
        try:
            operation.fail(error)
        except Exception:
            logger.exception(
                "the client of a delayed operation that failed cannot be answered: %r", operation
            )

    def forget(self, operation: DelayedOperation) -> None:
        """The operation is complete, or its client has disconnected."""
        if operation.is_done:
            return
        operation.is_done = True
        self._count -= 1
        self._timers.cancel(operation)
        watched = self._watched
        for key in operation.keys:
            operations = watched.get(key)
            if operations is not None:
                operations.pop(operation, None)
                if not operations:
                    del watched[key]

    def close(self) -> None:
        """The broker stops: all operations are dropped without a response."""
        for operations in list(self._watched.values()):
            for operation in list(operations):
                self.forget(operation)
