"""DeleteShareGroupState (api key 86).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, string, uuid


class DeleteShareGroupStateRequest(Message, key=86, versions=(0, 0), flexible=0):
    """Partitions whose share state to delete."""

    class PartitionData(Message):
        partition: int32

    class DeleteStateData(Message):
        topic_id: uuid
        partitions: list[DeleteShareGroupStateRequest.PartitionData]

    group_id: string
    topics: list[DeleteStateData]


class DeleteShareGroupStateResponse(Message, key=86, versions=(0, 0), flexible=0):
    """The outcome for each partition."""

    class PartitionResult(Message):
        partition: int32
        error_code: int16
        error_message: string | None = field(default=None)

    class DeleteStateResult(Message):
        topic_id: uuid
        partitions: list[DeleteShareGroupStateResponse.PartitionResult]

    results: list[DeleteStateResult]
