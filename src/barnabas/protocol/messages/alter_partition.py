"""AlterPartition (api key 56).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int8, int16, int32, int64, uuid


class AlterPartitionRequest(Message, key=56, versions=(2, 3), flexible=0):
    """A leader proposes a new set of in-sync replicas."""

    class BrokerState(Message):
        broker_id: int32
        broker_epoch: int64 = field(default=-1)

    class PartitionData(Message):
        partition_index: int32
        leader_epoch: int32
        new_isr: list[int32] = field("2", default=[])
        new_isr_with_epochs: list[AlterPartitionRequest.BrokerState] = field("3+", default=[])
        leader_recovery_state: int8 = field(default=0)
        partition_epoch: int32

    class TopicData(Message):
        topic_id: uuid
        partitions: list[AlterPartitionRequest.PartitionData]

    broker_id: int32
    broker_epoch: int64 = field(default=-1)
    topics: list[TopicData]


class AlterPartitionResponse(Message, key=56, versions=(2, 3), flexible=0):
    """The controller's decision, with the new partition epoch."""

    class PartitionData(Message):
        partition_index: int32
        error_code: int16
        leader_id: int32
        leader_epoch: int32
        isr: list[int32]
        leader_recovery_state: int8 = field(default=0)
        partition_epoch: int32

    class TopicData(Message):
        topic_id: uuid
        partitions: list[AlterPartitionResponse.PartitionData]

    throttle_time_ms: int32
    error_code: int16
    topics: list[TopicData]
