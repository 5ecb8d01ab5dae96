"""The metadata that members of a classic consumer group exchange.

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int32, string


class ConsumerProtocolAssignment(Message, versions=(0, 3)):
    """The partitions a leader gives to a member."""

    class TopicPartition(Message):
        topic: string
        partitions: list[int32]

    assigned_partitions: list[TopicPartition]
    user_data: bytes | None = field(default=None)


class ConsumerProtocolSubscription(Message, versions=(0, 3)):
    """A member's subscribed topics, and the partitions that it owns."""

    class TopicPartition(Message):
        topic: string
        partitions: list[int32]

    topics: list[string]
    user_data: bytes | None = field(default=None)
    owned_partitions: list[TopicPartition] = field("1+", default=[], ignorable=True)
    generation_id: int32 = field("2+", default=-1, ignorable=True)
    rack_id: string | None = field("3+", default=None, ignorable=True)
