"""WriteShareGroupState (api key 85).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int8, int16, int32, int64, string, uuid


class WriteShareGroupStateRequest(Message, key=85, versions=(0, 0), flexible=0):
    """Share state that a leader persists."""

    class StateBatch(Message):
        first_offset: int64
        last_offset: int64
        delivery_state: int8
        delivery_count: int16

    class PartitionData(Message):
        partition: int32
        state_epoch: int32
        leader_epoch: int32
        start_offset: int64
        state_batches: list[WriteShareGroupStateRequest.StateBatch]

    class WriteStateData(Message):
        topic_id: uuid
        partitions: list[WriteShareGroupStateRequest.PartitionData]

    group_id: string
    topics: list[WriteStateData]


class WriteShareGroupStateResponse(Message, key=85, versions=(0, 0), flexible=0):
    """The outcome for each partition."""

    class PartitionResult(Message):
        partition: int32
        error_code: int16
        error_message: string | None = field(default=None)

    class WriteStateResult(Message):
        topic_id: uuid
        partitions: list[WriteShareGroupStateResponse.PartitionResult]

    results: list[WriteStateResult]
