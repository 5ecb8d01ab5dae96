"""The shards of one kind of coordinator on this broker: one for each partition of its topic that we lead.

What lives here: following leadership, loading and dropping shards, and passing questions to the right one.
What may not: decisions (coordinator/), and what an answer looks like (handlers/).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from functools import partial
from typing import Generic, TypeVar

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.hashing import partition_for_group
from barnabas.batch.compression import Codec
from barnabas.broker.context import BrokerContext
from barnabas.broker.coordinators.shard_loader import ShardLoader
from barnabas.broker.coordinators.shard_store import PartitionStore
from barnabas.broker.replicas.hosted_partition import Hosted
from barnabas.broker.replicas.replica_manager import ReplicaManager
from barnabas.broker.replicas.transaction_checks import TransactionalWrite, Verdicts
from barnabas.broker.sliced_work import SlicedWork
from barnabas.coordinator.decision import Context, Decision, Marker, ProducerStamp
from barnabas.coordinator.shard import Machine, Shard
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import Image
from barnabas.replica.purgatory import DelayedOperation
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.timers import TimerService
from barnabas.storage.log.log import Log

logger = logging.getLogger(__name__)

M = TypeVar("M", bound=Machine)
R = TypeVar("R")
Decide = Callable[[M, Context], Decision[R]]

# How long loading may hold the loop.  Who produces meanwhile with one request in flight gets one answer in
# each turn, so turns are short and follow each other at once: sockets are served between them anyway.
LOAD_SLICE_NS = 500_000
LOAD_PAUSE_NS = 0
# Deltas kept for a shard that is loading.
MAX_MISSED_DELTAS = 10_000
_MS = 1_000_000


class _State(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"


class _Place(Generic[M]):
    """A partition that we lead in one leader epoch, and its shard when it is loaded.

    The epoch is the key, as in Apache Kafka's coordinator runtime: what was decided in an earlier one may
    not be what the log has in this one.  The log itself may be another file by the next request, as its
    directory may change.
    """

    __slots__ = (
        "deadline_ms",
        "hosted",
        "leader_epoch",
        "log",
        "machine",
        "missed",
        "operation",
        "shard",
        "state",
    )

    def __init__(self, hosted: Hosted, log: Log, machine: M) -> None:
        self.hosted = hosted
        self.leader_epoch = hosted.leader_epoch
        # What it is loaded from.
        self.log = log
        self.machine = machine
        self.state = _State.LOADING
        self.shard: Shard[M] | None = None
        self.operation: _Committing[M] | None = None
        # Deltas that took topics away while it was loading: what belongs to these is in the log.
        self.missed: deque[Delta] = deque(maxlen=MAX_MISSED_DELTAS)
        # When the loop's timer for the shard's timers is set to.
        self.deadline_ms: int | None = None


class _Committing(DelayedOperation, Generic[M]):
    """Replies of a shard that wait for their commit."""

    __slots__ = ("_place", "_shards")

    def __init__(self, shards: Shards[M], place: _Place[M]) -> None:
        super().__init__()
        self._shards = shards
        self._place = place

    def try_complete(self) -> bool:
        return not self._shards.look_at_commits(self._place, is_waiting=True)

    def expire(self) -> None:
        self._shards.expire(self._place)

    def fail(self, error: BaseException) -> None:
        self._shards.restart(self._place)


class Shards(Generic[M]):
    """All shards of one coordinator's topic.  For the loop's thread."""

    def __init__(
        self,
        broker: BrokerContext,
        replicas: ReplicaManager,
        timers: TimerService,
        *,
        topic: str,
        partitions: int,
        make_machine: Callable[[int], M],
        codec: Callable[[], Codec],
        commit_timeout_ms: int,
        load_bytes: int,
    ) -> None:
        self.topic = topic
        self._broker = broker
        self._replicas = replicas
        self._timers = timers
        self._default_partitions = partitions
        # How many partitions the topic has in this image.
        self._count = partitions
        self._counted_in: Image | None = None
        self._make_machine = make_machine
        self._codec = codec
        self._commit_timeout_ms = commit_timeout_ms
        # Read at once while loading.
        self._load_bytes = load_bytes
        self._places: dict[int, _Place[M]] = {}
        self._loads = SlicedWork(
            timers, broker.clock.monotonic_ns, lambda: None, LOAD_SLICE_NS, LOAD_PAUSE_NS
        )
        self._is_active = True
        replicas.on_changed.append(self._partition_changed)

    # Finding

    def partition_for(self, key: str) -> int:
        """The partition that keeps a group or a transaction; before the topic exists, the one that will."""
        image = self._broker.image
        if image is not self._counted_in:
            topic = image.topic_named(self.topic)
            self._count = self._default_partitions if topic is None else len(topic.partitions)
            self._counted_in = image
        return partition_for_group(key, self._count)

    @property
    def loading_count(self) -> int:
        return sum(place.state is _State.LOADING for place in self._places.values())

    @property
    def is_loading(self) -> bool:
        return self.loading_count > 0

    def active(self) -> Iterator[int]:
        """The partitions whose shards serve."""
        return iter([index for index, place in self._places.items() if place.shard is not None])

    def machines(self) -> Iterator[M]:
        """Those that serve."""
        return iter([place.machine for place in self._places.values() if place.shard is not None])

    def _shard(self, index: int) -> _Place[M]:
        if not self._is_active:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        place = self._places.get(index)
        if place is None or place.state is _State.FAILED:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if place.state is _State.LOADING:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return place

    # Asking

    def ask(self, key: str, decide: Decide[M, R]) -> Promise[R]:
        """Have it decided about a group or a transaction; the answer comes when it is committed."""
        return self.ask_partition(self.partition_for(key), decide)

    def ask_partition(self, index: int, decide: Decide[M, R]) -> Promise[R]:
        """Of a known partition."""
        try:
            place = self._shard(index)
        except KafkaError as error:
            return _failed(error)
        return self._ask(place, decide, None)

    def ask_in_transaction(
        self, key: str, transactional_id: str, stamp: ProducerStamp, decide: Decide[M, R], *, may_add: bool
    ) -> Promise[R]:
        """Like `ask`, but its coordinator is asked first whether the transaction is open (KIP-890).

        `may_add`: the partition may be added to the transaction by that question (transaction.version 2).
        TRANSACTION_ABORTABLE is told as such: the asker knows what its client understands.
        """
        index = self.partition_for(key)
        try:
            place = self._shard(index)
            log = place.hosted.log
            if log is None:
                raise KafkaError(ErrorCode.NOT_COORDINATOR)
            verification = log.start_verification(
                stamp.producer_id, -1, stamp.producer_epoch, supports_epoch_bump=may_add
            )
        except KafkaError as error:
            return _failed(error)
        if verification is None:
            return self._ask(place, decide, None)
        answer: Promise[R] = Promise()
        name = place.hosted.name

        def verified(verdicts: Verdicts) -> None:
            code = verdicts.get(name, ErrorCode.NONE)
            if code:
                answer.fail(KafkaError(code))
            elif self._places.get(index) is not place:
                answer.fail(KafkaError(ErrorCode.NOT_COORDINATOR))
            else:
                self._ask(place, decide, verification).then(answer.set, answer.fail)

        write = TransactionalWrite(transactional_id, *stamp, [name], may_add, knows_abortable=True)
        self._replicas.verifier.verify(write).then(verified, answer.fail)
        return answer

    def end_transaction(self, index: int, marker: Marker) -> Promise[None]:
        """Write a transaction's end to a partition; its shard makes of it what it means."""

        def decide(_: M, __: Context) -> Decision[None]:
            return Decision((), None, marker=marker)

        return self.ask_partition(index, decide)

    def _ask(self, place: _Place[M], decide: Decide[M, R], verification: object | None) -> Promise[R]:
        shard = place.shard
        assert shard is not None, "an active place has a shard"
        answer = shard.ask(decide, self._context(), self._monotonic_ms(), verification)
        self._after(place)
        return answer

    def _context(self) -> Context:
        broker = self._broker
        return Context(broker.clock.wall_ms(), broker.image, broker.settings, broker.random)

    def _monotonic_ms(self) -> int:
        return self._broker.clock.monotonic_ns() // _MS

    # Commits and timers

    def _after(self, place: _Place[M]) -> None:
        """Something was decided: look at what waits for its commit, and at the timers."""
        shard = place.shard
        if shard is None:
            return
        if shard.failure is not None:
            self.restart(place)
            return
        if shard.next_expiry is not None:
            self.look_at_commits(place, is_waiting=False)
        self._set_timer(place)

    def _set_timer(self, place: _Place[M]) -> None:
        """Have the loop come back for the first of the shard's timers."""
        deadline_ms = place.machine.timers.next_deadline()
        if deadline_ms != place.deadline_ms:
            place.deadline_ms = deadline_ms
            if deadline_ms is None:
                self._timers.cancel(place)
            else:
                self._timers.set(place, deadline_ms * _MS, partial(self._run_due, place))

    def look_at_commits(self, place: _Place[M], *, is_waiting: bool) -> bool:
        """Let go what is committed; whether anything still waits.  `is_waiting`: for this, in the room."""
        shard = place.shard
        if shard is None:
            return False
        shard.look_at_commits()
        if shard.failure is not None:
            self.restart(place)
            return False
        if is_waiting:
            # A reply may have brought the next request, and that set a timer.
            self._set_timer(place)
        expiry_ms = shard.next_expiry
        if expiry_ms is None:
            return False
        if not is_waiting and (place.operation is None or place.operation.is_done):
            place.operation = _Committing(self, place)
            self._replicas.room.wait(place.operation, [place.hosted], expiry_ms * _MS)
        return True

    def expire(self, place: _Place[M]) -> None:
        """The first reply that waits has waited long enough."""
        shard = place.shard
        if shard is not None:
            shard.expire(self._monotonic_ms())
            self._after(place)

    def restart(self, place: _Place[M]) -> None:
        """A fault in a shard: who waits for it asks again, and its state is made anew from the log."""
        if self._places.get(place.hosted.index) is place:
            self._drop(place.hosted.index, KafkaError(ErrorCode.NOT_COORDINATOR))
            self._load(place.hosted, place.log)

    def _run_due(self, place: _Place[M]) -> None:
        place.deadline_ms = None
        shard = place.shard
        if shard is not None:
            shard.run_due(self._context(), self._monotonic_ms())
            self._after(place)

    # Metadata

    def apply(self, delta: Delta) -> None:
        """A committed delta, after the replicas have heard of it."""
        for place in list(self._places.values()):
            if place.shard is not None:
                place.shard.metadata_changed(delta, self._context(), self._monotonic_ms())
                self._after(place)
            elif place.state is _State.LOADING and delta.removed_topics:
                place.missed.append(delta)

    # Leadership

    def _partition_changed(self, hosted: Hosted) -> None:
        if hosted.topic != self.topic or not self._is_active:
            return
        place = self._places.get(hosted.index)
        log = hosted.log if hosted.is_leader else None
        if place is not None:
            if place.hosted is not hosted and log is None:
                return  # one of an earlier life of the topic
            if place.hosted is hosted and log is not None and place.leader_epoch == hosted.leader_epoch:
                return
            self._drop(hosted.index, KafkaError(ErrorCode.NOT_COORDINATOR))
        if log is not None:
            self._load(hosted, log)

    def _load(self, hosted: Hosted, log: Log) -> None:
        place = self._places[hosted.index] = _Place(hosted, log, self._make_machine(hosted.index))
        self._loads.add(self._steps(place, ShardLoader(log, place.machine, self._load_bytes)))

    def _steps(self, place: _Place[M], loading: ShardLoader) -> Iterator[None]:
        try:
            for _ in loading.steps():
                yield
                if self._places.get(place.hosted.index) is not place:
                    return  # dropped meanwhile
            if loading.cold is None:
                self._loaded(place)
        except Exception:
            log = place.hosted.log
            if log is not None and log is not place.log:
                # It moved to another directory meanwhile, and the files that were read are gone.
                self._load(place.hosted, log)
                return
            logger.exception("%s cannot be loaded; its keys are not served here", place.hosted.name)
            place.state = _State.FAILED
            place.shard = None
            return
        if loading.cold is not None:
            self._replicas.storage.warm([loading.cold], partial(self._warmed, place, loading))

    def _warmed(self, place: _Place[M], loading: ShardLoader) -> None:
        if self._is_active and self._places.get(place.hosted.index) is place:
            self._loads.add(self._steps(place, loading))

    def _loaded(self, place: _Place[M]) -> None:
        store = PartitionStore(self._replicas, place.hosted, self._codec)
        place.shard = Shard(
            place.machine,
            store,
            end_offset=place.log.end_offset,
            commit_timeout_ms=self._commit_timeout_ms,
        )
        place.state = _State.ACTIVE
        place.shard.start(self._context(), self._monotonic_ms())
        for delta in place.missed:
            place.shard.metadata_changed(delta, self._context(), self._monotonic_ms())
        place.missed.clear()
        self._after(place)

    def _drop(self, index: int, error: KafkaError) -> None:
        place = self._places.pop(index)
        self._timers.cancel(place)
        if place.operation is not None:
            self._replicas.room.forget(place.operation)
        shard, place.shard = place.shard, None
        if shard is not None:
            shard.drop(error)

    def stop(self) -> None:
        """The broker goes: whoever waits is told to look for another coordinator."""
        self._is_active = False
        self._loads.stop()
        for index in list(self._places):
            self._drop(index, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))


def _failed(error: KafkaError) -> Promise[R]:
    promise: Promise[R] = Promise()
    promise.fail(error)
    return promise
