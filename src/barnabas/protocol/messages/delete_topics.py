"""DeleteTopics (api key 20).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.base.ids import ZERO_UUID
from barnabas.protocol.schema import Message, field, int16, int32, string, uuid


class DeleteTopicsRequest(Message, key=20, versions=(1, 6), flexible=4):
    """Topics to delete, by name or id."""

    class DeleteTopicState(Message):
        name: string | None = field(default=None)
        topic_id: uuid

    topics: list[DeleteTopicState] = field("6+", default=[])
    topic_names: list[string] = field("1-5", default=[], ignorable=True)
    timeout_ms: int32


class DeleteTopicsResponse(Message, key=20, versions=(1, 6), flexible=4):
    """The outcome for each topic."""

    class DeletableTopicResult(Message):
        name: string | None = field(nullable="6+")
        topic_id: uuid = field("6+", default=ZERO_UUID, ignorable=True)
        error_code: int16
        error_message: string | None = field("5+", default=None, ignorable=True)

    throttle_time_ms: int32
    responses: list[DeletableTopicResult]
