"""ListPartitionReassignments (api key 46).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, string


class ListPartitionReassignmentsRequest(Message, key=46, versions=(0, 0), flexible=0):
    """Requests the active reassignments."""

    class Topics(Message):
        name: string
        partition_indexes: list[int32]

    timeout_ms: int32 = field(default=60000)
    topics: list[Topics] | None = field(default=None)


class ListPartitionReassignmentsResponse(Message, key=46, versions=(0, 0), flexible=0):
    """The active reassignments, with the added and removed replicas."""

    class OngoingPartitionReassignment(Message):
        partition_index: int32
        replicas: list[int32]
        adding_replicas: list[int32]
        removing_replicas: list[int32]

    class OngoingTopicReassignment(Message):
        name: string
        partitions: list[ListPartitionReassignmentsResponse.OngoingPartitionReassignment]

    throttle_time_ms: int32
    error_code: int16
    error_message: string | None
    topics: list[OngoingTopicReassignment]
