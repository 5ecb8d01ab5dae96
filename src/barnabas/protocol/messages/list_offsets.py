"""ListOffsets (api key 2).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int8, int16, int32, int64, string


class ListOffsetsRequest(Message, key=2, versions=(1, 10), flexible=6):
    """Offsets by timestamp or by a special timestamp such as latest."""

    class Partition(Message):
        partition_index: int32
        current_leader_epoch: int32 = field("4+", default=-1, ignorable=True)
        timestamp: int64

    class Topic(Message):
        name: string
        partitions: list[ListOffsetsRequest.Partition]

    replica_id: int32
    isolation_level: int8 = field("2+", default=0)
    topics: list[Topic]
    timeout_ms: int32 = field("10+", default=0, ignorable=True)


class ListOffsetsResponse(Message, key=2, versions=(1, 10), flexible=6):
    """Offset, timestamp and leader epoch for each partition."""

    class PartitionResponse(Message):
        partition_index: int32
        error_code: int16
        timestamp: int64 = field(default=-1)
        offset: int64 = field(default=-1)
        leader_epoch: int32 = field("4+", default=-1)

    class TopicResponse(Message):
        name: string
        partitions: list[ListOffsetsResponse.PartitionResponse]

    throttle_time_ms: int32 = field("2+", default=0, ignorable=True)
    topics: list[TopicResponse]
