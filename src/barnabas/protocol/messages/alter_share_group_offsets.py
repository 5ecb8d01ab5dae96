"""AlterShareGroupOffsets (api key 91).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, int64, string, uuid


class AlterShareGroupOffsetsRequest(Message, key=91, versions=(0, 0), flexible=0):
    """New start offsets of an empty share group."""

    class Partition(Message):
        partition_index: int32
        start_offset: int64

    class Topic(Message):
        topic_name: string
        partitions: list[AlterShareGroupOffsetsRequest.Partition]

    group_id: string
    topics: list[Topic]


class AlterShareGroupOffsetsResponse(Message, key=91, versions=(0, 0), flexible=0):
    """The outcome for each partition."""

    class Partition(Message):
        partition_index: int32
        error_code: int16
        error_message: string | None = field(default=None)

    class Topic(Message):
        topic_name: string
        topic_id: uuid
        partitions: list[AlterShareGroupOffsetsResponse.Partition]

    throttle_time_ms: int32
    error_code: int16
    error_message: string | None = field(default=None)
    responses: list[Topic]
