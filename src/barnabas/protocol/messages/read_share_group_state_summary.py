"""ReadShareGroupStateSummary (api key 87).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, int64, string, uuid


class ReadShareGroupStateSummaryRequest(Message, key=87, versions=(0, 0), flexible=0):
    """Partitions whose share state to read without its batches."""

    class PartitionData(Message):
        partition: int32
        leader_epoch: int32

    class ReadStateSummaryData(Message):
        topic_id: uuid
        partitions: list[ReadShareGroupStateSummaryRequest.PartitionData]

    group_id: string
    topics: list[ReadStateSummaryData]


class ReadShareGroupStateSummaryResponse(Message, key=87, versions=(0, 0), flexible=0):
    """Epochs and start offset of each partition."""

    class PartitionResult(Message):
        partition: int32
        error_code: int16
        error_message: string | None = field(default=None)
        state_epoch: int32
        leader_epoch: int32
        start_offset: int64

    class ReadStateSummaryResult(Message):
        topic_id: uuid
        partitions: list[ReadShareGroupStateSummaryResponse.PartitionResult]

    results: list[ReadStateSummaryResult]
