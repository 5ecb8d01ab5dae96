"""ConsumerGroupDescribe (api key 69).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int8, int16, int32, string, uuid


class ConsumerGroupDescribeRequest(Message, key=69, versions=(0, 1), flexible=0):
    """The consumer groups (KIP-848) to describe."""

    group_ids: list[string]
    include_authorized_operations: bool


class ConsumerGroupDescribeResponse(Message, key=69, versions=(0, 1), flexible=0):
    """State, members, subscriptions and assignments of each group."""

    class TopicPartitions(Message):
        topic_id: uuid
        topic_name: string
        partitions: list[int32]

    class Assignment(Message):
        topic_partitions: list[ConsumerGroupDescribeResponse.TopicPartitions]

    class Member(Message):
        member_id: string
        instance_id: string | None = field(default=None)
        rack_id: string | None = field(default=None)
        member_epoch: int32
        client_id: string
        client_host: string
        subscribed_topic_names: list[string]
        subscribed_topic_regex: string | None = field(default=None)
        assignment: ConsumerGroupDescribeResponse.Assignment
        target_assignment: ConsumerGroupDescribeResponse.Assignment
        member_type: int8 = field("1+", default=-1, ignorable=True)

    class DescribedGroup(Message):
        error_code: int16
        error_message: string | None = field(default=None)
        group_id: string
        group_state: string
        group_epoch: int32
        assignment_epoch: int32
        assignor_name: string
        members: list[ConsumerGroupDescribeResponse.Member]
        authorized_operations: int32 = field(default=-2147483648)

    throttle_time_ms: int32
    groups: list[DescribedGroup]
