"""ListOffsets (api key 2), versions 1 to 10.

Looks up offsets by timestamp: the first record with that timestamp or a later one.  Special timestamps:
latest (-1), earliest (-2), max timestamp (-3, KIP-734, version 7), earliest local (-4, version 8) and latest
in tiered storage (-5, version 9), both KIP-405.  Consumers see committed offsets only, and get no "latest"
from a leader that does not know its high watermark yet (KIP-207); leader epochs are checked (KIP-320, version
4).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import Steps
from barnabas.broker.replicas.replica_manager import ReplicaManager
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.storage.failure import StorageFailure
from barnabas.storage.log.log import Log
from barnabas.storage.log.log_reader import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    TimestampAndOffset,
)

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 2
CONSUMER = -1
DEBUGGING_CONSUMER = -2
READ_UNCOMMITTED = 0
READ_COMMITTED = 1
ISOLATION_LEVELS = (READ_UNCOMMITTED, READ_COMMITTED)
FIRST_VERSION_WITH_EPOCH = 4
FIRST_VERSION_WITH_NOT_AVAILABLE = 5
# The first version that supports a special timestamp.
_FIRST_VERSIONS = {
    LATEST_TIMESTAMP: 1,
    EARLIEST_TIMESTAMP: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
}

Requested = ListOffsetsRequest.Partition
Result = ListOffsetsResponse.PartitionResponse


def handle(
    broker: Broker, request: ListOffsetsRequest, context: RequestContext
) -> Steps[ListOffsetsResponse]:
    if request.isolation_level not in ISOLATION_LEVELS:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"unknown isolation level {request.isolation_level}")
    counts: Counter[tuple[str, int]] = Counter()
    for topic in request.topics:
        for partition in topic.partitions:
            counts[topic.name, partition.partition_index] += 1
            yield None
    topics: dict[str, dict[int, Result]] = {}
    for topic in request.topics:
        results = topics.setdefault(topic.name, {})
        is_allowed = broker.authorizer.allows(context, Operation.DESCRIBE, Resource.TOPIC, topic.name)
        for partition in topic.partitions:
            if not is_allowed:
                result = _error(partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            elif counts[topic.name, partition.partition_index] > 1:
                result = _error(partition, ErrorCode.INVALID_REQUEST)
            else:
                result = _look_up(broker.replicas, request, topic.name, partition, context.api_version)
            results[partition.partition_index] = result
            yield None
    return ListOffsetsResponse(
        topics=[
            ListOffsetsResponse.TopicResponse(name=name, partitions=list(results.values()))
            for name, results in topics.items()
        ]
    )


def refuse(request: ListOffsetsRequest, code: ErrorCode, text: str) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsResponse.TopicResponse(
                name=topic.name, partitions=[_error(partition, code) for partition in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _error(partition: Requested, code: ErrorCode) -> Result:
    return Result(partition_index=partition.partition_index, error_code=code)


def _look_up(
    replicas: ReplicaManager, request: ListOffsetsRequest, topic: str, partition: Requested, version: int
) -> Result:
    if partition.timestamp < 0 and version < _FIRST_VERSIONS.get(partition.timestamp, version + 1):
        return _error(partition, ErrorCode.UNSUPPORTED_VERSION)
    try:
        position = _find(replicas, request, topic, partition)
    except KafkaError as error:
        if error.code is ErrorCode.OFFSET_NOT_AVAILABLE and version < FIRST_VERSION_WITH_NOT_AVAILABLE:
            return _error(partition, ErrorCode.LEADER_NOT_AVAILABLE)
        return _error(partition, error.code)
    result = _error(partition, ErrorCode.NONE)
    if position is not None:
        result.timestamp = position.timestamp
        result.offset = position.offset
        if position.leader_epoch is not None and version >= FIRST_VERSION_WITH_EPOCH:
            result.leader_epoch = position.leader_epoch
    return result


def _find(
    replicas: ReplicaManager, request: ListOffsetsRequest, topic: str, partition: Requested
) -> TimestampAndOffset | None:
    hosted = replicas.find(topic, partition.partition_index)
    leader_only = request.replica_id != DEBUGGING_CONSUMER
    log = replicas.log_of(hosted, partition.current_leader_epoch, leader_only=leader_only)
    is_consumer = request.replica_id == CONSUMER
    if not is_consumer:
        end = log.end_offset
    else:
        end = log.last_stable_offset if request.isolation_level == READ_COMMITTED else log.high_watermark
    # A new leader whose high watermark is below its first offset does not know the committed offsets yet
    # (KIP-207).
    start = hosted.leader_epoch_start
    knows_end = not is_consumer or start is None or start <= log.high_watermark
    if partition.timestamp == LATEST_TIMESTAMP:
        if not knows_end:
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
        return TimestampAndOffset(-1, end, hosted.leader_epoch)
    position = _search(replicas, log, partition.timestamp)
    if partition.timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        return position
    if position is not None and position.offset < end:
        return position
    if not knows_end:
        raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
    return None


def _search(replicas: ReplicaManager, log: Log, timestamp: int) -> TimestampAndOffset | None:
    try:
        return log.offset_for_time(timestamp)
    except StorageFailure as failure:
        replicas.storage.fail(log, failure)
        raise
