"""DescribeTopicPartitions (api key 75).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, string, uuid


class DescribeTopicPartitionsRequest(Message, key=75, versions=(0, 0), flexible=0):
    """Topics to describe, page by page."""

    class TopicRequest(Message):
        name: string

    class Cursor(Message):
        topic_name: string
        partition_index: int32

    topics: list[TopicRequest]
    response_partition_limit: int32 = field(default=2000)
    cursor: Cursor | None = field(default=None)


class DescribeTopicPartitionsResponse(Message, key=75, versions=(0, 0), flexible=0):
    """The partitions of the topics and the cursor of the next page."""

    class Partition(Message):
        error_code: int16
        partition_index: int32
        leader_id: int32
        leader_epoch: int32 = field(default=-1)
        replica_nodes: list[int32]
        isr_nodes: list[int32]
        eligible_leader_replicas: list[int32] | None = field(default=None)
        last_known_elr: list[int32] | None = field(default=None)
        offline_replicas: list[int32]

    class Topic(Message):
        error_code: int16
        name: string | None
        topic_id: uuid
        is_internal: bool = field(default=False)
        partitions: list[DescribeTopicPartitionsResponse.Partition]
        topic_authorized_operations: int32 = field(default=-2147483648)

    class Cursor(Message):
        topic_name: string
        partition_index: int32

    throttle_time_ms: int32
    topics: list[Topic]
    next_cursor: Cursor | None = field(default=None)
