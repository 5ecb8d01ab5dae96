"""Records of streams groups (KIP-1071).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int8, int16, int32, int64, string, uint16


class StreamsGroupCurrentMemberAssignmentKey(Message, key=22, versions=(0, 0)):
    """The group and member of current tasks."""

    group_id: string
    member_id: string


class StreamsGroupCurrentMemberAssignmentValue(Message, key=22, versions=(0, 0), flexible=0):
    """The tasks that a member has and still has to revoke."""

    class TaskIds(Message):
        subtopology_id: string
        partitions: list[int32]

    member_epoch: int32
    previous_member_epoch: int32
    state: int8
    active_tasks: list[TaskIds]
    standby_tasks: list[TaskIds]
    warmup_tasks: list[TaskIds]
    active_tasks_pending_revocation: list[TaskIds]
    standby_tasks_pending_revocation: list[TaskIds]
    warmup_tasks_pending_revocation: list[TaskIds]


class StreamsGroupMemberMetadataKey(Message, key=19, versions=(0, 0)):
    """The group and member."""

    group_id: string
    member_id: string


class StreamsGroupMemberMetadataValue(Message, key=19, versions=(0, 0), flexible=0):
    """A member's client, process and endpoint."""

    class Endpoint(Message):
        host: string
        port: uint16

    class KeyValue(Message):
        key: string
        value: string

    instance_id: string | None
    rack_id: string | None
    client_id: string
    client_host: string
    rebalance_timeout_ms: int32 = field(default=-1)
    topology_epoch: int32
    process_id: string
    user_endpoint: Endpoint | None = field(default=None)
    client_tags: list[KeyValue]


class StreamsGroupMetadataKey(Message, key=17, versions=(0, 0)):
    """The group."""

    group_id: string


class StreamsGroupMetadataValue(Message, key=17, versions=(0, 0), flexible=0):
    """The epoch of a group."""

    epoch: int32
    metadata_hash: int64


class StreamsGroupTargetAssignmentMemberKey(Message, key=21, versions=(0, 0)):
    """The group and member of target tasks."""

    group_id: string
    member_id: string


class StreamsGroupTargetAssignmentMemberValue(Message, key=21, versions=(0, 0), flexible=0):
    """The tasks a member should have."""

    class TaskIds(Message):
        subtopology_id: string
        partitions: list[int32]

    active_tasks: list[TaskIds]
    standby_tasks: list[TaskIds]
    warmup_tasks: list[TaskIds]


class StreamsGroupTargetAssignmentMetadataKey(Message, key=20, versions=(0, 0)):
    """The group of a target assignment epoch."""

    group_id: string


class StreamsGroupTargetAssignmentMetadataValue(Message, key=20, versions=(0, 0), flexible=0):
    """The epoch that the target tasks belong to."""

    assignment_epoch: int32


class StreamsGroupTopologyKey(Message, key=23, versions=(0, 0)):
    """The group of a topology."""

    group_id: string


class StreamsGroupTopologyValue(Message, key=23, versions=(0, 0), flexible=0):
    """The subtopologies of a group with their topics."""

    class TopicConfig(Message):
        key: string
        value: string

    class TopicInfo(Message):
        name: string
        partitions: int32
        replication_factor: int16
        topic_configs: list[StreamsGroupTopologyValue.TopicConfig]

    class CopartitionGroup(Message):
        source_topics: list[int16]
        source_topic_regex: list[int16]
        repartition_source_topics: list[int16]

    class Subtopology(Message):
        subtopology_id: string
        source_topics: list[string]
        source_topic_regex: list[string]
        state_changelog_topics: list[StreamsGroupTopologyValue.TopicInfo]
        repartition_sink_topics: list[string]
        repartition_source_topics: list[StreamsGroupTopologyValue.TopicInfo]
        copartition_groups: list[StreamsGroupTopologyValue.CopartitionGroup]

    epoch: int32
    subtopologies: list[Subtopology]
