"""DescribeProducers (api key 61), version 0.

Describes the active producers of partitions: last sequence number and open transaction of each (KIP-664).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ERRORS, ErrorCode, KafkaError
from barnabas.base.topic_names import fault_of
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import Steps
from barnabas.broker.replicas.replica_manager import ReplicaManager
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from barnabas.storage.log.log import Log
from barnabas.storage.log.names import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 61

Described = DescribeProducersResponse.PartitionResponse


def handle(
    broker: Broker, request: DescribeProducersRequest, context: RequestContext
) -> Steps[DescribeProducersResponse]:
    """A partition that is named more than once is described each time, as in Apache Kafka."""
    described: dict[TopicPartition, Described] = {}
    response = DescribeProducersResponse(throttle_time_ms=0, topics=[])
    for topic in request.topics:
        error = _topic_error(broker, topic.name, context)
        partitions = []
        for index in topic.partition_indexes:
            name = TopicPartition(topic.name, index)
            if name not in described:
                described[name] = (
                    _error(index, *error) if error else _describe(broker.replicas, topic.name, index)
                )
            partitions.append(described[name])
            yield None
        response.topics.append(
            DescribeProducersResponse.TopicResponse(name=topic.name, partitions=partitions)
        )
        yield None
    return response


def refuse(request: DescribeProducersRequest, code: ErrorCode, text: str) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        throttle_time_ms=0,
        topics=[
            DescribeProducersResponse.TopicResponse(
                name=topic.name,
                partitions=[_error(index, code, text) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ],
    )


def _topic_error(broker: Broker, topic: str, context: RequestContext) -> tuple[ErrorCode, str | None] | None:
    fault = fault_of(topic)
    if fault is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {fault}"
    if not broker.authorizer.allows(context, Operation.READ, Resource.TOPIC, topic):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED, _text(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if broker.image.topic_named(topic) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _text(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return None


def _text(code: ErrorCode) -> str:
    return ERRORS[code].text


def _error(index: int, code: ErrorCode, text: str | None) -> Described:
    return Described(partition_index=index, error_code=code, error_message=text, active_producers=[])


def _describe(replicas: ReplicaManager, topic: str, index: int) -> Described:
    try:
        log = replicas.find(topic, index).log
    except KafkaError as error:
        return _error(index, error.code, None)
    if log is None:
        return _error(index, ErrorCode.NOT_LEADER_OR_FOLLOWER, None)
    return Described(partition_index=index, error_code=0, active_producers=_producers(log))


def _producers(log: Log) -> list[DescribeProducersResponse.ProducerState]:
    return [
        DescribeProducersResponse.ProducerState(
            producer_id=entry.producer_id,
            producer_epoch=entry.epoch,
            last_sequence=entry.last_sequence,
            last_timestamp=entry.last_timestamp,
            coordinator_epoch=entry.coordinator_epoch,
            current_txn_start_offset=-1
            if entry.current_transaction_first_offset is None
            else entry.current_transaction_first_offset,
        )
        for entry in log.producers.entries.values()
    ]
