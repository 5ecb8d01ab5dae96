"""OffsetForLeaderEpoch (api key 23), versions 2 to 4.

Returns the end offset of a leader epoch, so that followers and consumers detect where their log diverges
(KIP-101, KIP-320).  For an unknown epoch the response has the largest epoch below it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import Steps, each
from barnabas.broker.replicas.replica_manager import ReplicaManager
from barnabas.broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from barnabas.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 23

Requested = OffsetForLeaderEpochRequest.OffsetForLeaderPartition
Result = OffsetForLeaderEpochResponse.EpochEndOffset


def handle(
    broker: Broker, request: OffsetForLeaderEpochRequest, context: RequestContext
) -> Steps[OffsetForLeaderEpochResponse]:
    allows = broker.authorizer.allows
    is_broker = allows(context, Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME, quiet=True)
    response = OffsetForLeaderEpochResponse(throttle_time_ms=0, topics=[])
    for topic in request.topics:
        if is_broker or allows(context, Operation.DESCRIBE, Resource.TOPIC, topic.topic):
            result_of: Callable[[Requested], Result] = partial(_result, broker.replicas, topic.topic)
        else:
            result_of = _not_authorized
        partitions = yield from each(topic.partitions, result_of)
        response.topics.append(
            OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions)
        )
        yield None
    return response


def refuse(request: OffsetForLeaderEpochRequest, code: ErrorCode, text: str) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        throttle_time_ms=0,
        topics=[
            OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    Result(error_code=code, partition=partition.partition) for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _not_authorized(partition: Requested) -> Result:
    return Result(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, partition=partition.partition)


def _result(replicas: ReplicaManager, topic: str, partition: Requested) -> Result:
    try:
        hosted = replicas.find(topic, partition.partition)
        log = replicas.log_of(hosted, partition.current_leader_epoch, leader_only=True)
    except KafkaError as error:
        return Result(error_code=error.code, partition=partition.partition)
    epoch_end = log.end_offset_for_epoch(partition.leader_epoch)
    return Result(
        error_code=0,
        partition=partition.partition,
        leader_epoch=epoch_end.epoch,
        end_offset=epoch_end.end_offset,
    )
