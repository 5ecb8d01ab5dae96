"""Records of consumer groups (KIP-848).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import NEW, Message, field, int8, int32, int64, string, uuid


class ConsumerGroupCurrentMemberAssignmentKey(Message, key=8, versions=(0, 0)):
    """The group and member of a current assignment."""

    group_id: string
    member_id: string


class ConsumerGroupCurrentMemberAssignmentValue(Message, key=8, versions=(0, 0), flexible=0):
    """The partitions that a member owns and still has to revoke."""

    class TopicPartitions(Message):
        topic_id: uuid
        partitions: list[int32]

    member_epoch: int32
    previous_member_epoch: int32
    state: int8
    assigned_partitions: list[TopicPartitions]
    partitions_pending_revocation: list[TopicPartitions]


class ConsumerGroupMemberMetadataKey(Message, key=5, versions=(0, 0)):
    """The group and member."""

    group_id: string
    member_id: string


class ConsumerGroupMemberMetadataValue(Message, key=5, versions=(0, 0), flexible=0):
    """A member's client, host and subscription."""

    class ClassicProtocol(Message):
        name: string
        metadata: bytes

    class ClassicMemberMetadata(Message):
        session_timeout_ms: int32
        supported_protocols: list[ConsumerGroupMemberMetadataValue.ClassicProtocol]

    instance_id: string | None
    rack_id: string | None
    client_id: string
    client_host: string
    subscribed_topic_names: list[string]
    subscribed_topic_regex: string | None
    rebalance_timeout_ms: int32 = field(default=-1)
    server_assignor: string | None
    classic_member_metadata: ClassicMemberMetadata | None = field(tag=0, default=NEW)


class ConsumerGroupMetadataKey(Message, key=3, versions=(0, 0)):
    """The group."""

    group_id: string


class ConsumerGroupMetadataValue(Message, key=3, versions=(0, 0), flexible=0):
    """The epoch of a group."""

    epoch: int32
    metadata_hash: int64 = field(tag=0, default=0)


class ConsumerGroupPartitionMetadataKey(Message, key=4, versions=(0, 0)):
    """The group of the partition counts."""

    group_id: string


class ConsumerGroupPartitionMetadataValue(Message, key=4, versions=(0, 0), flexible=0):
    """The subscribed topics as the group last saw them."""

    class PartitionMetadata(Message):
        partition: int32
        racks: list[string]

    class TopicMetadata(Message):
        topic_id: uuid
        topic_name: string
        num_partitions: int32
        partition_metadata: list[ConsumerGroupPartitionMetadataValue.PartitionMetadata]

    topics: list[TopicMetadata]


class ConsumerGroupRegularExpressionKey(Message, key=16, versions=(0, 0)):
    """The group and the subscription pattern."""

    group_id: string
    regular_expression: string


class ConsumerGroupRegularExpressionValue(Message, key=16, versions=(0, 0), flexible=0):
    """The topics that matched a subscription pattern."""

    topics: list[string]
    version: int64
    timestamp: int64


class ConsumerGroupTargetAssignmentMemberKey(Message, key=7, versions=(0, 0)):
    """The group and member of a target assignment."""

    group_id: string
    member_id: string


class ConsumerGroupTargetAssignmentMemberValue(Message, key=7, versions=(0, 0), flexible=0):
    """The partitions that a member should own."""

    class TopicPartition(Message):
        topic_id: uuid
        partitions: list[int32]

    topic_partitions: list[TopicPartition]


class ConsumerGroupTargetAssignmentMetadataKey(Message, key=6, versions=(0, 0)):
    """The group of a target assignment epoch."""

    group_id: string


class ConsumerGroupTargetAssignmentMetadataValue(Message, key=6, versions=(0, 0), flexible=0):
    """The epoch that the target assignments belong to."""

    assignment_epoch: int32
