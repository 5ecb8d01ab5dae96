"""ListPartitionReassignments (key 46, version 0): the moves of replicas under way (KIP-455).

* No topics means all of them; what is not on the move is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode
from barnabas.broker.authorizer import Operation, check_cluster
from barnabas.broker.requests import Call
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from barnabas.protocol.schema import Message
from barnabas.runtime.later import Later

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 46


def handle(broker: Broker, request: ListPartitionReassignmentsRequest, call: Call) -> Later[Message]:
    check_cluster(broker.authorizer, call, Operation.DESCRIBE)
    return broker.metadata.ask(request, call.api_version, call.principal)


def refuse(
    request: ListPartitionReassignmentsRequest, code: ErrorCode, message: str
) -> ListPartitionReassignmentsResponse:
    """The partitions that were asked for are named, without replicas."""
    topics = [
        ListPartitionReassignmentsResponse.OngoingTopicReassignment(
            name=topic.name,
            partitions=[
                ListPartitionReassignmentsResponse.OngoingPartitionReassignment(
                    partition_index=index, replicas=[], adding_replicas=[], removing_replicas=[]
                )
                for index in topic.partition_indexes
            ],
        )
        for topic in request.topics or ()
    ]
    return ListPartitionReassignmentsResponse(
        throttle_time_ms=0, error_code=code, error_message=message, topics=topics
    )
