"""CreatePartitions (api key 37).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, string


class CreatePartitionsRequest(Message, key=37, versions=(0, 3), flexible=2):
    """New partition counts of topics, with optional assignments."""

    class Assignment(Message):
        broker_ids: list[int32]

    class Topic(Message):
        name: string
        count: int32
        assignments: list[CreatePartitionsRequest.Assignment] | None

    topics: list[Topic]
    timeout_ms: int32
    validate_only: bool


class CreatePartitionsResponse(Message, key=37, versions=(0, 3), flexible=2):
    """The outcome for each topic."""

    class TopicResult(Message):
        name: string
        error_code: int16
        error_message: string | None = field(default=None)

    throttle_time_ms: int32
    results: list[TopicResult]
