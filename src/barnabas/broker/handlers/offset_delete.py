"""OffsetDelete (api key 47), version 0.

Deletes committed offsets of a group (KIP-496): any of an empty group, and of a group with members those of
topics that it is not subscribed to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.coordinators.topic_results import TopicResults, check_count, client_error_code
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import Steps, awaited
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.coordinator.decision import Context, Decision
from barnabas.coordinator.group.machine import GroupMachine
from barnabas.coordinator.group.offsets.delete import delete
from barnabas.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 47

Topic = OffsetDeleteResponse.Topic


def handle(
    broker: Broker, request: OffsetDeleteRequest, request_context: RequestContext
) -> Steps[OffsetDeleteResponse]:
    if not broker.authorizer.allows(request_context, Operation.DELETE, Resource.GROUP, request.group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    results = TopicResults(_results, _name)
    request.topics = yield from results.select(broker, request_context, request.topics)
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)

    def decide(machine: GroupMachine, context: Context) -> Decision[OffsetDeleteResponse]:
        return delete(machine.offsets, request, context)

    try:
        check_count(request.topics)
        # Sent even without partitions: an unknown group takes precedence over errors of partitions.
        response = yield from awaited(broker.groups.submit(request.group_id, decide))
    except KafkaError as error:
        raise KafkaError(client_error_code(error), error.message) from error
    response.topics = results.merged(response.topics)
    return response


def refuse(request: OffsetDeleteRequest, code: ErrorCode, text: str) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=code, throttle_time_ms=0, topics=[])


def _results(topic: OffsetDeleteRequest.Topic, indexes: list[int], code: ErrorCode) -> Topic:
    partitions = [OffsetDeleteResponse.Partition(partition_index=index, error_code=code) for index in indexes]
    return Topic(name=topic.name, partitions=partitions)


def _name(topic: OffsetDeleteRequest.Topic | Topic) -> str:
    return topic.name
