"""Sends the markers of prepared transactions to all their partitions, and then completes the transactions.

Contains the pending markers, retries, and the final request to the coordinator; the decision to commit or
abort belongs in coordinator/txn, writing a marker in markers.py.

A prepared transaction is final: after a restart the coordinator sends its markers again.  Deleted partitions
are skipped.  Partitions that other brokers lead are retried until this broker leads them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.units import NS_PER_MS
from barnabas.broker.context import BrokerContext
from barnabas.broker.coordinators.markers import Markers
from barnabas.broker.coordinators.shards import Shards
from barnabas.broker.sliced_work import SlicedWork
from barnabas.coordinator.decision import Marker
from barnabas.coordinator.txn.machine import Prepared, TransactionMachine
from barnabas.coordinator.txn.transaction import State
from barnabas.runtime.loop.timers import TimerService
from barnabas.storage.log.names import TopicPartition

logger = logging.getLogger(__name__)

# How long sending markers may hold the loop.
SLICE_NS = 10_000_000
# Backoff before partitions and coordinators that were not ready are retried.
RETRY_MS = 50

# A newer coordinator or producer epoch has taken over the transaction.
_FENCED = frozenset((ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED))
# Such a partition cannot contain records of the transaction.
_SKIPPED = frozenset((ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION))


class _PendingMarkers:
    """The markers of one prepared transaction that are not written yet."""

    __slots__ = ("in_flight", "index", "is_dropped", "marker", "prepared", "remaining")

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
        self.is_dropped = False

    def __repr__(self) -> str:
        transaction = self.prepared.transaction
        return f"{transaction.state.display_name} of {transaction.transactional_id!r} ({self.marker})"


class MarkerSender:
    """Sends markers for this broker's coordinators.  Runs on the event loop's thread."""

    def __init__(
        self,
        broker: BrokerContext,
        shards: Shards[TransactionMachine],
        markers: Markers,
        timers: TimerService,
        coordinator_epoch: Callable[[int], int],
    ) -> None:
        self._broker = broker
        self._shards = shards
        self._markers = markers
        self._timers = timers
        self._coordinator_epoch = coordinator_epoch
        self._work = SlicedWork(timers, broker.clock.monotonic_ns, lambda: None, SLICE_NS)
        self._pending: dict[str, _PendingMarkers] = {}
        self._retries: list[_PendingMarkers] = []

    def __len__(self) -> int:
        return len(self._pending)

    def __contains__(self, transactional_id: str) -> bool:
        return transactional_id in self._pending

    def start(self, index: int, prepared: Prepared) -> None:
        """Sends the markers to all partitions; replaces those of an earlier transaction of this id."""
        transactional_id = prepared.transaction.transactional_id
        pending = _PendingMarkers(index, prepared, self._coordinator_epoch(index))
        previous = self._pending.get(transactional_id)
        if previous is not None:
            previous.is_dropped = True
        self._pending[transactional_id] = pending
        self._work.add(self._send(pending))

    def drop(self, index: int) -> None:
        """Called when this broker stops being the coordinator of this partition."""
        for pending in [pending for pending in self._pending.values() if pending.index == index]:
            self._forget(pending)

    def stop(self) -> None:
        self._work.stop()
        self._timers.cancel(self)
        self._pending.clear()
        self._retries.clear()

    def _send(self, pending: _PendingMarkers) -> Iterator[None]:
        partitions, pending.remaining = pending.remaining, []
        # The loop counts as one request: the transaction is not complete before all markers are sent.
        pending.in_flight += 1
        while partitions and not pending.is_dropped:
            name = partitions.pop()
            if self._exists(name):
                pending.in_flight += 1
                written = self._markers.write(name, pending.marker)
                written.then(partial(self._written, pending, name), partial(self._failed, pending, name))
                yield
        self._request_completed(pending)

    def _exists(self, name: TopicPartition) -> bool:
        topic = self._broker.image.topic_named(name.topic)
        return topic is not None and name.partition in topic.partitions

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
            self._retry(pending)
        else:
            self._complete(pending)

    def _complete(self, pending: _PendingMarkers) -> None:
        transaction = pending.prepared.transaction
        completed = self._shards.submit_to_partition(
            pending.index, lambda machine, context: machine.complete(context, transaction)
        )
        completed.then(lambda _: self._forget(pending), partial(self._completion_failed, pending))

    def _completion_failed(self, pending: _PendingMarkers, error: BaseException) -> None:
        if isinstance(error, KafkaError) and error.code is ErrorCode.COORDINATOR_NOT_AVAILABLE:
            self._retry(pending)
            return
        logger.info("%r: not completed here: %s", pending, error)
        self._forget(pending)

    def _retry(self, pending: _PendingMarkers) -> None:
        self._retries.append(pending)
        if len(self._retries) == 1:
            deadline_ns = self._broker.clock.monotonic_ns() + RETRY_MS * NS_PER_MS
            self._timers.set(self, deadline_ns, self._retry_all)

    def _retry_all(self) -> None:
        retries, self._retries = self._retries, []
        for pending in retries:
            if not pending.is_dropped:
                self._work.add(self._send(pending))

    def _forget(self, pending: _PendingMarkers) -> None:
        pending.is_dropped = True
        transactional_id = pending.prepared.transaction.transactional_id
        if self._pending.get(transactional_id) is pending:
            del self._pending[transactional_id]
