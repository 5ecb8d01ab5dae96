"""WriteTxnMarkers to other brokers: batched, with one request in flight for each broker.

Contains the queues of markers by broker, and requests and responses; the choice of the broker and retries
belong in broker/coordinators/marker_sender.py, writing a marker in broker/coordinators/markers.py.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from barnabas.base.errors import ErrorCode
from barnabas.broker.context import BrokerContext
from barnabas.broker.coordinators.remote.broker_queues import BrokerQueues
from barnabas.broker.peers.broker_channel import BrokerChannel, known_code
from barnabas.coordinator.decision import Marker
from barnabas.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.callbacks import call_each
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.timers import TimerService
from barnabas.storage.log.names import TopicPartition

logger = logging.getLogger(__name__)

KEY = 27
# The markers of one request, counted by partition.
MAX_MARKERS_PER_REQUEST = 1_000
# The markers that may wait for one broker, counted by partition; beyond that the sender tries again later.
MAX_WAITING_MARKERS = 100_000


class _QueuedMarker(NamedTuple):
    name: TopicPartition
    marker: Marker
    is_wanted: Callable[[], bool]
    result: Promise[ErrorCode]


class MarkerRequests:
    """Sends markers to other brokers.  Runs on the event loop's thread."""

    def __init__(self, broker: BrokerContext, channel: BrokerChannel, timers: TimerService) -> None:
        self._broker = broker
        self._channel = channel
        self._queues = BrokerQueues(broker.clock, timers, self._send, MAX_WAITING_MARKERS)

    def write(
        self, broker_id: int, name: TopicPartition, marker: Marker, is_wanted: Callable[[], bool]
    ) -> Promise[ErrorCode]:
        """Returns the promise of the partition's result.

        NETWORK_EXCEPTION: it is unknown whether the marker was written.  The promise of a marker that is no
        longer wanted when its request is built is completed with OPERATION_NOT_ATTEMPTED.
        """
        result: Promise[ErrorCode] = Promise()
        if not self._queues.add(broker_id, _QueuedMarker(name, marker, is_wanted, result)):
            return Promise.of(ErrorCode.REQUEST_TIMED_OUT)
        return result

    def _send(self, broker_id: int, waiting: deque[_QueuedMarker], received: Callable[[], None]) -> bool:
        batch = _next_batch(waiting)
        if batch:
            request = _request(batch)
            timeout_ms: int = self._broker.settings["request.timeout.ms"]
            done = partial(self._received, broker_id, batch, received)
            self._channel.send(broker_id, KEY, lambda _: request, done, timeout_ms)
        return bool(batch)

    def _received(
        self,
        broker_id: int,
        batch: Sequence[_QueuedMarker],
        received: Callable[[], None],
        response: Message | None,
        error: Exception | None,
    ) -> None:
        received()
        if isinstance(response, WriteTxnMarkersResponse):
            codes = _codes(response)
            # A partition that the response does not name is tried again.
            missing = ErrorCode.UNKNOWN_SERVER_ERROR
        else:
            logger.info("%d markers for broker %d are to be sent again: %s", len(batch), broker_id, error)
            codes, missing = {}, ErrorCode.NETWORK_EXCEPTION
        call_each(
            partial(queued.result.set, codes.get((queued.marker.producer_id, queued.name), missing))
            for queued in batch
        )

    def disconnect_dead_brokers(self) -> None:
        """A broker that was fenced may be paused or cut off: its requests fail now, not at their deadline."""
        self._channel.disconnect_dead_brokers()

    def stop(self) -> None:
        """Drops what waits, without results."""
        self._queues.stop()
        self._channel.close()


def _next_batch(waiting: deque[_QueuedMarker]) -> list[_QueuedMarker]:
    """Removes the markers of the next request: at most one of each producer and partition.

    Responses name the producer id and the partition only, so two markers of one pair go one after the other.
    """
    batch: list[_QueuedMarker] = []
    taken: set[tuple[int, TopicPartition]] = set()
    while waiting and len(batch) < MAX_MARKERS_PER_REQUEST:
        queued = waiting[0]
        key = queued.marker.producer_id, queued.name
        if not queued.is_wanted():
            waiting.popleft().result.set(ErrorCode.OPERATION_NOT_ATTEMPTED)
        elif key in taken:
            break
        else:
            taken.add(key)
            batch.append(waiting.popleft())
    return batch


def _request(batch: Sequence[_QueuedMarker]) -> WriteTxnMarkersRequest:
    by_marker: dict[Marker, dict[str, list[int]]] = {}
    for queued in batch:
        topics = by_marker.setdefault(queued.marker, {})
        topics.setdefault(queued.name.topic, []).append(queued.name.partition)
    return WriteTxnMarkersRequest(
        markers=[
            WriteTxnMarkersRequest.WritableTxnMarker(
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                transaction_result=marker.committed,
                topics=[
                    WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=topic, partition_indexes=indexes)
                    for topic, indexes in topics.items()
                ],
                coordinator_epoch=marker.coordinator_epoch,
            )
            for marker, topics in by_marker.items()
        ]
    )


def _codes(response: WriteTxnMarkersResponse) -> dict[tuple[int, TopicPartition], ErrorCode]:
    return {
        (marker.producer_id, TopicPartition(topic.name, partition.partition_index)): known_code(
            partition.error_code
        )
        for marker in response.markers
        for topic in marker.topics
        for partition in topic.partitions
    }
