"""Records of share groups (KIP-932).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, int8, int32, int64, string, uuid


class ShareGroupCurrentMemberAssignmentKey(Message, key=14, versions=(0, 0)):
    """The group and member of a current assignment."""

    group_id: string
    member_id: string


class ShareGroupCurrentMemberAssignmentValue(Message, key=14, versions=(0, 0), flexible=0):
    """The partitions that a member reads."""

    class TopicPartitions(Message):
        topic_id: uuid
        partitions: list[int32]

    member_epoch: int32
    previous_member_epoch: int32
    state: int8
    assigned_partitions: list[TopicPartitions]


class ShareGroupMemberMetadataKey(Message, key=10, versions=(0, 0)):
    """The group and member."""

    group_id: string
    member_id: string


class ShareGroupMemberMetadataValue(Message, key=10, versions=(0, 0), flexible=0):
    """A member's client, host and subscription."""

    rack_id: string | None
    client_id: string
    client_host: string
    subscribed_topic_names: list[string]


class ShareGroupMetadataKey(Message, key=11, versions=(0, 0)):
    """The group."""

    group_id: string


class ShareGroupMetadataValue(Message, key=11, versions=(0, 0), flexible=0):
    """The epoch of a group."""

    epoch: int32
    metadata_hash: int64


class ShareGroupStatePartitionMetadataKey(Message, key=15, versions=(0, 0)):
    """The group of the share partitions."""

    group_id: string


class ShareGroupStatePartitionMetadataValue(Message, key=15, versions=(0, 0), flexible=0):
    """Share partitions: being initialised, in use, being deleted."""

    class TopicPartitionsInfo(Message):
        topic_id: uuid
        topic_name: string
        partitions: list[int32]

    class TopicInfo(Message):
        topic_id: uuid
        topic_name: string

    initializing_topics: list[TopicPartitionsInfo]
    initialized_topics: list[TopicPartitionsInfo]
    deleting_topics: list[TopicInfo]


class ShareGroupTargetAssignmentMemberKey(Message, key=13, versions=(0, 0)):
    """The group and member of a target assignment."""

    group_id: string
    member_id: string


class ShareGroupTargetAssignmentMemberValue(Message, key=13, versions=(0, 0), flexible=0):
    """The partitions that a member should read."""

    class TopicPartition(Message):
        topic_id: uuid
        partitions: list[int32]

    topic_partitions: list[TopicPartition]


class ShareGroupTargetAssignmentMetadataKey(Message, key=12, versions=(0, 0)):
    """The group of a target assignment epoch."""

    group_id: string


class ShareGroupTargetAssignmentMetadataValue(Message, key=12, versions=(0, 0), flexible=0):
    """The epoch that the target assignments belong to."""

    assignment_epoch: int32
