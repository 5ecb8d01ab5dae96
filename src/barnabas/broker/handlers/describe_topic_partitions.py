"""DescribeTopicPartitions (key 75, version 0): topics page by page, with eligible leaders (KIP-966).

* Topics are sorted by name; no topics means all of them.
* A page has at most `max.request.partition.size.limit` partitions, or fewer if the client requests so; the
  cursor is the start of the next page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import ZERO_UUID
from barnabas.base.topic_names import is_internal, is_valid
from barnabas.broker.metadata import cluster_view
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import Steps, each
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.metadata.image import Image
from barnabas.metadata.topics import Topic
from barnabas.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 75
_LIMIT = "max.request.partition.size.limit"


def handle(
    broker: Broker, request: DescribeTopicPartitionsRequest, context: RequestContext
) -> Steps[DescribeTopicPartitionsResponse]:
    image, allows = broker.image, broker.authorizer.allows
    wants_all = not request.topics
    names = yield from _names(image, request)
    allowed: list[str] = []
    forbidden: list[str] = []
    for name in names:
        is_allowed = allows(context, Operation.DESCRIBE, Resource.TOPIC, name, quiet=wants_all)
        (allowed if is_allowed else forbidden).append(name)
        yield None
    limit = max(1, min(broker.settings[_LIMIT], request.response_partition_limit))
    response = yield from _page(image, request, allowed, limit, context, skip_missing=wants_all)
    for topic in response.topics:
        topic.topic_authorized_operations = broker.authorizer.authorized_operations(
            context, Resource.TOPIC, topic.name or ""
        )
        yield None
    if not wants_all:
        response.topics += yield from each(
            forbidden, lambda name: _refused(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        )
    return response


def refuse(
    request: DescribeTopicPartitionsRequest, code: ErrorCode, message: str
) -> DescribeTopicPartitionsResponse:
    """Every requested topic gets the error."""
    return DescribeTopicPartitionsResponse(
        throttle_time_ms=0,
        topics=[_refused(topic.name, code, internal=False) for topic in request.topics],
    )


def _names(image: Image, request: DescribeTopicPartitionsRequest) -> Steps[list[str]]:
    """Returns the sorted topic names from the cursor on."""
    requested = set((yield from each(request.topics, _name))) or set(image.topic_ids)
    cursor = request.cursor
    if cursor is None:
        return sorted(requested)
    if request.topics and cursor.topic_name not in requested:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"DescribeTopicPartitionsRequest topic list should contain the cursor topic: {cursor.topic_name}",
        )
    if cursor.partition_index < 0:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"DescribeTopicPartitionsRequest cursor partition must be valid: {cursor.partition_index}",
        )
    return sorted(name for name in requested if name >= cursor.topic_name)


def _name(topic: DescribeTopicPartitionsRequest.TopicRequest) -> str:
    return topic.name


def _page(
    image: Image,
    request: DescribeTopicPartitionsRequest,
    names: list[str],
    remaining: int,
    context: RequestContext,
    *,
    skip_missing: bool,
) -> Steps[DescribeTopicPartitionsResponse]:
    response = DescribeTopicPartitionsResponse(throttle_time_ms=0, topics=[])
    cursor = request.cursor
    for name in names:
        yield None
        topic = image.topic_named(name)
        start = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        if remaining == 0:
            response.next_cursor = _cursor(name, 0)
            break
        if topic is None:
            if not skip_missing:
                response.topics.append(_refused(name, _missing_error(name)))
            continue
        end = min(len(topic.partitions), start + remaining)
        response.topics.append(_described(image, topic, range(start, end), context))
        if end < len(topic.partitions):
            response.next_cursor = _cursor(name, end)
            break
        remaining -= max(0, end - start)
    return response


def _cursor(name: str, partition: int) -> DescribeTopicPartitionsResponse.Cursor:
    return DescribeTopicPartitionsResponse.Cursor(topic_name=name, partition_index=partition)


def _missing_error(name: str) -> ErrorCode:
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_valid(name) else ErrorCode.INVALID_TOPIC_EXCEPTION


def _refused(
    name: str, code: ErrorCode, *, internal: bool | None = None
) -> DescribeTopicPartitionsResponse.Topic:
    return DescribeTopicPartitionsResponse.Topic(
        error_code=code,
        name=name,
        topic_id=ZERO_UUID,
        is_internal=is_internal(name) if internal is None else internal,
        partitions=[],
    )


def _described(
    image: Image, topic: Topic, numbers: range, context: RequestContext
) -> DescribeTopicPartitionsResponse.Topic:
    partitions = []
    for number in numbers:
        partition = topic.partitions[number]
        is_reachable = cluster_view.leader_endpoint(image, partition.leader, context.listener) is not None
        partitions.append(
            DescribeTopicPartitionsResponse.Partition(
                error_code=ErrorCode.NONE,
                partition_index=number,
                leader_id=partition.leader if is_reachable else -1,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.isr),
                eligible_leader_replicas=list(partition.elr),
                last_known_elr=list(partition.last_known_elr),
                offline_replicas=cluster_view.offline_replicas(image, partition, context.listener),
            )
        )
    return DescribeTopicPartitionsResponse.Topic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.id,
        is_internal=is_internal(topic.name),
        partitions=partitions,
    )
