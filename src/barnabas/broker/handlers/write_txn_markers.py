"""WriteTxnMarkers (api key 27), version 1.

The end of transactions, told to partitions that this broker leads: by their coordinators on other brokers,
and by administrators who end a hanging transaction (KIP-664).  A marker for `__consumer_offsets` makes the
transaction's offsets count, or not.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.network.request_context import Answer, RequestContext
from barnabas.broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from barnabas.coordinator.decision import Marker
from barnabas.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from barnabas.runtime.loop.promise import Promise
from barnabas.storage.log.names import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 27

# What became of each producer's markers.
Results = dict[int, dict[TopicPartition, ErrorCode]]


def handle(
    broker: Broker, request: WriteTxnMarkersRequest, context: RequestContext
) -> Answer[WriteTxnMarkersResponse]:
    allows = broker.authorizer.allows
    if not allows(context, Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME, quiet=True) and not allows(
        context, Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME
    ):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return _Writing(broker, request).start()


def refuse(request: WriteTxnMarkersRequest, code: ErrorCode, text: str) -> WriteTxnMarkersResponse:
    results: Results = {}
    for marker in request.markers:
        results.setdefault(marker.producer_id, {}).update(dict.fromkeys(_names(marker), code))
    return _response(results)


class _Writing:
    """A request under way."""

    def __init__(self, broker: Broker, request: WriteTxnMarkersRequest) -> None:
        self._broker = broker
        self._markers = request.markers
        self._results: Results = {}
        # Reading the request counts as one: it is not over before all were asked.
        self._unanswered = 1
        self._later: Promise[WriteTxnMarkersResponse] = Promise()

    def start(self) -> Promise[WriteTxnMarkersResponse]:
        for wanted in self._markers:
            marker = Marker(
                wanted.producer_id,
                wanted.producer_epoch,
                wanted.coordinator_epoch,
                wanted.transaction_result,
            )
            results = self._results.setdefault(marker.producer_id, {})
            for name in _names(wanted):
                self._write(name, marker, results)
        self._one_less()
        return self._later

    def _write(self, name: TopicPartition, marker: Marker, results: dict[TopicPartition, ErrorCode]) -> None:
        hosted = self._broker.replicas.partitions.get(name)
        if hosted is None or hosted.is_offline:
            results[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return
        self._unanswered += 1
        self._broker.transactions.markers.write(name, marker).then(
            partial(self._answered, name, results), self._later.fail
        )

    def _answered(
        self, name: TopicPartition, results: dict[TopicPartition, ErrorCode], code: ErrorCode
    ) -> None:
        results[name] = code
        self._one_less()

    def _one_less(self) -> None:
        self._unanswered -= 1
        if not self._unanswered:
            self._later.set(_response(self._results))


def _names(marker: WriteTxnMarkersRequest.WritableTxnMarker) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in marker.topics for index in topic.partition_indexes]


def _response(results: Results) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WriteTxnMarkersResponse.WritableTxnMarkerResult(producer_id=producer_id, topics=_topics(codes))
            for producer_id, codes in results.items()
        ]
    )


def _topics(
    codes: dict[TopicPartition, ErrorCode],
) -> list[WriteTxnMarkersResponse.WritableTxnMarkerTopicResult]:
    topics: dict[str, WriteTxnMarkersResponse.WritableTxnMarkerTopicResult] = {}
    for name, code in codes.items():
        topic = topics.get(name.topic)
        if topic is None:
            topic = topics[name.topic] = WriteTxnMarkersResponse.WritableTxnMarkerTopicResult(
                name=name.topic, partitions=[]
            )
        topic.partitions.append(
            WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult(
                partition_index=name.partition, error_code=code
            )
        )
    return list(topics.values())
