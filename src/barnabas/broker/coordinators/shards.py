"""The shards of one coordinator type on this broker: one for each partition of its topic that it leads.

Contains leadership changes, loading and unloading of shards, and the routing of requests.  Decisions belong
in coordinator/, responses in handlers/.
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
from barnabas.base.units import NS_PER_MS
from barnabas.batch.compression import Codec
from barnabas.broker.context import BrokerContext
from barnabas.broker.coordinators.shard_loader import ShardLoader
from barnabas.broker.coordinators.shard_store import PartitionStore
from barnabas.broker.replicas.hosted_partition import Hosted
from barnabas.broker.replicas.replica_manager import ReplicaManager
from barnabas.broker.replicas.transaction_checks import PartitionErrors, TransactionalWrite
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

# How long loading may hold the loop.  A producer with one request in flight gets one response per turn of the
# loop, so slices are short and without a pause: sockets are served between them anyway.
LOAD_SLICE_NS = 500_000
LOAD_PAUSE_NS = 0
# Deltas that are buffered for a shard that is loading.
MAX_MISSED_DELTAS = 10_000


class _State(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"


class _LeadPartition(Generic[M]):
    """A partition that this broker leads in one leader epoch, and its shard once it is loaded.

    The epoch is the key, as in Apache Kafka's coordinator runtime: decisions of an earlier epoch may have
    been truncated.  The log object may change between requests, as the partition may move to another
    directory.
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
        # The log that the shard is loaded from.
        self.log = log
        self.machine = machine
        self.state = _State.LOADING
        self.shard: Shard[M] | None = None
        self.operation: _DelayedCommits[M] | None = None
        # Deltas that removed topics while the shard was loading: the log still has their entries.
        self.missed: deque[Delta] = deque(maxlen=MAX_MISSED_DELTAS)
        # The deadline of the loop's timer for the shard's timers.
        self.deadline_ms: int | None = None


class _DelayedCommits(DelayedOperation, Generic[M]):
    """Replies of a shard that wait until their records are committed."""

    __slots__ = ("_partition", "_shards")

    def __init__(self, shards: Shards[M], partition: _LeadPartition[M]) -> None:
        super().__init__()
        self._shards = shards
        self._partition = partition

    def try_complete(self) -> bool:
        return not self._shards.complete_committed(self._partition, is_waiting=True)

    def expire(self) -> None:
        self._shards.expire(self._partition)

    def fail(self, error: BaseException) -> None:
        self._shards.restart(self._partition)


class Shards(Generic[M]):
    """All shards of one coordinator topic.  Runs on the event loop's thread."""

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
        # The partition count of the topic in `_counted_in`.
        self._count = partitions
        self._counted_in: Image | None = None
        self._make_machine = make_machine
        self._codec = codec
        self._commit_timeout_ms = commit_timeout_ms
        # The read size while loading.
        self._load_bytes = load_bytes
        self._partitions: dict[int, _LeadPartition[M]] = {}
        self._loads = SlicedWork(
            timers, broker.clock.monotonic_ns, lambda: None, LOAD_SLICE_NS, LOAD_PAUSE_NS
        )
        self._is_active = True
        replicas.on_changed.append(self._partition_changed)

    # Look-up

    def partition_for(self, key: str) -> int:
        """Returns the partition of a group or transactional id, also before the topic exists."""
        image = self._broker.image
        if image is not self._counted_in:
            topic = image.topic_named(self.topic)
            self._count = self._default_partitions if topic is None else len(topic.partitions)
            self._counted_in = image
        return partition_for_group(key, self._count)

    @property
    def loading_count(self) -> int:
        return sum(partition.state is _State.LOADING for partition in self._partitions.values())

    @property
    def is_loading(self) -> bool:
        return self.loading_count > 0

    def active(self) -> Iterator[int]:
        """Returns the partitions with an active shard."""
        return iter([index for index, partition in self._partitions.items() if partition.shard is not None])

    def machines(self) -> Iterator[M]:
        """Returns the state machines of the active shards."""
        return iter(
            [partition.machine for partition in self._partitions.values() if partition.shard is not None]
        )

    def leader_epoch(self, index: int) -> int | None:
        """Returns the leader epoch of a partition's active shard; None if there is none."""
        partition = self._partitions.get(index)
        return None if partition is None or partition.shard is None else partition.leader_epoch

    def _shard(self, index: int) -> _LeadPartition[M]:
        if not self._is_active:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        partition = self._partitions.get(index)
        if partition is None or partition.state is _State.FAILED:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if partition.state is _State.LOADING:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return partition

    # Requests

    def submit(self, key: str, decide: Decide[M, R]) -> Promise[R]:
        """Runs a decision on the shard of a group or transactional id; completed when it is committed."""
        return self.submit_to_partition(self.partition_for(key), decide)

    def submit_to_partition(self, index: int, decide: Decide[M, R]) -> Promise[R]:
        """Like `submit`, for a partition."""
        try:
            partition = self._shard(index)
        except KafkaError as error:
            return _failed(error)
        return self._decide(partition, decide, None)

    def submit_in_transaction(
        self, key: str, transactional_id: str, stamp: ProducerStamp, decide: Decide[M, R], *, may_add: bool
    ) -> Promise[R]:
        """Like `submit`, but first verifies with the transaction's coordinator that it is ongoing (KIP-890).

        `may_add`: the verification may add the partition to the transaction (transaction.version 2).
        TRANSACTION_ABORTABLE is passed on: the handler maps it for older clients.
        """
        index = self.partition_for(key)
        try:
            partition = self._shard(index)
            log = partition.hosted.log
            if log is None:
                raise KafkaError(ErrorCode.NOT_COORDINATOR)
            verification = log.start_verification(
                stamp.producer_id, -1, stamp.producer_epoch, supports_epoch_bump=may_add
            )
        except KafkaError as error:
            return _failed(error)
        if verification is None:
            return self._decide(partition, decide, None)
        result: Promise[R] = Promise()
        name = partition.hosted.name

        def verified(codes: PartitionErrors) -> None:
            code = codes.get(name, ErrorCode.NONE)
            if code:
                result.fail(KafkaError(code))
            elif self._partitions.get(index) is not partition:
                result.fail(KafkaError(ErrorCode.NOT_COORDINATOR))
            else:
                self._decide(partition, decide, verification).then(result.set, result.fail)

        write = TransactionalWrite(transactional_id, *stamp, [name], may_add, knows_abortable=True)
        self._replicas.verifier.verify(write).then(verified, result.fail)
        return result

    def end_transaction(self, index: int, marker: Marker) -> Promise[None]:
        """Writes a transaction marker to a partition and applies it to the shard."""

        def decide(_: M, __: Context) -> Decision[None]:
            return Decision((), None, marker=marker)

        return self.submit_to_partition(index, decide)

    def _decide(
        self, partition: _LeadPartition[M], decide: Decide[M, R], verification: object | None
    ) -> Promise[R]:
        shard = partition.shard
        assert shard is not None, "an active partition has a shard"
        result = shard.ask(decide, self._context(), self._monotonic_ms(), verification)
        self._after_decision(partition)
        return result

    def _context(self) -> Context:
        broker = self._broker
        return Context(broker.clock.wall_ms(), broker.image, broker.settings, broker.random)

    def _monotonic_ms(self) -> int:
        return self._broker.clock.monotonic_ns() // NS_PER_MS

    # Commits and timers

    def _after_decision(self, partition: _LeadPartition[M]) -> None:
        """Called after a decision: completes committed replies and updates the timer."""
        shard = partition.shard
        if shard is None:
            return
        if shard.failure is not None:
            self.restart(partition)
            return
        if shard.next_expiry is not None:
            self.complete_committed(partition, is_waiting=False)
        self._set_timer(partition)

    def _set_timer(self, partition: _LeadPartition[M]) -> None:
        """Sets the loop's timer to the first of the shard's timers."""
        deadline_ms = partition.machine.timers.next_deadline()
        if deadline_ms != partition.deadline_ms:
            partition.deadline_ms = deadline_ms
            if deadline_ms is None:
                self._timers.cancel(partition)
            else:
                self._timers.set(partition, deadline_ms * NS_PER_MS, partial(self._run_due, partition))

    def complete_committed(self, partition: _LeadPartition[M], *, is_waiting: bool) -> bool:
        """Completes committed replies; returns whether others wait.  `is_waiting`: in the purgatory."""
        shard = partition.shard
        if shard is None:
            return False
        shard.look_at_commits()
        if shard.failure is not None:
            self.restart(partition)
            return False
        if is_waiting:
            # A reply may have triggered the client's next request, which may have set a timer.
            self._set_timer(partition)
        expiry_ms = shard.next_expiry
        if expiry_ms is None:
            return False
        if not is_waiting and (partition.operation is None or partition.operation.is_done):
            partition.operation = _DelayedCommits(self, partition)
            self._replicas.purgatory.wait(partition.operation, [partition.hosted], expiry_ms * NS_PER_MS)
        return True

    def expire(self, partition: _LeadPartition[M]) -> None:
        """Fails replies that have waited longer than the commit timeout."""
        shard = partition.shard
        if shard is not None:
            shard.expire(self._monotonic_ms())
            self._after_decision(partition)

    def restart(self, partition: _LeadPartition[M]) -> None:
        """Reloads a failed shard from the log; waiting clients get NOT_COORDINATOR and retry."""
        if self._partitions.get(partition.hosted.index) is partition:
            self._drop(partition.hosted.index, KafkaError(ErrorCode.NOT_COORDINATOR))
            log = (
                partition.hosted.log
            )  # not the loaded one: the partition may have moved to another directory
            if log is not None:
                self._load(partition.hosted, log)

    def _run_due(self, partition: _LeadPartition[M]) -> None:
        partition.deadline_ms = None
        shard = partition.shard
        if shard is not None:
            shard.run_due(self._context(), self._monotonic_ms())
            self._after_decision(partition)

    # Metadata

    def apply(self, delta: Delta) -> None:
        """Applies a committed delta; called after the replica manager has applied it."""
        for partition in list(self._partitions.values()):
            if partition.shard is not None:
                partition.shard.metadata_changed(delta, self._context(), self._monotonic_ms())
                self._after_decision(partition)
            elif partition.state is _State.LOADING and delta.removed_topics:
                partition.missed.append(delta)

    # Leadership

    def _partition_changed(self, hosted: Hosted) -> None:
        if hosted.topic != self.topic or not self._is_active:
            return
        partition = self._partitions.get(hosted.index)
        log = hosted.log if hosted.is_leader else None
        if partition is not None:
            if partition.hosted is not hosted and log is None:
                return  # a deleted topic of the same name
            if (
                partition.hosted is hosted
                and log is not None
                and partition.leader_epoch == hosted.leader_epoch
            ):
                return
            self._drop(hosted.index, KafkaError(ErrorCode.NOT_COORDINATOR))
        if log is not None:
            self._load(hosted, log)

    def _load(self, hosted: Hosted, log: Log) -> None:
        partition = self._partitions[hosted.index] = _LeadPartition(
            hosted, log, self._make_machine(hosted.index)
        )
        self._loads.add(self._load_steps(partition, ShardLoader(log, partition.machine, self._load_bytes)))

    def _load_steps(self, partition: _LeadPartition[M], loading: ShardLoader) -> Iterator[None]:
        if self._partitions.get(partition.hosted.index) is not partition:
            return  # unloaded before its turn came
        try:
            for _ in loading.steps():
                yield
                if self._partitions.get(partition.hosted.index) is not partition:
                    return  # unloaded meanwhile
            if loading.cold is None:
                self._loaded(partition)
        except Exception:
            log = partition.hosted.log
            if log is not None and log is not partition.log:
                # The partition has moved to another directory, and the files of the old one are deleted.
                self._load(partition.hosted, log)
                return
            logger.exception(
                "%s cannot be loaded; this broker does not serve its keys", partition.hosted.name
            )
            partition.state = _State.FAILED
            partition.shard = None
            return
        if loading.cold is not None:
            self._replicas.storage.warm([loading.cold], partial(self._warmed, partition, loading))

    def _warmed(self, partition: _LeadPartition[M], loading: ShardLoader) -> None:
        if self._is_active and self._partitions.get(partition.hosted.index) is partition:
            self._loads.add(self._load_steps(partition, loading))

    def _loaded(self, partition: _LeadPartition[M]) -> None:
        store = PartitionStore(self._replicas, partition.hosted, partition.leader_epoch, self._codec)
        partition.shard = Shard(
            partition.machine,
            store,
            end_offset=partition.log.end_offset,
            commit_timeout_ms=self._commit_timeout_ms,
        )
        partition.state = _State.ACTIVE
        partition.shard.start(self._context(), self._monotonic_ms())
        for delta in partition.missed:
            partition.shard.metadata_changed(delta, self._context(), self._monotonic_ms())
        partition.missed.clear()
        self._after_decision(partition)

    def _drop(self, index: int, error: KafkaError) -> None:
        partition = self._partitions.pop(index)
        self._timers.cancel(partition)
        if partition.operation is not None:
            self._replicas.purgatory.forget(partition.operation)
        shard, partition.shard = partition.shard, None
        if shard is not None:
            shard.drop(error)

    def stop(self) -> None:
        """Shuts down: waiting clients get COORDINATOR_NOT_AVAILABLE and look for the new coordinator."""
        self._is_active = False
        self._loads.stop()
        for index in list(self._partitions):
            self._drop(index, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))


def _failed(error: KafkaError) -> Promise[R]:
    promise: Promise[R] = Promise()
    promise.fail(error)
    return promise
