"""A shard: one record machine on one partition of a coordinator's topic.

Contains the processing order.  A request is decided; its entries are appended, and applied so that the next
decision sees them; replies, including those of reads, wait until everything applied is committed.  A failed
append changes nothing.  Decisions belong in the machine, the log in `Store`.

The machine's durable state results from `apply`, `marker` and `load` only.  A dropped shard fails all waiting
requests and is loaded again elsewhere or later.

A decision that raises has changed nothing and affects only its caller.  But appended entries must be applied:
after an exception in `apply` or in a change of soft state, the machine no longer matches the log.  Such a
shard logs the exception, drops itself (`failure`) and waits to be reloaded.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from functools import partial
from typing import Generic, NamedTuple, Protocol, TypeVar

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.batch.columnar import Columns
from barnabas.coordinator.decision import Context, Decision, Marker, ProducerStamp
from barnabas.coordinator.entry import Entry
from barnabas.coordinator.timers import Due, Timers
from barnabas.metadata.delta import Delta
from barnabas.runtime.loop.promise import Promise

logger = logging.getLogger(__name__)

R = TypeVar("R")

# The maximum number of replies that wait for a commit.
MAX_WAITING_REPLIES = 100_000
# The maximum number of timers per run, so that a timer that reschedules itself cannot block the loop.
MAX_TIMERS_PER_RUN = 1_000
# The delay until a timer whose entries were rejected by the log runs again, as in Apache Kafka.
TIMER_RETRY_MS = 500

# Maps append errors to the errors that a coordinator returns to clients.
_CLIENT_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


# For clients, a shard that is about to be reloaded has moved.
_BROKEN = KafkaError(ErrorCode.NOT_COORDINATOR, "the coordinator's state is broken and will be reloaded")


class _BrokenError(Exception):
    """A state change failed halfway."""


class Machine(Protocol):
    """The interface of a record machine."""

    @property
    def timers(self) -> Timers: ...

    def apply(self, entry: Entry, stamp: ProducerStamp | None) -> None:
        """Called when an entry is in the log; with a stamp it takes effect with its transaction."""
        ...

    def marker(self, producer_id: int, producer_epoch: int, committed: bool) -> None:
        """Called when a transaction marker is in the log."""
        ...

    def load(self, columns: Columns, stamp: ProducerStamp | None) -> None:
        """Load entries as bytes, from the start of the log: equivalent to decoding and applying each."""
        ...

    def loaded(self, context: Context) -> None:
        """Called when the whole log is applied: initialize soft state and timers."""
        ...

    def metadata_changed(self, delta: Delta, context: Context) -> Decision[None]:
        """Called with a committed delta of the cluster metadata; returns what to write."""
        ...

    def dropped(self, error: KafkaError) -> None:
        """Called when the shard is unloaded: fail all waiting requests that the machine holds."""
        ...


M = TypeVar("M", bound=Machine)


class Store(Protocol):
    """The log of the shard's partition, to which the leader appends."""

    @property
    def high_watermark(self) -> int:
        """All entries before this offset are committed."""
        ...

    def append(
        self,
        entries: Sequence[Entry],
        producer: ProducerStamp | None,
        now_ms: int,
        verification: object | None,
        *,
        atomic: bool,
    ) -> tuple[int, int]:
        """Write one batch; returns how many of the entries it contains, and the offset after it.

        If not `atomic`, it may contain only as many entries as fit.  On KafkaError nothing was written.
        """
        ...

    def append_marker(self, marker: Marker, now_ms: int) -> int:
        """Write a transaction marker; returns the offset after it."""
        ...


class _WaitingReply(NamedTuple):
    """A reply that waits until everything before this offset is committed, or until its deadline."""

    offset: int
    deadline_ms: int
    reply: Callable[[], None]
    refused: Callable[[KafkaError], None] | None
    fail: Callable[[BaseException], None]


class Shard(Generic[M]):
    """The shard of one loaded partition."""

    def __init__(self, machine: M, store: Store, *, end_offset: int, commit_timeout_ms: int) -> None:
        self.machine = machine
        self._store = store
        self._commit_timeout_ms = commit_timeout_ms
        # Everything before this offset is applied.
        self.end_offset = end_offset
        self._waiting: deque[_WaitingReply] = deque()
        self._error: KafkaError | None = None
        # The exception that broke the shard, if any: its machine no longer matches the log.
        self.failure: Exception | None = None
        # A reply may trigger the next request of its connection; that is queued until this one is done.
        self._is_deciding = False
        self._queued: deque[Callable[[], None]] = deque()

    @property
    def next_expiry(self) -> int | None:
        """The deadline of the first waiting reply; None if there is none."""
        return self._waiting[0].deadline_ms if self._waiting else None

    # Deciding

    def start(self, context: Context, monotonic_ms: int) -> None:
        """Called when the log is applied."""
        self.machine.timers.now_ms = monotonic_ms
        self.machine.loaded(context)

    def ask(
        self,
        decide: Callable[[M, Context], Decision[R]],
        context: Context,
        monotonic_ms: int,
        verification: object | None = None,
    ) -> Promise[R]:
        """Decide, append, apply, and reply once it is committed."""
        promise: Promise[R] = Promise()
        if self._is_deciding:
            self._queued.append(partial(self._decide, decide, context, monotonic_ms, verification, promise))
        else:
            self._run_exclusively(partial(self._decide, decide, context, monotonic_ms, verification, promise))
        return promise

    def _run_exclusively(self, action: Callable[[], None]) -> None:
        """Run without interleaving, then run the requests queued in the meantime."""
        self._is_deciding = True
        try:
            action()
            while self._queued:
                self._queued.popleft()()
        finally:
            self._is_deciding = False

    def _decide(
        self,
        decide: Callable[[M, Context], Decision[R]],
        context: Context,
        monotonic_ms: int,
        verification: object | None,
        promise: Promise[R],
    ) -> None:
        machine = self.machine
        machine.timers.now_ms = monotonic_ms
        try:
            self._check_open()
            decision = decide(machine, context)
            self._write(decision, context, verification)
            if decision.accepted is not None:
                self._change_state(decision.accepted)
        except _BrokenError:
            promise.fail(_BROKEN)
            return
        except Exception as error:
            promise.fail(error)
            return
        if self._store.high_watermark >= self.end_offset and not self._waiting:
            self._reply(decision, promise)
            return
        deadline_ms = monotonic_ms + self._commit_timeout_ms
        reply = partial(self._reply, decision, promise)
        self._waiting.append(
            _WaitingReply(self.end_offset, deadline_ms, reply, decision.refused, promise.fail)
        )

    def _check_open(self) -> None:
        if self._error is not None:
            raise self._error
        if len(self._waiting) >= MAX_WAITING_REPLIES:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"{len(self._waiting)} replies are waiting for the replicas of the coordinator's log",
            )

    def run_due(self, context: Context, monotonic_ms: int) -> None:
        """Run the due timers."""
        timers = self.machine.timers
        timers.now_ms = monotonic_ms
        for _ in range(MAX_TIMERS_PER_RUN):
            due = timers.pop_due()
            if due is None or self._error is not None:
                return
            self.ask(_timer_decision(due[1]), context, monotonic_ms).then(
                _ignore, partial(self._retry_timer, *due)
            )

    def _retry_timer(self, key: Hashable, decide: Due, error: BaseException) -> None:
        """Retry a timer whose entries the log rejected: otherwise an expired session would never end."""
        _log_failure(error)
        timers = self.machine.timers
        if self._error is None and isinstance(error, KafkaError) and not timers.has(key):
            timers.schedule(key, TIMER_RETRY_MS, decide)

    def metadata_changed(self, delta: Delta, context: Context, monotonic_ms: int) -> None:
        def decide(machine: M, context: Context) -> Decision[None]:
            return machine.metadata_changed(delta, context)

        self.ask(decide, context, monotonic_ms).then(_ignore, _log_failure)

    def _write(self, decision: Decision[R], context: Context, verification: object | None) -> None:
        """Append and apply."""
        try:
            if decision.marker is not None:
                marker = decision.marker
                self.end_offset = self._store.append_marker(marker, context.now_ms)
                transaction = marker.producer_id, marker.producer_epoch, marker.committed
                self._change_state(partial(self.machine.marker, *transaction))
            elif decision.entries:
                self._append(decision, context.now_ms, verification)
        except KafkaError as error:
            client_error = KafkaError(_CLIENT_ERRORS.get(error.code, error.code), error.message)
            if decision.refused is not None:
                self._change_state(partial(decision.refused, client_error))
            raise client_error from error

    def _append(self, decision: Decision[R], now_ms: int, verification: object | None) -> None:
        stamp, atomic = decision.producer, decision.atomic
        remaining = decision.entries
        while remaining:
            count, self.end_offset = self._store.append(remaining, stamp, now_ms, verification, atomic=atomic)
            self._change_state(partial(self._apply, remaining[:count], stamp))
            remaining = remaining[count:]

    def _apply(self, entries: Sequence[Entry], stamp: ProducerStamp | None) -> None:
        apply = self.machine.apply
        for entry in entries:
            apply(entry, stamp)

    def _change_state(self, change: Callable[[], None]) -> None:
        """Change state, which must not fail: otherwise the shard is unusable."""
        try:
            change()
        except Exception as error:
            logger.exception("a coordinator's state is broken: its shard stops until it is reloaded")
            self.failure = error
            self.drop(_BROKEN)
            raise _BrokenError from error

    # Replying

    def _reply(self, decision: Decision[R], promise: Promise[R]) -> None:
        if decision.committed is not None:
            try:
                self._change_state(decision.committed)
            except _BrokenError:
                promise.fail(_BROKEN)
                return
        reply = decision.reply
        if isinstance(reply, Promise):
            reply.then(promise.set, promise.fail)
        else:
            promise.set(reply)

    def look_at_commits(self) -> None:
        """Called when the high watermark may have advanced: complete committed replies."""
        if not self._is_deciding:
            self._run_exclusively(self._complete_committed)

    def _complete_committed(self) -> None:
        while self._waiting and self._waiting[0].offset <= self._store.high_watermark:
            self._waiting.popleft().reply()

    def expire(self, monotonic_ms: int) -> None:
        """Fail replies that waited too long for replication; their entries may still be committed."""
        self.machine.timers.now_ms = monotonic_ms
        self._run_exclusively(partial(self._expire_waiting, monotonic_ms))

    def _expire_waiting(self, monotonic_ms: int) -> None:
        error = KafkaError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            "the replicas of the coordinator's log did not respond in time",
        )
        while self._waiting and self._waiting[0].deadline_ms <= monotonic_ms:
            expired = self._waiting.popleft()
            if expired.refused is not None:
                with suppress(_BrokenError):
                    self._change_state(partial(expired.refused, error))
            expired.fail(error)

    def drop(self, error: KafkaError) -> None:
        """Called when this broker no longer leads the partition, or stops: all waiting requests fail."""
        self._error = error
        self.machine.timers.clear()
        waiting, self._waiting = self._waiting, deque()
        for waiting_reply in waiting:
            waiting_reply.fail(error)
        self.machine.dropped(error)


def _timer_decision(due: Callable[[Context], Decision[None]]) -> Callable[[Machine, Context], Decision[None]]:
    return lambda _, context: due(context)


def _ignore(_: None) -> None:
    """The result of a timer is not used."""


def _log_failure(error: BaseException) -> None:
    if isinstance(error, KafkaError):
        logger.warning("an internal decision of a coordinator was not written: %s", error)
    else:
        logger.error("an internal decision of a coordinator failed", exc_info=error)
