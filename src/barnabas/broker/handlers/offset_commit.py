"""OffsetCommit (api key 8), versions 2 to 9 (10 is not stable).

Commits offsets for a member of a group, or for a client that assigns partitions itself.  Versions 2 to 4 may
have their own retention time (removed by KIP-211); from 9 on members of consumer groups send their epoch
(KIP-848); 10 identifies topics by id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import ZERO_UUID
from barnabas.broker.coordinators.topic_results import TopicResults, check_count, client_error_code
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import Steps, awaited
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.coordinator.decision import Context, Decision
from barnabas.coordinator.group.machine import GroupMachine
from barnabas.coordinator.group.offsets.commit import commit
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 8
TOPIC_IDS_SINCE = 10

Topic = OffsetCommitResponse.Topic


def handle(
    broker: Broker, request: OffsetCommitRequest, request_context: RequestContext
) -> Steps[OffsetCommitResponse]:
    if not broker.authorizer.allows(request_context, Operation.READ, Resource.GROUP, request.group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    version = request_context.api_version
    by_id = version >= TOPIC_IDS_SINCE
    results = TopicResults(_results, _topic_id if by_id else _name)
    named = _resolve_ids(broker, request.topics, results) if by_id else request.topics
    request.topics = yield from results.select(broker, request_context, named)
    if not request.topics:
        return OffsetCommitResponse(throttle_time_ms=0, topics=results.refused())

    def decide(machine: GroupMachine, context: Context) -> Decision[OffsetCommitResponse]:
        return commit(machine.offsets, request, version, context)

    try:
        check_count(request.topics)
        response = yield from awaited(broker.groups.submit(request.group_id, decide))
    except KafkaError as error:
        topics = results.failed(request.topics, client_error_code(error))
        return OffsetCommitResponse(throttle_time_ms=0, topics=topics)
    response.topics = results.merged(response.topics)
    return response


def refuse(request: OffsetCommitRequest, code: ErrorCode, text: str) -> OffsetCommitResponse:
    topics = [
        _results(topic, [partition.partition_index for partition in topic.partitions], code)
        for topic in request.topics
    ]
    return OffsetCommitResponse(throttle_time_ms=0, topics=topics)


def _resolve_ids(
    broker: Broker,
    topics: list[OffsetCommitRequest.Topic],
    results: TopicResults[OffsetCommitRequest.Topic, Topic],
) -> list[OffsetCommitRequest.Topic]:
    """Returns the topics with known ids, and sets their names."""
    known_topics = []
    for topic in topics:
        topic_image = None if topic.topic_id == ZERO_UUID else broker.image.topics.get(topic.topic_id)
        if topic_image is None:
            results.refuse(topic, ErrorCode.UNKNOWN_TOPIC_ID)
        else:
            topic.name = topic_image.name
            known_topics.append(topic)
    return known_topics


def _results(topic: OffsetCommitRequest.Topic, indexes: list[int], code: ErrorCode) -> Topic:
    partitions = [OffsetCommitResponse.Partition(partition_index=index, error_code=code) for index in indexes]
    return Topic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)


def _name(topic: OffsetCommitRequest.Topic | Topic) -> str:
    return topic.name


def _topic_id(topic: OffsetCommitRequest.Topic | Topic) -> bytes:
    return topic.topic_id
