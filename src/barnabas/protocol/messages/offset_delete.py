"""OffsetDelete (api key 47).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, int16, int32, string


class OffsetDeleteRequest(Message, key=47, versions=(0, 0)):
    """Partitions whose committed offsets to delete."""

    class Partition(Message):
        partition_index: int32

    class Topic(Message):
        name: string
        partitions: list[OffsetDeleteRequest.Partition]

    group_id: string
    topics: list[Topic]


class OffsetDeleteResponse(Message, key=47, versions=(0, 0)):
    """The outcome for each partition."""

    class Partition(Message):
        partition_index: int32
        error_code: int16

    class Topic(Message):
        name: string
        partitions: list[OffsetDeleteResponse.Partition]

    error_code: int16
    throttle_time_ms: int32
    topics: list[Topic]
