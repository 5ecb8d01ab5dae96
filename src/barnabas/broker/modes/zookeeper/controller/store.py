"""The controller's store in znodes: records become transactions, which are committed when all have succeeded.

Transactions of one append are sent in their order, several appends at a time where each needs one group
only.  Anything unexpected ends the leadership here: a transaction that fails because another controller has
been elected, because somebody else changed the znode, or because the connection was lost, so that nobody
knows.  The owner then finds out who is the controller, and loads everything again if it is this node.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.modes.zookeeper.controller.gathering import gather
from barnabas.broker.modes.zookeeper.controller.transactions import (
    Epoch,
    Group,
    RemoveTopic,
    Stored,
    Transaction,
    transactions,
)
from barnabas.broker.modes.zookeeper.znodes import paths
from barnabas.controller.store import StoreListener
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import EMPTY_IMAGE, Image
from barnabas.metadata.loader import MetadataBatch
from barnabas.protocol.records.metadata import PartitionChangeRecord, PartitionRecord, ProducerIdsRecord
from barnabas.protocol.schema import Message
from barnabas.runtime.clock import Clock
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.timers import TimerService
from barnabas.runtime.zookeeper.client import (
    Check,
    Create,
    Delete,
    Operation,
    OperationResult,
    SetData,
    ZooKeeperClient,
    ZooKeeperCode,
    ZooKeeperError,
)

logger = logging.getLogger(__name__)

# Records that wait for ZooKeeper; beyond that appends are refused.
MAX_UNCOMMITTED_RECORDS = 100_000
# Appends whose transactions are under way at a time.
MAX_APPENDS_IN_FLIGHT = 64


@dataclass(slots=True)
class _Append:
    """The records of one append, and the transactions that are left."""

    batch: MetadataBatch
    groups: deque[Group]
    started: bool = False
    done: bool = False
    count: int = field(default=0)


class ZooKeeperStore:
    """The store of one node's controller."""

    def __init__(
        self,
        client: ZooKeeperClient,
        *,
        clock: Clock,
        timers: TimerService,
        on_unsure: Callable[[BaseException], None],
    ) -> None:
        # Notified of commits in this order, of won leaderships in the opposite one.
        self.listeners: list[StoreListener] = []
        self.stored = Stored()
        self._client = client
        self._clock = clock
        self._timers = timers
        # Called when this store does not know any more what the znodes contain.
        self._on_unsure = on_unsure
        self._epoch: Epoch | None = None
        self._end_offset = 0
        self._image: Image = EMPTY_IMAGE
        self._queue: deque[_Append] = deque()
        self._waiting_records = 0
        # Answers to transactions of an earlier leadership are ignored.
        self._generation = 0
        self._is_set = False
        self._is_adopting = False

    @property
    def epoch(self) -> Epoch | None:
        """That of this node's controller while it is active."""
        return self._epoch

    @property
    def end_offset(self) -> int:
        return self._end_offset

    # Leadership

    def activate(self, epoch: Epoch, records: Sequence[Message], stored: Stored) -> None:
        """This node's controller has been elected and the znodes are loaded: report them, and the victory."""
        assert self._epoch is None, "the earlier leadership has ended"
        self._epoch = epoch
        self.stored = stored
        delta = Delta(EMPTY_IMAGE)
        for record in records:
            delta.replay(record)
        self._end_offset += max(1, len(records))
        now_ms = self._clock.wall_ms()
        delta.at(self._end_offset - 1, epoch.number, now_ms)
        self._image = delta.image
        batch = MetadataBatch(self._end_offset - 1, epoch.number, now_ms, records, len(records))
        for listener in self.listeners:
            listener.loading_snapshot()
            listener.committed([batch], is_end=True)
        for listener in reversed(self.listeners):
            listener.won(epoch.number)

    def deactivate(self) -> None:
        """This node's controller is no longer the active one, or is not sure of it."""
        epoch, self._epoch = self._epoch, None
        self._generation += 1
        self._queue.clear()
        self._waiting_records = 0
        self._timers.cancel((self, "advance"))
        self._is_set = False
        if epoch is not None:
            for listener in self.listeners:
                listener.lost(epoch.number)

    # Calls of the controller

    def append(self, epoch: int, records: Sequence[Message], *, level: int, atomic: bool) -> int:
        """See `controller.store.ControllerStore`; each partition and topic takes effect on its own."""
        current = self._epoch
        if current is None or current.number != epoch:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"this node is not the controller of epoch {epoch}")
        if self._waiting_records >= MAX_UNCOMMITTED_RECORDS:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{self._waiting_records} changes are waiting for ZooKeeper; try again later",
            )
        now_ms = self._clock.wall_ms()
        groups: deque[Group] = deque()
        for part in _parts(records):
            delta = Delta(self._image)
            for record in part:
                delta.replay(record)
            self._end_offset += len(part)
            delta.at(self._end_offset - 1, epoch, now_ms)
            if not self._is_adopting:
                groups.extend(transactions(delta, current, self.stored, _producer_broker(part)))
            self._image = delta.image
        batch = MetadataBatch(self._end_offset - 1, epoch, now_ms, records, len(records))
        self._queue.append(_Append(batch, groups, count=len(records)))
        self._waiting_records += len(records)
        self._advance_soon()
        return self._end_offset - 1

    def adopt(self, append: Callable[[], None]) -> None:
        """What this appends describes what was found in znodes, so that nothing of it is written."""
        self._is_adopting = True
        try:
            append()
        finally:
            self._is_adopting = False

    def upgrade_kraft_version(self, epoch: int, kraft_version: int) -> None:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "a cluster on ZooKeeper has no kraft.version")

    def transact(self, operation: Operation, *, may_exist: bool = False) -> Promise[None]:
        """An operation of the controller beside its records, guarded by its epoch."""
        done: Promise[None] = Promise()
        if self._epoch is None:
            done.fail(KafkaError(ErrorCode.NOT_CONTROLLER, "this node is not the controller"))
            return done
        self._run(self._epoch.guarded(operation, may_exist=may_exist)).then(done.set, done.fail)
        return done

    # Sending

    def _advance_soon(self) -> None:
        """Not at once: the caller has not applied the records yet."""
        if not self._is_set:
            self._is_set = True
            self._timers.set((self, "advance"), self._clock.monotonic_ns(), self._advance)

    def _advance(self) -> None:
        """Starts what may start: an append of several groups waits for those before it."""
        self._is_set = False
        is_anything_ahead = False
        for append in list(self._queue)[:MAX_APPENDS_IN_FLIGHT]:
            if not append.started:
                if is_anything_ahead and len(append.groups) > 1:
                    break
                append.started = True
                self._next_group(append)
            if append.done:
                continue
            is_anything_ahead = True
            if append.groups:
                break
        self._commit()

    def _next_group(self, append: _Append) -> None:
        if not append.groups:
            append.done = True
            return
        generation = self._generation
        sent = gather([self._run(each) for each in append.groups.popleft()])
        sent.then(lambda _: self._group_done(generation, append), partial(self._group_failed, generation))

    def _group_done(self, generation: int, append: _Append) -> None:
        if generation == self._generation:
            self._next_group(append)
            if append.done:
                self._advance_soon()

    def _group_failed(self, generation: int, error: BaseException) -> None:
        if generation == self._generation:
            self._on_unsure(error)

    def _commit(self) -> None:
        """Reports what is stored; a listener may append, or end the leadership, meanwhile."""
        generation = self._generation
        has_reported = False
        while generation == self._generation and self._queue and self._queue[0].done:
            has_reported = True
            append = self._queue.popleft()
            self._waiting_records -= append.count
            for listener in self.listeners:
                if generation == self._generation:
                    listener.committed([append.batch], is_end=True)
        if has_reported and any(not append.started for append in self._queue):
            self._advance_soon()

    # One transaction

    def _run(self, transaction: Transaction | RemoveTopic) -> Promise[None]:
        done: Promise[None] = Promise()
        if isinstance(transaction, RemoveTopic):
            self._remove_topic(transaction.name, done)
            return done

        def failed(error: BaseException) -> None:
            code = error.code if isinstance(error, ZooKeeperError) else None
            if transaction.may_exist and code is ZooKeeperCode.NODE_EXISTS:
                done.set(None)
            elif transaction.otherwise is not None and _is_missing(error, transaction.otherwise.path):
                self._client.create(transaction.otherwise.path, transaction.otherwise.data).then(
                    lambda _: done.set(None), done.fail
                )
            else:
                done.fail(error)

        self._send(transaction.operations).then(lambda _: done.set(None), failed)
        return done

    def _send(self, operations: Sequence[Operation]) -> Promise[object]:
        """One operation alone is no multi, as with Apache Kafka."""
        sent: Promise[object] = Promise()
        match operations:
            case [Create(path, data)]:
                self._client.create(path, data).then(sent.set, sent.fail)
            case [SetData(path, data, version)]:
                self._client.set_data(path, data, version).then(sent.set, sent.fail)
            case _:
                self._client.transact(operations).then(sent.set, sent.fail)
        return sent

    def _remove_topic(self, name: str, done: Promise[None]) -> None:
        """All znodes of a topic, children first; then its options, and the request to delete it."""

        def listed(found: list[str]) -> None:
            epoch = self._epoch
            if epoch is None:
                done.fail(KafkaError(ErrorCode.NOT_CONTROLLER, "this node is not the controller"))
                return
            check = Check(paths.CONTROLLER_EPOCH, epoch.version)
            others = [paths.topic_config(name), paths.delete_topic(name)]
            sent = [_missing_is_fine(self._client.transact([check, Delete(path)])) for path in found + others]
            gather(sent).then(lambda _: done.set(None), done.fail)

        self._below(paths.topic(name)).then(listed, done.fail)

    def _below(self, path: str) -> Promise[list[str]]:
        """All znodes from this one on, children before their parents."""
        found: Promise[list[str]] = Promise()

        def listed(children: list[str] | None) -> None:
            if children is None:
                found.set([])
                return
            below = gather([self._below(f"{path}/{child}") for child in _in_number_order(children)])
            below.then(lambda each: found.set([*chain.from_iterable(each), path]), found.fail)

        self._client.children(path).then(listed, found.fail)
        return found


def _parts(records: Sequence[Message]) -> Iterator[list[Message]]:
    """Records such that each partition changes once: its state is stored with each change."""
    part: list[Message] = []
    changed: set[tuple[bytes, int]] = set()
    for record in records:
        if isinstance(record, PartitionChangeRecord | PartitionRecord):
            key = (bytes(record.topic_id), record.partition_id)
            if key in changed:
                yield part
                part, changed = [], set()
            changed.add(key)
        part.append(record)
    if part:
        yield part


def _producer_broker(records: Sequence[Message]) -> int:
    """The broker that gets a block of producer ids; -1 if none does."""
    return next((record.broker_id for record in records if isinstance(record, ProducerIdsRecord)), -1)


def _is_missing(error: BaseException, path: str) -> bool:
    return isinstance(error, ZooKeeperError) and error.code is ZooKeeperCode.NO_NODE and error.path == path


def _missing_is_fine(sent: Promise[list[OperationResult]]) -> Promise[None]:
    done: Promise[None] = Promise()

    def failed(error: BaseException) -> None:
        if isinstance(error, ZooKeeperError) and error.code is ZooKeeperCode.NO_NODE:
            done.set(None)
        else:
            done.fail(error)

    sent.then(lambda _: done.set(None), failed)
    return done


def _in_number_order(names: Sequence[str]) -> list[str]:
    return sorted(names, key=lambda name: (not name.isdecimal(), len(name), name))
