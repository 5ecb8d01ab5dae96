"""DescribeProducers (api key 61).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, int64, string


class DescribeProducersRequest(Message, key=61, versions=(0, 0), flexible=0):
    """Partitions whose active producers to describe."""

    class TopicRequest(Message):
        name: string
        partition_indexes: list[int32]

    topics: list[TopicRequest]


class DescribeProducersResponse(Message, key=61, versions=(0, 0), flexible=0):
    """The producers of each partition with their sequence and open transaction."""

    class ProducerState(Message):
        producer_id: int64
        producer_epoch: int32
        last_sequence: int32 = field(default=-1)
        last_timestamp: int64 = field(default=-1)
        coordinator_epoch: int32
        current_txn_start_offset: int64 = field(default=-1)

    class PartitionResponse(Message):
        partition_index: int32
        error_code: int16
        error_message: string | None = field(default=None)
        active_producers: list[DescribeProducersResponse.ProducerState]

    class TopicResponse(Message):
        name: string
        partitions: list[DescribeProducersResponse.PartitionResponse]

    throttle_time_ms: int32
    topics: list[TopicResponse]
