"""Transactions on their way from prepared to complete: every partition is told, as often as it takes.

What lives here: what is still to be told, trying again, and the last word to the coordinator.  What may not:
deciding an end (coordinator/txn) and writing a marker (txn_markers.py).

What is prepared is decided: a restart goes on with it, and nothing turns it back.  Partitions that were
deleted need not hear of it.  Partitions led by other brokers are told when they are led here: there are no
others yet.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial

from barnabas.base.errors import ErrorCode, KafkaError
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

# How long telling may hold the loop.
SLICE_NS = 10_000_000
# Until partitions and coordinators that were not ready are asked again.
RETRY_MS = 50
_MS = 1_000_000

# The transaction was taken over by a newer coordinator or producer: it is no longer ours to end.
_TAKEN_OVER = frozenset((ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED))
# Nothing of the transaction can be in such a partition.
_NEED_NOT_KNOW = frozenset((ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION))


class _PendingMarkers:
    """One transaction."""

    __slots__ = ("index", "is_dropped", "marker", "prepared", "unanswered", "untold")

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
        self.untold = sorted(transaction.partitions, reverse=True)
        self.unanswered = 0
        self.is_dropped = False

    def __repr__(self) -> str:
        transaction = self.prepared.transaction
        return f"{transaction.state.told} of {transaction.transactional_id!r} ({self.marker})"


class MarkerSender:
    """All transactions of this broker's coordinators that are prepared.  For the loop's thread."""

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
        self._endings: dict[str, _PendingMarkers] = {}
        self._again: list[_PendingMarkers] = []

    def __len__(self) -> int:
        return len(self._endings)

    def __contains__(self, transactional_id: str) -> bool:
        return transactional_id in self._endings

    def start(self, index: int, prepared: Prepared) -> None:
        """Tell all partitions; what was under way for an earlier transaction of this id is given up."""
        transactional_id = prepared.transaction.transactional_id
        ending = _PendingMarkers(index, prepared, self._coordinator_epoch(index))
        before = self._endings.get(transactional_id)
        if before is not None:
            before.is_dropped = True
        self._endings[transactional_id] = ending
        self._work.add(self._tell(ending))

    def drop(self, index: int) -> None:
        """This broker is the coordinator of a partition no more."""
        for ending in [one for one in self._endings.values() if one.index == index]:
            self._forget(ending)

    def stop(self) -> None:
        self._work.stop()
        self._timers.cancel(self)
        self._endings.clear()
        self._again.clear()

    def _tell(self, ending: _PendingMarkers) -> Iterator[None]:
        told, ending.untold = ending.untold, []
        # The telling itself counts as one: it is not over before all have been asked.
        ending.unanswered += 1
        while told and not ending.is_dropped:
            name = told.pop()
            if self._exists(name):
                ending.unanswered += 1
                answer = self._markers.write(name, ending.marker)
                answer.then(partial(self._answered, ending, name), partial(self._failed, ending, name))
                yield
        self._one_less(ending)

    def _exists(self, name: TopicPartition) -> bool:
        topic = self._broker.image.topic_named(name.topic)
        return topic is not None and name.partition in topic.partitions

    def _answered(self, ending: _PendingMarkers, name: TopicPartition, code: ErrorCode) -> None:
        if code in _TAKEN_OVER:
            logger.info("%r: %s says %s; it is left to whoever has taken it over", ending, name, code.name)
            self._forget(ending)
        elif code and code not in _NEED_NOT_KNOW:
            logger.debug("%r: %s says %s; trying again", ending, name, code.name)
            ending.untold.append(name)
        self._one_less(ending)

    def _failed(self, ending: _PendingMarkers, name: TopicPartition, error: BaseException) -> None:
        logger.error("%r: the marker for %s could not be written", ending, name, exc_info=error)
        self._answered(ending, name, ErrorCode.UNKNOWN_SERVER_ERROR)

    def _one_less(self, ending: _PendingMarkers) -> None:
        ending.unanswered -= 1
        if ending.unanswered or ending.is_dropped:
            return
        if ending.untold:
            self._try_again(ending)
        else:
            self._complete(ending)

    def _complete(self, ending: _PendingMarkers) -> None:
        transaction = ending.prepared.transaction
        answer = self._shards.ask_partition(
            ending.index, lambda machine, context: machine.complete(context, transaction)
        )
        answer.then(lambda _: self._forget(ending), partial(self._not_completed, ending))

    def _not_completed(self, ending: _PendingMarkers, error: BaseException) -> None:
        if isinstance(error, KafkaError) and error.code is ErrorCode.COORDINATOR_NOT_AVAILABLE:
            self._try_again(ending)
            return
        logger.info("%r: not completed here: %s", ending, error)
        self._forget(ending)

    def _try_again(self, ending: _PendingMarkers) -> None:
        self._again.append(ending)
        if len(self._again) == 1:
            deadline_ns = self._broker.clock.monotonic_ns() + RETRY_MS * _MS
            self._timers.set(self, deadline_ns, self._tell_again)

    def _tell_again(self) -> None:
        again, self._again = self._again, []
        for ending in again:
            if not ending.is_dropped:
                self._work.add(self._tell(ending))

    def _forget(self, ending: _PendingMarkers) -> None:
        ending.is_dropped = True
        transactional_id = ending.prepared.transaction.transactional_id
        if self._endings.get(transactional_id) is ending:
            del self._endings[transactional_id]
