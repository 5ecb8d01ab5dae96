"""AlterReplicaLogDirs (key 34, versions 1-2): moves replicas to another directory of this broker (KIP-113).

* The response says whether a move has started; DescribeLogDirs shows its progress.
* A replica that this broker does not host yet will be created in that directory; its result is
  REPLICA_NOT_AVAILABLE.
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
    # If a replica is named more than once, the last directory counts.
    destinations: dict[TopicPartition, str] = {}
    for log_dir in request.dirs:
        for topic in log_dir.topics:
            for index in topic.partitions:
                destinations[TopicPartition(topic.name, index)] = log_dir.path
                yield None
    codes = {}
    for name, path in destinations.items():
        codes[name] = _move(broker, name, path)
        yield None
    return (yield from _response(codes))


def refuse(request: AlterReplicaLogDirsRequest, code: ErrorCode, message: str) -> AlterReplicaLogDirsResponse:
    """Every replica gets the error, by directory and topic."""
    results = [
        AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult(
            topic_name=topic.name, partitions=[_partition(index, code) for index in topic.partitions]
        )
        for log_dir in request.dirs
        for topic in log_dir.topics
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
