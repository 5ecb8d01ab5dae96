"""AlterPartitionReassignments (key 45, versions 0-1): move replicas to other brokers, or stop that (KIP-455).

* Null in place of replicas stops a move.
* From version 1 on a change of the number of replicas can be refused (KIP-860).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.security.authorizer import Operation, check_cluster
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 45


def handle(
    broker: Broker, request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> Promise[Message]:
    check_cluster(broker.authorizer, context, Operation.ALTER)
    return broker.metadata.ask(request, context.api_version, context.principal)


def refuse(
    request: AlterPartitionReassignmentsRequest, code: ErrorCode, message: str
) -> AlterPartitionReassignmentsResponse:
    """Every partition gets the error, and so does the answer as a whole."""
    responses = [
        AlterPartitionReassignmentsResponse.ReassignableTopicResponse(
            name=topic.name,
            partitions=[
                AlterPartitionReassignmentsResponse.ReassignablePartitionResponse(
                    partition_index=one.partition_index, error_code=code, error_message=message
                )
                for one in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return AlterPartitionReassignmentsResponse(
        throttle_time_ms=0, error_code=code, error_message=message, responses=responses
    )
