"""Records of classic groups and of committed offsets.

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.base.ids import ZERO_UUID
from barnabas.protocol.schema import Message, field, int32, int64, string, uuid


class GroupMetadataKey(Message, key=2, versions=(0, 0)):
    """The classic group."""

    group: string


class GroupMetadataValue(Message, key=2, versions=(0, 4), flexible=4):
    """Generation, protocol and members of a classic group."""

    class MemberMetadata(Message):
        member_id: string
        group_instance_id: string | None = field("3+", default=None, ignorable=True)
        client_id: string
        client_host: string
        rebalance_timeout: int32 = field("1+", default=-1, ignorable=True)
        session_timeout: int32
        subscription: bytes
        assignment: bytes

    protocol_type: string
    generation: int32
    protocol: string | None
    leader: string | None
    current_state_timestamp: int64 = field("2+", default=-1, ignorable=True)
    members: list[MemberMetadata]


class LegacyOffsetCommitKey(Message, key=0, versions=(0, 0)):
    """The group and partition, in the oldest format."""

    group: string
    topic: string
    partition: int32


class LegacyOffsetCommitValue(Message, key=0, versions=(0, 0)):
    """A committed offset, in the oldest format."""

    offset: int64
    metadata: string
    commit_timestamp: int64


class OffsetCommitKey(Message, key=1, versions=(0, 0)):
    """The group and partition."""

    group: string
    topic: string
    partition: int32


class OffsetCommitValue(Message, key=1, versions=(0, 4), flexible=4):
    """A committed offset."""

    offset: int64
    leader_epoch: int32 = field("3+", default=-1, ignorable=True)
    metadata: string
    commit_timestamp: int64
    expire_timestamp: int64 = field("1", default=-1, ignorable=True)
    topic_id: uuid = field("4+", tag=0, default=ZERO_UUID, ignorable=True)
