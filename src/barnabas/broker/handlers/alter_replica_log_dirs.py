"""AlterReplicaLogDirs (key 34, versions 1-2): move replicas to another directory of this broker (KIP-113).

* The answer says whether a move has begun; DescribeLogDirs shows how far it is.
* A replica that is not here yet will be made in that directory, and is told REPLICA_NOT_AVAILABLE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import Steps
from barnabas.broker.security.authorizer import Operation, check_cluster
from barnabas.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
)
from barnabas.storage.log.names import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 34


def handle(
    broker: Broker, request: AlterReplicaLogDirsRequest, context: RequestContext
) -> Steps[AlterReplicaLogDirsResponse]:
    check_cluster(broker.authorizer, context, Operation.ALTER)
    # A replica that is named twice goes where it was named last.
    wanted: dict[TopicPartition, str] = {}
    for one in request.dirs:
        for topic in one.topics:
            for index in topic.partitions:
                wanted[TopicPartition(topic.name, index)] = one.path
                yield None
    codes = {}
    for name, path in wanted.items():
        codes[name] = _move(broker, name, path)
        yield None
    return (yield from _response(codes))


def refuse(request: AlterReplicaLogDirsRequest, code: ErrorCode, message: str) -> AlterReplicaLogDirsResponse:
    """Every replica gets the error, by directory and topic."""
    results = [
        AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult(
            topic_name=topic.name, partitions=[_partition(index, code) for index in topic.partitions]
        )
        for one in request.dirs
        for topic in one.topics
    ]
    return AlterReplicaLogDirsResponse(throttle_time_ms=0, results=results)


def _move(broker: Broker, name: TopicPartition, path: str) -> ErrorCode:
    try:
        broker.replicas.moves.move(name, path)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def _response(codes: dict[TopicPartition, ErrorCode]) -> Steps[AlterReplicaLogDirsResponse]:
    topics: dict[str, AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult] = {}
    for name, code in codes.items():
        if name.topic not in topics:
            topics[name.topic] = AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult(
                topic_name=name.topic, partitions=[]
            )
        topics[name.topic].partitions.append(_partition(name.partition, code))
        yield None
    return AlterReplicaLogDirsResponse(throttle_time_ms=0, results=list(topics.values()))


def _partition(index: int, code: ErrorCode) -> AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult:
    return AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult(
        partition_index=index, error_code=code
    )
