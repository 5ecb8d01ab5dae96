"""UpdateMetadata (api key 6).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.base.ids import ZERO_UUID
from barnabas.protocol.schema import Message, field, int8, int16, int32, int64, string, uuid


class UpdateMetadataRequest(Message, key=6, versions=(0, 8), flexible=6):
    """The controller sends the state of partitions and brokers to a broker (ZooKeeper mode)."""

    class PartitionState(Message):
        topic_name: string = field("0-4", default="", ignorable=True)
        partition_index: int32
        controller_epoch: int32
        leader: int32
        leader_epoch: int32
        isr: list[int32]
        zk_version: int32
        replicas: list[int32]
        offline_replicas: list[int32] = field("4+", default=[], ignorable=True)

    class TopicState(Message):
        topic_name: string
        topic_id: uuid = field("7+", default=ZERO_UUID, ignorable=True)
        partition_states: list[UpdateMetadataRequest.PartitionState]

    class Endpoint(Message):
        port: int32
        host: string
        listener: string = field("3+", default="", ignorable=True)
        security_protocol: int16

    class Broker(Message):
        id: int32
        v0_host: string = field("0", default="", ignorable=True)
        v0_port: int32 = field("0", default=0, ignorable=True)
        endpoints: list[UpdateMetadataRequest.Endpoint] = field("1+", default=[], ignorable=True)
        rack: string | None = field("2+", default="", ignorable=True)

    controller_id: int32
    is_kraft_controller: bool = field("8+", default=False, name="isKRaftController")
    type: int8 = field("8+", tag=0, default=0)
    controller_epoch: int32
    broker_epoch: int64 = field("5+", default=-1, ignorable=True)
    ungrouped_partition_states: list[PartitionState] = field("0-4", default=[])
    topic_states: list[TopicState] = field("5+", default=[])
    live_brokers: list[Broker]


class UpdateMetadataResponse(Message, key=6, versions=(0, 8), flexible=6):
    """Whether the broker accepted it."""

    error_code: int16
