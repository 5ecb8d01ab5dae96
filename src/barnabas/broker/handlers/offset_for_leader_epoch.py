"""OffsetForLeaderEpoch (api key 23), versions 2 to 4.

Where a leader epoch ended: followers and consumers find out where their log parts from ours (KIP-101,
KIP-320).  An epoch that we do not have is answered with the largest one below it.
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

Asked = OffsetForLeaderEpochRequest.OffsetForLeaderPartition
Answered = OffsetForLeaderEpochResponse.EpochEndOffset


def handle(
    broker: Broker, request: OffsetForLeaderEpochRequest, context: RequestContext
) -> Steps[OffsetForLeaderEpochResponse]:
    allows = broker.authorizer.allows
    is_broker = allows(context, Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME, quiet=True)
    response = OffsetForLeaderEpochResponse(throttle_time_ms=0, topics=[])
    for topic in request.topics:
        if is_broker or allows(context, Operation.DESCRIBE, Resource.TOPIC, topic.topic):
            answer: Callable[[Asked], Answered] = partial(_answer, broker.replicas, topic.topic)
        else:
            answer = _forbidden
        partitions = yield from each(topic.partitions, answer)
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
                partitions=[Answered(error_code=code, partition=one.partition) for one in topic.partitions],
            )
            for topic in request.topics
        ],
    )


def _forbidden(one: Asked) -> Answered:
    return Answered(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, partition=one.partition)


def _answer(replicas: ReplicaManager, topic: str, one: Asked) -> Answered:
    try:
        hosted = replicas.find(topic, one.partition)
        log = replicas.log_of(hosted, one.current_leader_epoch, leader_only=True)
    except KafkaError as error:
        return Answered(error_code=error.code, partition=one.partition)
    end = log.end_offset_for_epoch(one.leader_epoch)
    return Answered(error_code=0, partition=one.partition, leader_epoch=end.epoch, end_offset=end.end_offset)
