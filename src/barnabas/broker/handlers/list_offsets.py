"""ListOffsets (api key 2), versions 1 to 10.

Offsets by time: the first record with that time or a later one; and the special times latest (-1), earliest
(-2), of the largest time (-3, KIP-734, version 7), earliest on this broker's disk (-4, version 8) and latest
in tiered storage (-5, version 9), both KIP-405.  Consumers hear of nothing that is not committed, and of no
"latest" from a leader that does not know yet what is (KIP-207); leader epochs are checked (KIP-320, version
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
# From which version on a special time is known.
_FIRST_VERSIONS = {
    LATEST_TIMESTAMP: 1,
    EARLIEST_TIMESTAMP: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
}

Asked = ListOffsetsRequest.Partition
Answered = ListOffsetsResponse.PartitionResponse


def handle(
    broker: Broker, request: ListOffsetsRequest, context: RequestContext
) -> Steps[ListOffsetsResponse]:
    if request.isolation_level not in ISOLATION_LEVELS:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"there is no isolation {request.isolation_level}")
    counts: Counter[tuple[str, int]] = Counter()
    for topic in request.topics:
        for one in topic.partitions:
            counts[topic.name, one.partition_index] += 1
            yield None
    topics: dict[str, dict[int, Answered]] = {}
    for topic in request.topics:
        answers = topics.setdefault(topic.name, {})
        is_allowed = broker.authorizer.allows(context, Operation.DESCRIBE, Resource.TOPIC, topic.name)
        for one in topic.partitions:
            if not is_allowed:
                answer = _error(one, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            elif counts[topic.name, one.partition_index] > 1:
                answer = _error(one, ErrorCode.INVALID_REQUEST)
            else:
                answer = _answer(broker.replicas, request, topic.name, one, context.api_version)
            answers[one.partition_index] = answer
            yield None
    return ListOffsetsResponse(
        topics=[
            ListOffsetsResponse.TopicResponse(name=name, partitions=list(answers.values()))
            for name, answers in topics.items()
        ]
    )


def refuse(request: ListOffsetsRequest, code: ErrorCode, text: str) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsResponse.TopicResponse(
                name=topic.name, partitions=[_error(one, code) for one in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _error(one: Asked, code: ErrorCode) -> Answered:
    return Answered(partition_index=one.partition_index, error_code=code)


def _answer(
    replicas: ReplicaManager, request: ListOffsetsRequest, topic: str, one: Asked, version: int
) -> Answered:
    if one.timestamp < 0 and version < _FIRST_VERSIONS.get(one.timestamp, version + 1):
        return _error(one, ErrorCode.UNSUPPORTED_VERSION)
    try:
        found = _find(replicas, request, topic, one)
    except KafkaError as error:
        if error.code is ErrorCode.OFFSET_NOT_AVAILABLE and version < FIRST_VERSION_WITH_NOT_AVAILABLE:
            return _error(one, ErrorCode.LEADER_NOT_AVAILABLE)
        return _error(one, error.code)
    answer = _error(one, ErrorCode.NONE)
    if found is not None:
        answer.timestamp = found.timestamp
        answer.offset = found.offset
        if found.leader_epoch is not None and version >= FIRST_VERSION_WITH_EPOCH:
            answer.leader_epoch = found.leader_epoch
    return answer


def _find(
    replicas: ReplicaManager, request: ListOffsetsRequest, topic: str, one: Asked
) -> TimestampAndOffset | None:
    hosted = replicas.find(topic, one.partition_index)
    leader_only = request.replica_id != DEBUGGING_CONSUMER
    log = replicas.log_of(hosted, one.current_leader_epoch, leader_only=leader_only)
    is_consumer = request.replica_id == CONSUMER
    if not is_consumer:
        end = log.end_offset
    else:
        end = log.last_stable_offset if request.isolation_level == READ_COMMITTED else log.high_watermark
    # A leader whose high watermark lies before its own first offset does not know what was committed before.
    start = hosted.leader_epoch_start
    knows_end = not is_consumer or start is None or start <= log.high_watermark
    if one.timestamp == LATEST_TIMESTAMP:
        if not knows_end:
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
        return TimestampAndOffset(-1, end, hosted.leader_epoch)
    found = _search(replicas, log, one.timestamp)
    if one.timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        return found
    if found is not None and found.offset < end:
        return found
    if not knows_end:
        raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
    return None


def _search(replicas: ReplicaManager, log: Log, timestamp: int) -> TimestampAndOffset | None:
    try:
        return log.offset_for_time(timestamp)
    except StorageFailure as failure:
        replicas.storage.fail(log, failure)
        raise
