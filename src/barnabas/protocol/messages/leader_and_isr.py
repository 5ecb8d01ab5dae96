"""LeaderAndIsr (api key 4).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.base.ids import ZERO_UUID
from barnabas.protocol.schema import Message, field, int8, int16, int32, int64, string, uuid


class LeaderAndIsrRequest(Message, key=4, versions=(0, 7), flexible=4):
    """The controller assigns leaders and followers to a broker (ZooKeeper mode)."""

    class PartitionState(Message):
        topic_name: string = field("0-1", default="", ignorable=True)
        partition_index: int32
        controller_epoch: int32
        leader: int32
        leader_epoch: int32
        isr: list[int32]
        partition_epoch: int32
        replicas: list[int32]
        adding_replicas: list[int32] = field("3+", default=[], ignorable=True)
        removing_replicas: list[int32] = field("3+", default=[], ignorable=True)
        is_new: bool = field("1+", default=False, ignorable=True)
        leader_recovery_state: int8 = field("6+", default=0)

    class TopicState(Message):
        topic_name: string
        topic_id: uuid = field("5+", default=ZERO_UUID, ignorable=True)
        partition_states: list[LeaderAndIsrRequest.PartitionState]

    class LiveLeader(Message):
        broker_id: int32
        host_name: string
        port: int32

    controller_id: int32
    is_kraft_controller: bool = field("7+", default=False, name="isKRaftController")
    controller_epoch: int32
    broker_epoch: int64 = field("2+", default=-1, ignorable=True)
    type: int8 = field("5+", default=0)
    ungrouped_partition_states: list[PartitionState] = field("0-1", default=[])
    topic_states: list[TopicState] = field("2+", default=[])
    live_leaders: list[LiveLeader]


class LeaderAndIsrResponse(Message, key=4, versions=(0, 7), flexible=4):
    """The outcome for each partition."""

    class PartitionError(Message):
        topic_name: string = field("0-4", default="", ignorable=True)
        partition_index: int32
        error_code: int16

    class TopicError(Message):
        topic_id: uuid
        partition_errors: list[LeaderAndIsrResponse.PartitionError]

    error_code: int16
    partition_errors: list[PartitionError] = field("0-4", default=[])
    topics: list[TopicError] = field("5+", default=[])
