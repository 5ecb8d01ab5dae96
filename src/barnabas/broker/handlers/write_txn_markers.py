"""WriteTxnMarkers (api key 27), version 1.

Writes transaction markers to partitions that this broker leads, for coordinators on other brokers and for
administrators who abort a hanging transaction (KIP-664).  A marker in `__consumer_offsets` commits or drops
the transaction's offsets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import Steps, awaited, finished
from barnabas.broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from barnabas.coordinator.decision import Marker
from barnabas.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from barnabas.runtime.loop.promise import Promise
from barnabas.storage.log.names import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 27

# The results by producer id and partition.
Results = dict[int, dict[TopicPartition, ErrorCode]]


def handle(
    broker: Broker, request: WriteTxnMarkersRequest, context: RequestContext
) -> Steps[WriteTxnMarkersResponse]:
    allows = broker.authorizer.allows
    if not allows(context, Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME, quiet=True) and not allows(
        context, Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME
    ):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    results: Results = {}
    pending: list[tuple[dict[TopicPartition, ErrorCode], TopicPartition, Promise[ErrorCode]]] = []
    # The last marker of each producer and partition: if the same one follows, it would end nothing.
    last: dict[tuple[int, TopicPartition], Marker] = {}
    for requested in request.markers:
        marker = Marker(
            requested.producer_id,
            requested.producer_epoch,
            requested.coordinator_epoch,
            requested.transaction_result,
        )
        codes = results.setdefault(marker.producer_id, {})
        for name in _names(requested):
            yield None
            hosted = broker.replicas.partitions.get(name)
            if hosted is None or hosted.is_offline:
                codes[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif last.get((marker.producer_id, name)) != marker:
                last[marker.producer_id, name] = marker
                pending.append((codes, name, broker.transactions.markers.write(name, marker)))
    for codes, name, written in pending:
        codes[name] = yield from awaited(written)
    return (yield from _response(results))


def refuse(request: WriteTxnMarkersRequest, code: ErrorCode, text: str) -> WriteTxnMarkersResponse:
    results: Results = {}
    for marker in request.markers:
        results.setdefault(marker.producer_id, {}).update(dict.fromkeys(_names(marker), code))
    return finished(_response(results))


def _names(marker: WriteTxnMarkersRequest.WritableTxnMarker) -> Iterator[TopicPartition]:
    return (TopicPartition(topic.name, index) for topic in marker.topics for index in topic.partition_indexes)


def _response(results: Results) -> Steps[WriteTxnMarkersResponse]:
    markers = []
    for producer_id, codes in results.items():
        topics = yield from _topics(codes)
        markers.append(
            WriteTxnMarkersResponse.WritableTxnMarkerResult(producer_id=producer_id, topics=topics)
        )
        yield None
    return WriteTxnMarkersResponse(markers=markers)


def _topics(
    codes: dict[TopicPartition, ErrorCode],
) -> Steps[list[WriteTxnMarkersResponse.WritableTxnMarkerTopicResult]]:
    topics: dict[str, WriteTxnMarkersResponse.WritableTxnMarkerTopicResult] = {}
    for name, code in codes.items():
        yield None
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
