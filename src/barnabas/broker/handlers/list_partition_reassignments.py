"""ListPartitionReassignments (key 46, version 0): the reassignments in progress (KIP-455).

* No topics means all of them; partitions without a reassignment are left out.
"""

from __future__ import annotations

from barnabas.base.errors import ErrorCode
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

KEY = 46


def refuse(
    request: ListPartitionReassignmentsRequest, code: ErrorCode, message: str
) -> ListPartitionReassignmentsResponse:
    """Lists the requested partitions without replicas."""
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
