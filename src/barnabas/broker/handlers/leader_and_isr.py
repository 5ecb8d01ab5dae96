"""LeaderAndIsr (key 4, versions 0-7): the controller makes this broker leader or follower (ZooKeeper mode).

* The response names topics by id from version 5 on, partitions by topic name before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.security.authorizer import Operation, check_cluster
from barnabas.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 4
FIRST_WITH_IDS = 5


def handle(broker: Broker, request: LeaderAndIsrRequest, context: RequestContext) -> Promise[Message]:
    check_cluster(broker.authorizer, context, Operation.CLUSTER_ACTION)
    answer = broker.zookeeper.controller_request(request)
    if context.api_version >= FIRST_WITH_IDS:
        return answer
    named: Promise[Message] = Promise()
    answer.then(lambda response: named.set(_by_name(request, response)), named.fail)
    return named


def _by_name(request: LeaderAndIsrRequest, response: Message) -> LeaderAndIsrResponse:
    assert isinstance(response, LeaderAndIsrResponse)
    return LeaderAndIsrResponse(
        error_code=response.error_code,
        partition_errors=[
            LeaderAndIsrResponse.PartitionError(
                topic_name=topic.topic_name,
                partition_index=partition.partition_index,
                error_code=partition.error_code,
            )
            for topic, errors in zip(request.topic_states, response.topics, strict=False)
            for partition in errors.partition_errors
        ],
    )
