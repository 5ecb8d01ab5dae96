"""Sends the markers of prepared transactions to all their partitions, and then completes the transactions.

Contains the pending markers, the choice of the broker, retries, and the final request to the coordinator; the
decision to commit or abort belongs in coordinator/txn, writing a marker in markers.py, requests to other
brokers in remote/marker_requests.py.

A prepared transaction is final: its markers are sent until every partition has one, and a coordinator that
takes over sends them again.  Deleted partitions are skipped.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.units import NS_PER_MS
from barnabas.broker.context import BrokerContext
from barnabas.broker.coordinators.markers import Markers
from barnabas.broker.coordinators.remote.marker_requests import MarkerRequests
from barnabas.broker.coordinators.shards import Shards
from barnabas.broker.sliced_work import SlicedWork
from barnabas.coordinator.decision import Marker
from barnabas.coordinator.txn.machine import Prepared, TransactionMachine
from barnabas.coordinator.txn.transaction import State
from barnabas.metadata.delta import Delta
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.timers import TimerService
from barnabas.storage.log.names import TopicPartition

logger = logging.getLogger(__name__)

# How long sending markers may hold the loop.
SLICE_NS = 10_000_000
# Backoff before partitions and coordinators that were not ready are retried: it doubles with each failure,
# and ends with new metadata.
RETRY_MS = 50
MAX_RETRY_MS = 1_000
MAX_DOUBLINGS = 10

# A newer coordinator or producer epoch has taken over the transaction.
_FENCED = frozenset((ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED))
# Such a partition cannot contain records of the transaction.
_SKIPPED = frozenset((ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION))


class _PendingMarkers:
    """The markers of one prepared transaction that are not written yet."""

    __slots__ = ("failures", "in_flight", "index", "is_dropped", "marker", "prepared", "remaining")

    def __init__(self, index: int, prepared: Prepared, coordinator_epoch: int) -> None:
        transaction = prepared.transaction
        # The partition of its coordinator's topic.
        self.index = index
        self.prepared = prepared
        self.marker = Marker(
            transaction.producer_id,
            transaction.producer_epoch,
            coordinator_epoch,
            transaction.state is State.PREPARE_COMMIT,
        )
        self.remaining = sorted(transaction.partitions, reverse=True)
        self.in_flight = 0
        self.failures = 0
        self.is_dropped = False

    @property
    def is_wanted(self) -> bool:
        return not self.is_dropped

    def __repr__(self) -> str:
        transaction = self.prepared.transaction
        return f"{transaction.state.display_name} of {transaction.transactional_id!r} ({self.marker})"


class MarkerSender:
    """Sends markers for this broker's coordinators.  Runs on the event loop's thread."""

    def __init__(
        self,
        broker: BrokerContext,
        broker_id: int,
        shards: Shards[TransactionMachine],
        markers: Markers,
        requests: MarkerRequests,
        timers: TimerService,
    ) -> None:
        self._broker = broker
        self._broker_id = broker_id
        self._shards = shards
        self._markers = markers
        self._requests = requests
        self._timers = timers
        self._work = SlicedWork(timers, broker.clock.monotonic_ns, lambda: None, SLICE_NS)
        self._pending: dict[str, _PendingMarkers] = {}
        # By transactional id; each has a timer.
        self._retries: dict[str, _PendingMarkers] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def __contains__(self, transactional_id: str) -> bool:
        return transactional_id in self._pending

    def start(self, index: int, prepared: Prepared) -> None:
        """Sends the markers to all partitions; replaces those of an earlier transaction of this id."""
        transactional_id = prepared.transaction.transactional_id
        epoch = self._shards.leader_epoch(index)
        if epoch is None:
            return  # the coordinator has moved, and sends them itself
        pending = _PendingMarkers(index, prepared, epoch)
        previous = self._pending.get(transactional_id)
        if previous is not None:
            self._forget(previous)
        self._pending[transactional_id] = pending
        self._work.add(self._send(pending))

    def drop(self, index: int) -> None:
        """Called when this broker stops being the coordinator of this partition."""
        for pending in [pending for pending in self._pending.values() if pending.index == index]:
            self._forget(pending)

    def metadata_changed(self, delta: Delta) -> None:
        """Called with a committed delta: what could not be sent may be possible now."""
        if not self._retries:
            return
        retries = list(self._retries.values())
        if not delta.brokers and not delta.removed_topics:
            changed = _names(delta)
            retries = [pending for pending in retries if not changed.isdisjoint(pending.remaining)]
        for pending in retries:
            self._retry_now(pending)

    def disconnect_dead_brokers(self) -> None:
        self._requests.disconnect_dead_brokers()

    def stop(self) -> None:
        self._work.stop()
        for transactional_id in self._retries:
            self._timers.cancel((self, transactional_id))
        self._pending.clear()
        self._retries.clear()
        self._requests.stop()

    def _send(self, pending: _PendingMarkers) -> Iterator[None]:
        partitions, pending.remaining = pending.remaining, []
        # The loop counts as one request: the transaction is not complete before all markers are sent.
        pending.in_flight += 1
        while partitions and not pending.is_dropped:
            name = partitions.pop()
            leader = self._leader_of(name)
            if leader is not None:
                pending.in_flight += 1
                written = self._write(leader, name, pending)
                written.then(partial(self._written, pending, name), partial(self._failed, pending, name))
                yield
        self._request_completed(pending)

    def _leader_of(self, name: TopicPartition) -> int | None:
        """Returns None if the partition does not exist."""
        topic = self._broker.image.topic_named(name.topic)
        partition = None if topic is None else topic.partitions.get(name.partition)
        return None if partition is None else partition.leader

    def _write(self, leader: int, name: TopicPartition, pending: _PendingMarkers) -> Promise[ErrorCode]:
        if leader == self._broker_id:
            return self._markers.write(name, pending.marker)
        broker = self._broker.image.brokers.get(leader)
        if broker is None or broker.fenced:
            return Promise.of(ErrorCode.LEADER_NOT_AVAILABLE)
        return self._requests.write(leader, name, pending.marker, lambda: pending.is_wanted)

    def _written(self, pending: _PendingMarkers, name: TopicPartition, code: ErrorCode) -> None:
        if code in _FENCED:
            logger.info("%r: %s returned %s; another coordinator has taken over", pending, name, code.name)
            self._forget(pending)
        elif code and code not in _SKIPPED:
            logger.debug("%r: %s returned %s; retrying", pending, name, code.name)
            pending.remaining.append(name)
        self._request_completed(pending)

    def _failed(self, pending: _PendingMarkers, name: TopicPartition, error: BaseException) -> None:
        logger.error("%r: the marker for %s could not be written", pending, name, exc_info=error)
        self._written(pending, name, ErrorCode.UNKNOWN_SERVER_ERROR)

    def _request_completed(self, pending: _PendingMarkers) -> None:
        pending.in_flight -= 1
        if pending.in_flight or pending.is_dropped:
            return
        if pending.remaining:
            self._retry_later(pending)
        else:
            self._complete(pending)

    def _complete(self, pending: _PendingMarkers) -> None:
        transaction = pending.prepared.transaction
        completed = self._shards.submit_to_partition(
            pending.index, lambda machine, context: machine.complete(context, transaction)
        )
        completed.then(lambda _: self._forget(pending), partial(self._completion_failed, pending))

    def _completion_failed(self, pending: _PendingMarkers, error: BaseException) -> None:
        code = error.code if isinstance(error, KafkaError) else None
        # Without space for the record, clients are sent away, but this still is the coordinator.
        is_here = self._shards.leader_epoch(pending.index) == pending.marker.coordinator_epoch
        if code is ErrorCode.COORDINATOR_NOT_AVAILABLE or (code is ErrorCode.NOT_COORDINATOR and is_here):
            self._retry_later(pending)
            return
        logger.info("%r: not completed here: %s", pending, error)
        self._forget(pending)

    def _retry_later(self, pending: _PendingMarkers) -> None:
        if pending.is_dropped:
            return
        delay_ms = min(RETRY_MS << min(pending.failures, MAX_DOUBLINGS), MAX_RETRY_MS)
        pending.failures += 1
        transactional_id = pending.prepared.transaction.transactional_id
        self._retries[transactional_id] = pending
        deadline_ns = self._broker.clock.monotonic_ns() + delay_ms * NS_PER_MS
        self._timers.set((self, transactional_id), deadline_ns, partial(self._retry_now, pending))

    def _retry_now(self, pending: _PendingMarkers) -> None:
        self._cancel_retry(pending)
        if not pending.is_dropped:
            self._work.add(self._send(pending))

    def _cancel_retry(self, pending: _PendingMarkers) -> None:
        transactional_id = pending.prepared.transaction.transactional_id
        if self._retries.get(transactional_id) is pending:
            del self._retries[transactional_id]
            self._timers.cancel((self, transactional_id))

    def _forget(self, pending: _PendingMarkers) -> None:
        pending.is_dropped = True
        self._cancel_retry(pending)
        transactional_id = pending.prepared.transaction.transactional_id
        if self._pending.get(transactional_id) is pending:
            del self._pending[transactional_id]


def _names(delta: Delta) -> frozenset[TopicPartition]:
    """The partitions that have changed."""
    topics = delta.image.topics
    return frozenset(
        TopicPartition(topics[topic_id].name, index)
        for topic_id, index in delta.partitions
        if topic_id in topics
    )
