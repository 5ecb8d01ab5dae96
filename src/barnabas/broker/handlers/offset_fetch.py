"""OffsetFetch (api key 9), versions 1 to 9 (10 is not stable).

Returns the committed offsets of groups.  From version 2 on null topics means all topics with offsets; from 7
on a client may require stable offsets, without pending transactional commits (KIP-447); from 8 on for many
groups at once (KIP-709); from 9 on members of consumer groups send their epoch (KIP-848); 10 identifies
topics by id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import ZERO_UUID
from barnabas.broker.coordinators.topic_results import client_error_code
from barnabas.broker.network.controller_requests import split_topics
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import Steps, awaited, chunks
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.coordinator.decision import Context, Decision
from barnabas.coordinator.group.machine import GroupMachine
from barnabas.coordinator.group.offsets.fetch import fetch, nothing
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 9
# Top-level errors, and null for all topics.
GROUP_ERRORS_SINCE = 2
BATCHES_SINCE = 8
TOPIC_IDS_SINCE = 10

Group = OffsetFetchResponse.Group
Topics = OffsetFetchResponse.Topics


def handle(
    broker: Broker, request: OffsetFetchRequest, request_context: RequestContext
) -> Steps[OffsetFetchResponse]:
    version = request_context.api_version
    groups = []
    for group in _groups(request, version):
        try:
            groups.append((yield from _fetch_group(broker, request_context, group, request.require_stable)))
        except KafkaError as error:
            groups.append(_group_error(group, _client_error_code(error), version))
        yield None
    if not groups:
        return OffsetFetchResponse(throttle_time_ms=0, groups=[])
    return (yield from _response(groups, version))


def refuse(request: OffsetFetchRequest, code: ErrorCode, text: str) -> OffsetFetchResponse:
    """Sets the error in the fields of every version; each version encodes its own."""
    groups = [Group(group_id=group.group_id, topics=[], error_code=code) for group in request.groups]
    topics = [_refused(_with_group(topic), code) for topic in request.topics or ()]
    return OffsetFetchResponse(
        throttle_time_ms=0,
        error_code=code,
        topics=[_single_group_topic(topic) for topic in topics],
        groups=groups,
    )


def _groups(request: OffsetFetchRequest, version: int) -> list[OffsetFetchRequest.Group]:
    if version >= BATCHES_SINCE:
        return request.groups
    topics = None if request.topics is None else [_with_group(topic) for topic in request.topics]
    return [OffsetFetchRequest.Group(group_id=request.group_id, topics=topics)]


def _fetch_group(
    broker: Broker, request_context: RequestContext, group: OffsetFetchRequest.Group, require_stable: bool
) -> Steps[Group]:
    if not broker.authorizer.allows(request_context, Operation.DESCRIBE, Resource.GROUP, group.group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    by_id = request_context.api_version >= TOPIC_IDS_SINCE
    if group.topics is None:
        fetched = yield from awaited(_fetch(broker, group, None, require_stable))
        fetched.topics = [
            topic for topic in fetched.topics if _is_shown(broker, request_context, topic, by_id=by_id)
        ]
        return fetched
    refused: list[Topics] = []
    visible = []
    for topic in group.topics:
        if _may_see(broker, request_context, topic, refused, by_id=by_id):
            visible.append(topic)
        yield None
    # The coordinator looks up a few partitions at a time; a topic with many is split.
    whole: Group | None = None
    for topics, continues in split_topics(visible, "partition_indexes"):
        part = yield from awaited(_fetch(broker, group, topics, require_stable))
        yield None
        if whole is None:
            whole = part
            continue
        if continues:
            whole.topics[-1].partitions += part.topics[0].partitions
        whole.topics += part.topics[1:] if continues else part.topics
    assert whole is not None, "a group without topics is looked up too"
    whole.topics += refused
    return whole


def _fetch(
    broker: Broker,
    group: OffsetFetchRequest.Group,
    topics: list[OffsetFetchRequest.Topics] | None,
    require_stable: bool,
) -> Promise[Group]:
    requested = OffsetFetchRequest.Group(
        group_id=group.group_id, member_id=group.member_id, member_epoch=group.member_epoch, topics=topics
    )

    def decide(machine: GroupMachine, context: Context) -> Decision[Group]:
        return fetch(machine.offsets, requested, require_stable=require_stable)

    return broker.groups.submit(group.group_id, decide)


def _may_see(
    broker: Broker,
    request_context: RequestContext,
    topic: OffsetFetchRequest.Topics,
    refused: list[Topics],
    *,
    by_id: bool,
) -> bool:
    """Whether a topic exists and may be described; otherwise adds the error to `refused`."""
    if by_id:
        known = None if topic.topic_id == ZERO_UUID else broker.image.topics.get(topic.topic_id)
        if known is None:
            refused.append(_refused(topic, ErrorCode.UNKNOWN_TOPIC_ID))
            return False
        topic.name = known.name
    if broker.authorizer.allows(request_context, Operation.DESCRIBE, Resource.TOPIC, topic.name):
        return True
    refused.append(_refused(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    return False


def _is_shown(broker: Broker, request_context: RequestContext, topic: Topics, *, by_id: bool) -> bool:
    """Whether a topic with offsets may be described and, if the response has ids, has an id."""
    if by_id:
        topic.topic_id = broker.image.topic_ids.get(topic.name, ZERO_UUID)
        if topic.topic_id == ZERO_UUID:
            return False
    return broker.authorizer.allows(
        request_context, Operation.DESCRIBE, Resource.TOPIC, topic.name, quiet=True
    )


def _client_error_code(error: KafkaError) -> ErrorCode:
    """Consumers before 3.9 fail on COORDINATOR_NOT_AVAILABLE; NOT_COORDINATOR makes them retry."""
    code = client_error_code(error)
    return ErrorCode.NOT_COORDINATOR if code is ErrorCode.COORDINATOR_NOT_AVAILABLE else code


def _group_error(group: OffsetFetchRequest.Group, code: ErrorCode, version: int) -> Group:
    if version >= GROUP_ERRORS_SINCE:
        return Group(group_id=group.group_id, topics=[], error_code=code)
    return Group(group_id=group.group_id, topics=[_refused(topic, code) for topic in group.topics or ()])


def _refused(topic: OffsetFetchRequest.Topics, code: ErrorCode) -> Topics:
    partitions = [nothing(index, code) for index in topic.partition_indexes]
    return Topics(name=topic.name, topic_id=topic.topic_id, partitions=partitions)


# Before version 8 there is one group, whose topics are fields of the request and the response themselves.


def _with_group(topic: OffsetFetchRequest.Topic) -> OffsetFetchRequest.Topics:
    return OffsetFetchRequest.Topics(name=topic.name, partition_indexes=topic.partition_indexes)


def _single_group_partition(partition: OffsetFetchResponse.Partitions) -> OffsetFetchResponse.Partition:
    return OffsetFetchResponse.Partition(
        partition_index=partition.partition_index,
        committed_offset=partition.committed_offset,
        committed_leader_epoch=partition.committed_leader_epoch,
        metadata=partition.metadata,
        error_code=partition.error_code,
    )


def _single_group_topic(topic: Topics) -> OffsetFetchResponse.Topic:
    return OffsetFetchResponse.Topic(
        name=topic.name, partitions=[_single_group_partition(partition) for partition in topic.partitions]
    )


def _response(groups: list[Group], version: int) -> Steps[OffsetFetchResponse]:
    if version >= BATCHES_SINCE:
        return OffsetFetchResponse(throttle_time_ms=0, groups=groups)
    (group,) = groups
    topics = []
    for topic in group.topics:
        partitions: list[OffsetFetchResponse.Partition] = []
        for chunk in chunks(topic.partitions):
            # A partition that is requested more than once has one result.
            converted = {id(partition): partition for partition in chunk}
            results = {key: _single_group_partition(partition) for key, partition in converted.items()}
            partitions += [results[id(partition)] for partition in chunk]
            yield None
        topics.append(OffsetFetchResponse.Topic(name=topic.name, partitions=partitions))
        yield None
    return OffsetFetchResponse(throttle_time_ms=0, topics=topics, error_code=group.error_code)
