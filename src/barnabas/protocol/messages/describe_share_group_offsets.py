"""DescribeShareGroupOffsets (api key 90).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, int64, string, uuid


class DescribeShareGroupOffsetsRequest(Message, key=90, versions=(0, 0), flexible=0):
    """Share groups and partitions to describe."""

    class Topic(Message):
        topic_name: string
        partitions: list[int32]

    class Group(Message):
        group_id: string
        topics: list[DescribeShareGroupOffsetsRequest.Topic] | None

    groups: list[Group]


class DescribeShareGroupOffsetsResponse(Message, key=90, versions=(0, 0), flexible=0):
    """Start offsets by group and partition."""

    class Partition(Message):
        partition_index: int32
        start_offset: int64
        leader_epoch: int32
        error_code: int16
        error_message: string | None = field(default=None)

    class Topic(Message):
        topic_name: string
        topic_id: uuid
        partitions: list[DescribeShareGroupOffsetsResponse.Partition]

    class Group(Message):
        group_id: string
        topics: list[DescribeShareGroupOffsetsResponse.Topic]
        error_code: int16
        error_message: string | None = field(default=None)

    throttle_time_ms: int32
    groups: list[Group]
