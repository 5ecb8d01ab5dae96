"""InitializeShareGroupState (api key 83).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, int64, string, uuid


class InitializeShareGroupStateRequest(Message, key=83, versions=(0, 0), flexible=0):
    """Partitions that a share group starts to read."""

    class PartitionData(Message):
        partition: int32
        state_epoch: int32
        start_offset: int64

    class InitializeStateData(Message):
        topic_id: uuid
        partitions: list[InitializeShareGroupStateRequest.PartitionData]

    group_id: string
    topics: list[InitializeStateData]


class InitializeShareGroupStateResponse(Message, key=83, versions=(0, 0), flexible=0):
    """The outcome for each partition."""

    class PartitionResult(Message):
        partition: int32
        error_code: int16
        error_message: string | None = field(default=None)

    class InitializeStateResult(Message):
        topic_id: uuid
        partitions: list[InitializeShareGroupStateResponse.PartitionResult]

    results: list[InitializeStateResult]
