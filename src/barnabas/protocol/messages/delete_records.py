"""DeleteRecords (api key 21).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, int16, int32, int64, string


class DeleteRecordsRequest(Message, key=21, versions=(0, 2), flexible=2):
    """Partitions and the offsets before which records are deleted."""

    class Partition(Message):
        partition_index: int32
        offset: int64

    class Topic(Message):
        name: string
        partitions: list[DeleteRecordsRequest.Partition]

    topics: list[Topic]
    timeout_ms: int32


class DeleteRecordsResponse(Message, key=21, versions=(0, 2), flexible=2):
    """The new log start offset of each partition."""

    class PartitionResult(Message):
        partition_index: int32
        low_watermark: int64
        error_code: int16

    class TopicResult(Message):
        name: string
        partitions: list[DeleteRecordsResponse.PartitionResult]

    throttle_time_ms: int32
    topics: list[TopicResult]
