"""AlterPartitionReassignments (key 45, versions 0-1): move replicas to other brokers, or stop that (KIP-455).

* Null in place of replicas stops a move.
* From version 1 on a change of the number of replicas can be refused (KIP-860).
"""

from __future__ import annotations

from barnabas.base.errors import ErrorCode
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)

KEY = 45


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
