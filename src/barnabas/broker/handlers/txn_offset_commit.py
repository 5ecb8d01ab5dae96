"""TxnOffsetCommit (api key 28), versions 0 to 5.

Commits offsets as part of a transaction (KIP-98): they become visible when it commits and are dropped if it
aborts.  From version 3 on the request is fenced by member and generation like any other commit (KIP-447); 4
adds TRANSACTION_ABORTABLE (KIP-1050); with 5 the offsets' partition is added to the transaction implicitly
(KIP-890, transaction.version 2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.coordinators.topic_results import TopicResults, check_count, client_error_code
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import Steps, awaited
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.coordinator.decision import Context, Decision, ProducerStamp
from barnabas.coordinator.group.machine import GroupMachine
from barnabas.coordinator.group.offsets.commit import commit_in_transaction
from barnabas.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 28
LOADING_SINCE = 2
ABORTABLE_SINCE = 4
ADDS_PARTITION_SINCE = 5

Topic = TxnOffsetCommitResponse.Topic


def handle(
    broker: Broker, request: TxnOffsetCommitRequest, request_context: RequestContext
) -> Steps[TxnOffsetCommitResponse]:
    _authorize(broker, request, request_context)
    version = request_context.api_version
    results = TopicResults(_results, _name)
    request.topics = yield from results.select(broker, request_context, request.topics)
    if not request.topics:
        return TxnOffsetCommitResponse(throttle_time_ms=0, topics=results.refused())

    def decide(machine: GroupMachine, context: Context) -> Decision[TxnOffsetCommitResponse]:
        return commit_in_transaction(machine.offsets, request, version, context)

    try:
        if not request.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        check_count(request.topics)
        response = yield from awaited(
            broker.groups.submit_in_transaction(
                request.group_id,
                request.transactional_id,
                ProducerStamp(request.producer_id, request.producer_epoch),
                decide,
                may_add=version >= ADDS_PARTITION_SINCE,
            )
        )
    except KafkaError as error:
        topics = results.failed(request.topics, _for_version(client_error_code(error), version))
        return TxnOffsetCommitResponse(throttle_time_ms=0, topics=topics)
    response.topics = results.merged(response.topics)
    return response


def refuse(request: TxnOffsetCommitRequest, code: ErrorCode, text: str) -> TxnOffsetCommitResponse:
    topics = [
        _results(topic, [partition.partition_index for partition in topic.partitions], code)
        for topic in request.topics
    ]
    return TxnOffsetCommitResponse(throttle_time_ms=0, topics=topics)


def _authorize(broker: Broker, request: TxnOffsetCommitRequest, request_context: RequestContext) -> None:
    allows = broker.authorizer.allows
    if not allows(request_context, Operation.WRITE, Resource.TRANSACTIONAL_ID, request.transactional_id):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not allows(request_context, Operation.READ, Resource.GROUP, request.group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)


def _for_version(code: ErrorCode, version: int) -> ErrorCode:
    """Maps codes that older producers do not know, or treat as fatal, to codes that they retry."""
    if code is ErrorCode.NETWORK_EXCEPTION:
        code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < LOADING_SINCE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    return code


def _results(topic: TxnOffsetCommitRequest.Topic, indexes: list[int], code: ErrorCode) -> Topic:
    partitions = [
        TxnOffsetCommitResponse.Partition(partition_index=index, error_code=code) for index in indexes
    ]
    return Topic(name=topic.name, partitions=partitions)


def _name(topic: TxnOffsetCommitRequest.Topic | Topic) -> str:
    return topic.name
