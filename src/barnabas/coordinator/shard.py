"""A shard: one record machine on one partition of a coordinator's topic.

What lives here: the order of things.  A question is decided; its entries are appended, and applied so that
the next decision sees them; replies, of reads too, wait until all that was applied is committed.  A refused
append changes nothing.  What may not: decisions (the machine), the log itself (`Store`) and clocks.

The machine's durable state is what `apply`, `marker` and `load` made of the log's records, and nothing else
changes it.  A shard that is dropped tells everyone who waits, and is loaded anew elsewhere or later.

A decision that raises has changed nothing, and costs its caller alone.  But what the log has taken must be
applied: an exception in `apply` or in a change of soft state leaves a machine that is neither as before nor
as the log says.  Such a shard logs the exception, drops itself (`failure`) and waits to be loaded anew.
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

# Replies that may wait for a commit at once.
MAX_WAITING_REPLIES = 100_000
# Timers run in one go, so that one that sets itself again cannot hold the loop.
MAX_TIMERS_PER_RUN = 1_000
# Until a timer is due again whose entries the log refused, as in Apache Kafka.
TIMER_RETRY_MS = 500

# What an append that failed is called when a coordinator's client hears of it.
_TOLD_AS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


# To clients a shard that is about to be loaded anew is one that has moved.
_BROKEN = KafkaError(ErrorCode.NOT_COORDINATOR, "the coordinator's state is broken and is loaded anew")


class _BrokenError(Exception):
    """A change of state failed half-way."""


class Machine(Protocol):
    """What a record machine has."""

    @property
    def timers(self) -> Timers: ...

    def apply(self, entry: Entry, stamp: ProducerStamp | None) -> None:
        """The log has taken this entry; with a stamp it counts when the transaction is committed."""
        ...

    def marker(self, producer_id: int, producer_epoch: int, committed: bool) -> None:
        """The log has taken the end of a transaction."""
        ...

    def load(self, columns: Columns, stamp: ProducerStamp | None) -> None:
        """Entries of the log as bytes, from its start on: the same as decoding and applying each."""
        ...

    def loaded(self, context: Context) -> None:
        """All of the log is applied: soft state and timers begin."""
        ...

    def metadata_changed(self, delta: Delta, context: Context) -> Decision[None]:
        """A committed delta of the cluster's metadata; what is to be written because of it."""
        ...

    def dropped(self, error: KafkaError) -> None:
        """The shard goes: tell the error to everyone whose reply the machine itself holds."""
        ...


M = TypeVar("M", bound=Machine)


class Store(Protocol):
    """The log of the shard's partition, as a leader appends to it."""

    @property
    def high_watermark(self) -> int:
        """Everything before it is committed."""
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
        """Write one batch: how many of the entries it holds, and the offset behind it.

        Unless `atomic` it may be fewer than all, as many as fit.  KafkaError: nothing was written.
        """
        ...

    def append_marker(self, marker: Marker, now_ms: int) -> int:
        """Write the end of a transaction; the offset behind it."""
        ...


class _Waiting(NamedTuple):
    """A reply that may go once everything before this offset is committed, until a deadline."""

    offset: int
    deadline_ms: int
    reply: Callable[[], None]
    refused: Callable[[KafkaError], None] | None
    fail: Callable[[BaseException], None]


class Shard(Generic[M]):
    """Of one partition, from the end of loading on."""

    def __init__(self, machine: M, store: Store, *, end_offset: int, commit_timeout_ms: int) -> None:
        self.machine = machine
        self._store = store
        self._commit_timeout_ms = commit_timeout_ms
        # Everything before it is applied.
        self.end_offset = end_offset
        self._waiting: deque[_Waiting] = deque()
        self._error: KafkaError | None = None
        # What broke it, if it is broken: its machine is not what its log says.
        self.failure: Exception | None = None
        # A reply may bring the next request of its connection: that is decided after what is being decided.
        self._is_deciding = False
        self._asked_meanwhile: deque[Callable[[], None]] = deque()

    @property
    def next_expiry(self) -> int | None:
        """Until when the first reply waits for its commit; None if none does."""
        return self._waiting[0].deadline_ms if self._waiting else None

    # Deciding

    def start(self, context: Context, monotonic_ms: int) -> None:
        """The log is applied."""
        self.machine.timers.now_ms = monotonic_ms
        self.machine.loaded(context)

    def ask(
        self,
        decide: Callable[[M, Context], Decision[R]],
        context: Context,
        monotonic_ms: int,
        verification: object | None = None,
    ) -> Promise[R]:
        """Decide, append, apply, and reply when it is committed."""
        answer: Promise[R] = Promise()
        if self._is_deciding:
            self._asked_meanwhile.append(
                partial(self._decide, decide, context, monotonic_ms, verification, answer)
            )
        else:
            self._at_once(partial(self._decide, decide, context, monotonic_ms, verification, answer))
        return answer

    def _at_once(self, action: Callable[[], None]) -> None:
        """Do it undisturbed, and then what was asked meanwhile."""
        self._is_deciding = True
        try:
            action()
            while self._asked_meanwhile:
                self._asked_meanwhile.popleft()()
        finally:
            self._is_deciding = False

    def _decide(
        self,
        decide: Callable[[M, Context], Decision[R]],
        context: Context,
        monotonic_ms: int,
        verification: object | None,
        answer: Promise[R],
    ) -> None:
        machine = self.machine
        machine.timers.now_ms = monotonic_ms
        try:
            self._check_open()
            decision = decide(machine, context)
            self._write(decision, context, verification)
            if decision.accepted is not None:
                self._change(decision.accepted)
        except _BrokenError:
            answer.fail(_BROKEN)
            return
        except Exception as error:
            answer.fail(error)
            return
        if self._store.high_watermark >= self.end_offset and not self._waiting:
            self._reply(decision, answer)
            return
        deadline_ms = monotonic_ms + self._commit_timeout_ms
        reply = partial(self._reply, decision, answer)
        self._waiting.append(_Waiting(self.end_offset, deadline_ms, reply, decision.refused, answer.fail))

    def _check_open(self) -> None:
        if self._error is not None:
            raise self._error
        if len(self._waiting) >= MAX_WAITING_REPLIES:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"{len(self._waiting)} replies wait for the replicas of the coordinator's log",
            )

    def run_due(self, context: Context, monotonic_ms: int) -> None:
        """Decide what timers are due for."""
        timers = self.machine.timers
        timers.now_ms = monotonic_ms
        for _ in range(MAX_TIMERS_PER_RUN):
            due = timers.pop_due()
            if due is None or self._error is not None:
                return
            self.ask(_of_timer(due[1]), context, monotonic_ms).then(_ignore, partial(self._put_off, *due))

    def _put_off(self, key: Hashable, decide: Due, error: BaseException) -> None:
        """What the log refused is due again soon: nobody else would end a session that is over."""
        _log_refused(error)
        timers = self.machine.timers
        if self._error is None and isinstance(error, KafkaError) and not timers.has(key):
            timers.schedule(key, TIMER_RETRY_MS, decide)

    def metadata_changed(self, delta: Delta, context: Context, monotonic_ms: int) -> None:
        def decide(machine: M, context: Context) -> Decision[None]:
            return machine.metadata_changed(delta, context)

        self.ask(decide, context, monotonic_ms).then(_ignore, _log_refused)

    def _write(self, decision: Decision[R], context: Context, verification: object | None) -> None:
        """Append and apply."""
        try:
            if decision.marker is not None:
                marker = decision.marker
                self.end_offset = self._store.append_marker(marker, context.now_ms)
                ended = marker.producer_id, marker.producer_epoch, marker.committed
                self._change(partial(self.machine.marker, *ended))
            elif decision.entries:
                self._append(decision, context.now_ms, verification)
        except KafkaError as error:
            told = KafkaError(_TOLD_AS.get(error.code, error.code), error.message)
            if decision.refused is not None:
                self._change(partial(decision.refused, told))
            raise told from error

    def _append(self, decision: Decision[R], now_ms: int, verification: object | None) -> None:
        stamp, atomic = decision.producer, decision.atomic
        left = decision.entries
        while left:
            count, self.end_offset = self._store.append(left, stamp, now_ms, verification, atomic=atomic)
            self._change(partial(self._apply, left[:count], stamp))
            left = left[count:]

    def _apply(self, entries: Sequence[Entry], stamp: ProducerStamp | None) -> None:
        apply = self.machine.apply
        for entry in entries:
            apply(entry, stamp)

    def _change(self, change: Callable[[], None]) -> None:
        """Change state, which must not fail: if it does, the shard is at its end."""
        try:
            change()
        except Exception as error:
            logger.exception("a coordinator's state is broken: its shard stops, and has to be loaded anew")
            self.failure = error
            self.drop(_BROKEN)
            raise _BrokenError from error

    # Replying

    def _reply(self, decision: Decision[R], answer: Promise[R]) -> None:
        if decision.committed is not None:
            try:
                self._change(decision.committed)
            except _BrokenError:
                answer.fail(_BROKEN)
                return
        reply = decision.reply
        if isinstance(reply, Promise):
            reply.then(answer.set, answer.fail)
        else:
            answer.set(reply)

    def look_at_commits(self) -> None:
        """The high watermark may have moved: let go what is committed."""
        if not self._is_deciding:
            self._at_once(self._let_go_committed)

    def _let_go_committed(self) -> None:
        while self._waiting and self._waiting[0].offset <= self._store.high_watermark:
            self._waiting.popleft().reply()

    def expire(self, monotonic_ms: int) -> None:
        """Tell those who waited too long for the replicas; what they had written may yet be committed."""
        self.machine.timers.now_ms = monotonic_ms
        self._at_once(partial(self._refuse_late, monotonic_ms))

    def _refuse_late(self, monotonic_ms: int) -> None:
        error = KafkaError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            "the replicas of the coordinator's log did not answer in time",
        )
        while self._waiting and self._waiting[0].deadline_ms <= monotonic_ms:
            late = self._waiting.popleft()
            if late.refused is not None:
                with suppress(_BrokenError):
                    self._change(partial(late.refused, error))
            late.fail(error)

    def drop(self, error: KafkaError) -> None:
        """This broker leads the partition no more, or stops: everybody who waits is told, and nobody else."""
        self._error = error
        self.machine.timers.clear()
        waiting, self._waiting = self._waiting, deque()
        for one in waiting:
            one.fail(error)
        self.machine.dropped(error)


def _of_timer(due: Callable[[Context], Decision[None]]) -> Callable[[Machine, Context], Decision[None]]:
    return lambda _, context: due(context)


def _ignore(_: None) -> None:
    """Nobody waits for a timer."""


def _log_refused(error: BaseException) -> None:
    if isinstance(error, KafkaError):
        logger.warning("what a coordinator decided by itself was not written: %s", error)
    else:
        logger.error("a coordinator's own decision failed", exc_info=error)
