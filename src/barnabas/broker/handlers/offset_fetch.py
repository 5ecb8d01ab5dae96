"""OffsetFetch (api key 9), versions 1 to 9 (10 is not stable).

How far groups have read.  From version 2 on null asks for all topics that have offsets; from 7 on a client
may refuse offsets that an open transaction is about to change (KIP-447); from 8 on many groups are asked
about at once (KIP-709); from 9 on members of consumer groups give their epoch (KIP-848); 10 names topics by
their ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import ZERO_UUID
from barnabas.broker.coordinators.offset_topics import told
from barnabas.broker.network.controller_requests import split_topics
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import Steps, awaited, each
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.coordinator.decision import Context, Decision
from barnabas.coordinator.group.machine import GroupMachine
from barnabas.coordinator.group.offsets.fetch import fetch, nothing
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 9
# Errors of the whole request, and null for all topics.
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
            groups.append((yield from _ask(broker, request_context, group, request.require_stable)))
        except KafkaError as error:
            groups.append(_group_error(group, _told(error), version))
        yield None
    if not groups:
        return OffsetFetchResponse(throttle_time_ms=0, groups=[])
    return (yield from _response(groups, version))


def refuse(request: OffsetFetchRequest, code: ErrorCode, text: str) -> OffsetFetchResponse:
    """For every version: each writes the error where it has a place for it."""
    groups = [Group(group_id=one.group_id, topics=[], error_code=code) for one in request.groups]
    topics = [_refused(_newer(one), code) for one in request.topics or ()]
    return OffsetFetchResponse(
        throttle_time_ms=0, error_code=code, topics=[_older_topic(one) for one in topics], groups=groups
    )


def _groups(request: OffsetFetchRequest, version: int) -> list[OffsetFetchRequest.Group]:
    if version >= BATCHES_SINCE:
        return request.groups
    topics = None if request.topics is None else [_newer(one) for one in request.topics]
    return [OffsetFetchRequest.Group(group_id=request.group_id, topics=topics)]


def _ask(
    broker: Broker, request_context: RequestContext, group: OffsetFetchRequest.Group, require_stable: bool
) -> Steps[Group]:
    if not broker.authorizer.allows(request_context, Operation.DESCRIBE, Resource.GROUP, group.group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    by_id = request_context.api_version >= TOPIC_IDS_SINCE
    if group.topics is None:
        found = yield from awaited(_fetch(broker, group, None, require_stable))
        found.topics = [one for one in found.topics if _is_shown(broker, request_context, one, by_id=by_id)]
        return found
    refused: list[Topics] = []
    kept = []
    for topic in group.topics:
        if _may_see(broker, request_context, topic, refused, by_id=by_id):
            kept.append(topic)
        yield None
    # The coordinator looks at a few partitions at a time; a topic with many is asked for in parts.
    whole: Group | None = None
    for some, continues in split_topics(kept, "partition_indexes"):
        part = yield from awaited(_fetch(broker, group, some, require_stable))
        yield None
        if whole is None:
            whole = part
            continue
        if continues:
            whole.topics[-1].partitions += part.topics[0].partitions
        whole.topics += part.topics[1:] if continues else part.topics
    assert whole is not None, "a group is asked for even without topics"
    whole.topics += refused
    return whole


def _fetch(
    broker: Broker,
    group: OffsetFetchRequest.Group,
    topics: list[OffsetFetchRequest.Topics] | None,
    require_stable: bool,
) -> Promise[Group]:
    asked = OffsetFetchRequest.Group(
        group_id=group.group_id, member_id=group.member_id, member_epoch=group.member_epoch, topics=topics
    )

    def decide(machine: GroupMachine, context: Context) -> Decision[Group]:
        return fetch(machine.offsets, asked, require_stable=require_stable)

    return broker.groups.ask(group.group_id, decide)


def _may_see(
    broker: Broker,
    request_context: RequestContext,
    topic: OffsetFetchRequest.Topics,
    refused: list[Topics],
    *,
    by_id: bool,
) -> bool:
    """Whether a topic is known and may be described; what is refused comes behind what is shown."""
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
    """Of all topics with offsets: those that may be described and, where ids are told, that have one."""
    if by_id:
        topic.topic_id = broker.image.topic_ids.get(topic.name, ZERO_UUID)
        if topic.topic_id == ZERO_UUID:
            return False
    return broker.authorizer.allows(
        request_context, Operation.DESCRIBE, Resource.TOPIC, topic.name, quiet=True
    )


def _told(error: KafkaError) -> ErrorCode:
    """Consumers before 3.9 give up on COORDINATOR_NOT_AVAILABLE; NOT_COORDINATOR makes them look again."""
    code = told(error)
    return ErrorCode.NOT_COORDINATOR if code is ErrorCode.COORDINATOR_NOT_AVAILABLE else code


def _group_error(group: OffsetFetchRequest.Group, code: ErrorCode, version: int) -> Group:
    if version >= GROUP_ERRORS_SINCE:
        return Group(group_id=group.group_id, topics=[], error_code=code)
    return Group(group_id=group.group_id, topics=[_refused(one, code) for one in group.topics or ()])


def _refused(topic: OffsetFetchRequest.Topics, code: ErrorCode) -> Topics:
    partitions = [nothing(one, code) for one in topic.partition_indexes]
    return Topics(name=topic.name, topic_id=topic.topic_id, partitions=partitions)


# Before version 8 there is one group, and its topics stand in the request and the response themselves.


def _newer(topic: OffsetFetchRequest.Topic) -> OffsetFetchRequest.Topics:
    return OffsetFetchRequest.Topics(name=topic.name, partition_indexes=topic.partition_indexes)


def _older(partition: OffsetFetchResponse.Partitions) -> OffsetFetchResponse.Partition:
    return OffsetFetchResponse.Partition(
        partition_index=partition.partition_index,
        committed_offset=partition.committed_offset,
        committed_leader_epoch=partition.committed_leader_epoch,
        metadata=partition.metadata,
        error_code=partition.error_code,
    )


def _older_topic(topic: Topics) -> OffsetFetchResponse.Topic:
    return OffsetFetchResponse.Topic(name=topic.name, partitions=[_older(one) for one in topic.partitions])


def _response(groups: list[Group], version: int) -> Steps[OffsetFetchResponse]:
    if version >= BATCHES_SINCE:
        return OffsetFetchResponse(throttle_time_ms=0, groups=groups)
    (group,) = groups
    topics = []
    for topic in group.topics:
        partitions = yield from each(topic.partitions, _older)
        topics.append(OffsetFetchResponse.Topic(name=topic.name, partitions=partitions))
    return OffsetFetchResponse(throttle_time_ms=0, topics=topics, error_code=group.error_code)
