"""Produce (api key 0).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.base.ids import ZERO_UUID
from barnabas.protocol.schema import NEW, Message, field, int16, int32, int64, record_data, string, uuid


class ProduceRequest(Message, key=0, versions=(3, 13), flexible=9):
    """Record batches to append, by partition."""

    class PartitionProduceData(Message):
        index: int32
        records: record_data | None

    class TopicProduceData(Message):
        name: string = field("3-12", default="", ignorable=True)
        topic_id: uuid = field("13+", default=ZERO_UUID, ignorable=True)
        partition_data: list[ProduceRequest.PartitionProduceData]

    transactional_id: string | None = field(default=None)
    acks: int16
    timeout_ms: int32
    topic_data: list[TopicProduceData]


class ProduceResponse(Message, key=0, versions=(3, 13), flexible=9):
    """The base offset of each partition's batches, or the error."""

    class BatchIndexAndErrorMessage(Message):
        batch_index: int32
        batch_index_error_message: string | None = field(default=None)

    class LeaderIdAndEpoch(Message):
        leader_id: int32 = field(default=-1)
        leader_epoch: int32 = field(default=-1)

    class PartitionProduceResponse(Message):
        index: int32
        error_code: int16
        base_offset: int64
        log_append_time_ms: int64 = field(default=-1)
        log_start_offset: int64 = field("5+", default=-1, ignorable=True)
        record_errors: list[ProduceResponse.BatchIndexAndErrorMessage] = field(
            "8+", default=[], ignorable=True
        )
        error_message: string | None = field("8+", default=None, ignorable=True)
        current_leader: ProduceResponse.LeaderIdAndEpoch = field("10+", tag=0, default=NEW)

    class TopicProduceResponse(Message):
        name: string = field("3-12", default="", ignorable=True)
        topic_id: uuid = field("13+", default=ZERO_UUID, ignorable=True)
        partition_responses: list[ProduceResponse.PartitionProduceResponse]

    class NodeEndpoint(Message):
        node_id: int32
        host: string
        port: int32
        rack: string | None = field(default=None)

    responses: list[TopicProduceResponse]
    throttle_time_ms: int32 = field(default=0)
    node_endpoints: list[NodeEndpoint] = field("10+", tag=0, default=[])
