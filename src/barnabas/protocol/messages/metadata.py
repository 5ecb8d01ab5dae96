"""Metadata (api key 3).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.base.ids import ZERO_UUID
from barnabas.protocol.schema import Message, field, int16, int32, string, uuid


class MetadataRequest(Message, key=3, versions=(0, 13), flexible=9):
    """Requests the metadata of topics; null means all topics."""

    class Topic(Message):
        topic_id: uuid = field("10+", default=ZERO_UUID, ignorable=True)
        name: string | None = field(nullable="10+")

    topics: list[Topic] | None = field(nullable="1+")
    allow_auto_topic_creation: bool = field("4+", default=True)
    include_cluster_authorized_operations: bool = field("8-10", default=False)
    include_topic_authorized_operations: bool = field("8+", default=False)


class MetadataResponse(Message, key=3, versions=(0, 13), flexible=9):
    """Brokers, controller, and the leaders and replicas of every partition."""

    class Broker(Message):
        node_id: int32
        host: string
        port: int32
        rack: string | None = field("1+", default=None, ignorable=True)

    class Partition(Message):
        error_code: int16
        partition_index: int32
        leader_id: int32
        leader_epoch: int32 = field("7+", default=-1, ignorable=True)
        replica_nodes: list[int32]
        isr_nodes: list[int32]
        offline_replicas: list[int32] = field("5+", default=[], ignorable=True)

    class Topic(Message):
        error_code: int16
        name: string | None = field(nullable="12+")
        topic_id: uuid = field("10+", default=ZERO_UUID, ignorable=True)
        is_internal: bool = field("1+", default=False, ignorable=True)
        partitions: list[MetadataResponse.Partition]
        topic_authorized_operations: int32 = field("8+", default=-2147483648)

    throttle_time_ms: int32 = field("3+", default=0, ignorable=True)
    brokers: list[Broker]
    cluster_id: string | None = field("2+", default=None, ignorable=True)
    controller_id: int32 = field("1+", default=-1, ignorable=True)
    topics: list[Topic]
    cluster_authorized_operations: int32 = field("8-10", default=-2147483648)
    error_code: int16 = field("13+", default=0, ignorable=True)
