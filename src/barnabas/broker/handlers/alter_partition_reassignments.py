"""AlterPartitionReassignments (key 45, versions 0-1): moves replicas to other brokers (KIP-455).

* Null replicas cancel a reassignment.
* From version 1 on a client can disallow a change of the replication factor (KIP-860).
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode
from barnabas.broker.network.controller_requests import send_by_partition
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import Steps
from barnabas.broker.security.authorizer import Operation, check_cluster
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 45


def handle(
    broker: Broker, request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> Steps[AlterPartitionReassignmentsResponse]:
    check_cluster(broker.authorizer, context, Operation.ALTER)

    def request_for(
        topics: list[AlterPartitionReassignmentsRequest.ReassignableTopic],
    ) -> AlterPartitionReassignmentsRequest:
        part = copy(request)
        part.topics = topics
        return part

    return (
        yield from send_by_partition(
            broker,
            context,
            request.topics,
            request_for,
            AlterPartitionReassignmentsResponse,
            partitions="partitions",
            results="responses",
            partition_results="partitions",
        )
    )


def refuse(
    request: AlterPartitionReassignmentsRequest, code: ErrorCode, message: str
) -> AlterPartitionReassignmentsResponse:
    """Every partition and the response as a whole get the error."""
    responses = [
        AlterPartitionReassignmentsResponse.ReassignableTopicResponse(
            name=topic.name,
            partitions=[
                AlterPartitionReassignmentsResponse.ReassignablePartitionResponse(
                    partition_index=partition.partition_index, error_code=code, error_message=message
                )
                for partition in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return AlterPartitionReassignmentsResponse(
        throttle_time_ms=0, error_code=code, error_message=message, responses=responses
    )
