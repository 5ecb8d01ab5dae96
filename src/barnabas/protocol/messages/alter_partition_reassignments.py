"""AlterPartitionReassignments (api key 45).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, string


class AlterPartitionReassignmentsRequest(Message, key=45, versions=(0, 1), flexible=0):
    """Target replicas of partitions; null cancels a reassignment."""

    class ReassignablePartition(Message):
        partition_index: int32
        replicas: list[int32] | None = field(default=None)

    class ReassignableTopic(Message):
        name: string
        partitions: list[AlterPartitionReassignmentsRequest.ReassignablePartition]

    timeout_ms: int32 = field(default=60000)
    allow_replication_factor_change: bool = field("1+", default=True)
    topics: list[ReassignableTopic]


class AlterPartitionReassignmentsResponse(Message, key=45, versions=(0, 1), flexible=0):
    """The outcome for each partition."""

    class ReassignablePartitionResponse(Message):
        partition_index: int32
        error_code: int16
        error_message: string | None

    class ReassignableTopicResponse(Message):
        name: string
        partitions: list[AlterPartitionReassignmentsResponse.ReassignablePartitionResponse]

    throttle_time_ms: int32
    allow_replication_factor_change: bool = field("1+", default=True, ignorable=True)
    error_code: int16
    error_message: string | None
    responses: list[ReassignableTopicResponse]
