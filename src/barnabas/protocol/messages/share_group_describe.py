"""ShareGroupDescribe (api key 77).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, string, uuid


class ShareGroupDescribeRequest(Message, key=77, versions=(1, 1), flexible=0):
    """The share groups to describe."""

    group_ids: list[string]
    include_authorized_operations: bool


class ShareGroupDescribeResponse(Message, key=77, versions=(1, 1), flexible=0):
    """State, members and assignments of each group."""

    class TopicPartitions(Message):
        topic_id: uuid
        topic_name: string
        partitions: list[int32]

    class Assignment(Message):
        topic_partitions: list[ShareGroupDescribeResponse.TopicPartitions]

    class Member(Message):
        member_id: string
        rack_id: string | None = field(default=None)
        member_epoch: int32
        client_id: string
        client_host: string
        subscribed_topic_names: list[string]
        assignment: ShareGroupDescribeResponse.Assignment

    class DescribedGroup(Message):
        error_code: int16
        error_message: string | None = field(default=None)
        group_id: string
        group_state: string
        group_epoch: int32
        assignment_epoch: int32
        assignor_name: string
        members: list[ShareGroupDescribeResponse.Member]
        authorized_operations: int32 = field(default=-2147483648)

    throttle_time_ms: int32
    groups: list[DescribedGroup]
