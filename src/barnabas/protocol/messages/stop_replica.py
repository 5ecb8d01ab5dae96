"""StopReplica (api key 5).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, int64, string


class StopReplicaRequest(Message, key=5, versions=(0, 4), flexible=2):
    """The controller stops, and optionally deletes, replicas of a broker (ZooKeeper mode)."""

    class PartitionV0(Message):
        topic_name: string
        partition_index: int32

    class TopicV1(Message):
        name: string
        partition_indexes: list[int32]

    class PartitionState(Message):
        partition_index: int32
        leader_epoch: int32 = field(default=-1)
        delete_partition: bool

    class TopicState(Message):
        topic_name: string
        partition_states: list[StopReplicaRequest.PartitionState]

    controller_id: int32
    is_kraft_controller: bool = field("4+", default=False, name="isKRaftController")
    controller_epoch: int32
    broker_epoch: int64 = field("1+", default=-1, ignorable=True)
    delete_partitions: bool = field("0-2", default=False)
    ungrouped_partitions: list[PartitionV0] = field("0", default=[])
    topics: list[TopicV1] = field("1-2", default=[])
    topic_states: list[TopicState] = field("3+", default=[])


class StopReplicaResponse(Message, key=5, versions=(0, 4), flexible=2):
    """The outcome for each partition."""

    class PartitionError(Message):
        topic_name: string
        partition_index: int32
        error_code: int16

    error_code: int16
    partition_errors: list[PartitionError]
