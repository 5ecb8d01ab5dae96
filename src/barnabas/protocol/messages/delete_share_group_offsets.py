"""DeleteShareGroupOffsets (api key 92).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, string, uuid


class DeleteShareGroupOffsetsRequest(Message, key=92, versions=(0, 0), flexible=0):
    """Topics whose offsets to delete from a share group."""

    class Topic(Message):
        topic_name: string

    group_id: string
    topics: list[Topic]


class DeleteShareGroupOffsetsResponse(Message, key=92, versions=(0, 0), flexible=0):
    """The outcome for each topic."""

    class Topic(Message):
        topic_name: string
        topic_id: uuid
        error_code: int16
        error_message: string | None = field(default=None)

    throttle_time_ms: int32
    error_code: int16
    error_message: string | None = field(default=None)
    responses: list[Topic]
