"""ReadShareGroupState (api key 84).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int8, int16, int32, int64, string, uuid


class ReadShareGroupStateRequest(Message, key=84, versions=(0, 0), flexible=0):
    """Partitions whose share state a leader needs."""

    class PartitionData(Message):
        partition: int32
        leader_epoch: int32

    class ReadStateData(Message):
        topic_id: uuid
        partitions: list[ReadShareGroupStateRequest.PartitionData]

    group_id: string
    topics: list[ReadStateData]


class ReadShareGroupStateResponse(Message, key=84, versions=(0, 0), flexible=0):
    """The state batches of each partition."""

    class StateBatch(Message):
        first_offset: int64
        last_offset: int64
        delivery_state: int8
        delivery_count: int16

    class PartitionResult(Message):
        partition: int32
        error_code: int16
        error_message: string | None = field(default=None)
        state_epoch: int32
        start_offset: int64
        state_batches: list[ReadShareGroupStateResponse.StateBatch]

    class ReadStateResult(Message):
        topic_id: uuid
        partitions: list[ReadShareGroupStateResponse.PartitionResult]

    results: list[ReadStateResult]
