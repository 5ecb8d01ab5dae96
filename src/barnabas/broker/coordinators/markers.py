"""Writes transaction markers to partitions that this broker leads.

Contains the append and its completion; the choice of partitions and retries belong in marker_sender.py, the
API in broker/handlers/write_txn_markers.py.

A marker for `__consumer_offsets` goes through the group coordinator's shard, which commits or drops the
transaction's offsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.topic_names import CONSUMER_OFFSETS
from barnabas.base.units import NS_PER_MS
from barnabas.batch.control import EndTransactionMarker, build_marker
from barnabas.broker.context import BrokerContext
from barnabas.broker.coordinators.shards import Shards
from barnabas.broker.replicas.hosted_partition import Hosted
from barnabas.broker.replicas.replica_manager import ReplicaManager
from barnabas.coordinator.decision import Marker
from barnabas.replica.purgatory import DelayedOperation
from barnabas.runtime.loop.promise import Promise
from barnabas.storage.log.names import TopicPartition
from barnabas.storage.producers.producer_append import AppendOrigin

if TYPE_CHECKING:
    from barnabas.coordinator.group.machine import GroupMachine

_ALL_IN_SYNC = -1
# Errors of a group coordinator that is not ready; the sender of markers expects partition errors instead.
_NOT_READY = frozenset(
    (
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    )
)


class Markers:
    """The writer of markers.  Runs on the event loop's thread."""

    def __init__(self, broker: BrokerContext, replicas: ReplicaManager, groups: Shards[GroupMachine]) -> None:
        self._broker = broker
        self._replicas = replicas
        self._groups = groups

    def write(self, name: TopicPartition, marker: Marker) -> Promise[ErrorCode]:
        """Returns the promise of the result; completed when all in-sync replicas have the marker."""
        if name.topic == CONSUMER_OFFSETS:
            return self._write_to_group(name.partition, marker)
        try:
            hosted = self._replicas.find(*name)
            batch = build_marker(
                EndTransactionMarker(marker.committed, marker.coordinator_epoch),
                timestamp=self._broker.clock.wall_ms(),
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
            )
            result = self._replicas.append(hosted, batch, _ALL_IN_SYNC, None, AppendOrigin.COORDINATOR)
        except KafkaError as error:
            return Promise.of(error.code)
        required_offset = result.last_offset + 1
        code = self._replicas.answer_to(hosted, _ALL_IN_SYNC, required_offset)
        if code is not None:
            return Promise.of(code)
        operation = _DelayedMarker(self._replicas, hosted, required_offset)
        timeout_ms: int = self._broker.settings["request.timeout.ms"]
        deadline_ns = self._broker.clock.monotonic_ns() + timeout_ms * NS_PER_MS
        self._replicas.purgatory.wait(operation, [hosted], deadline_ns)
        return operation.promise

    def _write_to_group(self, index: int, marker: Marker) -> Promise[ErrorCode]:
        result: Promise[ErrorCode] = Promise()

        def failed(error: BaseException) -> None:
            code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
            if self._broker.image.topic_named(CONSUMER_OFFSETS) is None:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            result.set(ErrorCode.NOT_LEADER_OR_FOLLOWER if code in _NOT_READY else code)

        self._groups.end_transaction(index, marker).then(lambda _: result.set(ErrorCode.NONE), failed)
        return result


class _DelayedMarker(DelayedOperation):
    """A marker that waits for its replication."""

    __slots__ = ("_hosted", "_replicas", "_required_offset", "promise")

    def __init__(self, replicas: ReplicaManager, hosted: Hosted, required_offset: int) -> None:
        super().__init__()
        self.promise: Promise[ErrorCode] = Promise()
        self._replicas = replicas
        self._hosted = hosted
        self._required_offset = required_offset

    def try_complete(self) -> bool:
        code = self._replicas.answer_to(self._hosted, _ALL_IN_SYNC, self._required_offset)
        if code is None:
            return False
        self.promise.set(code)
        return True

    def expire(self) -> None:
        self.promise.set(ErrorCode.REQUEST_TIMED_OUT)

    def fail(self, error: BaseException) -> None:
        if not self.promise.done:
            self.promise.set(ErrorCode.UNKNOWN_SERVER_ERROR)
