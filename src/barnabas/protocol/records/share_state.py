"""Records of the share coordinator: the state of each share partition.

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, int8, int16, int32, int64, string, uuid


class ShareSnapshotKey(Message, key=0, versions=(0, 0)):
    """The group and partition of a snapshot."""

    group_id: string
    topic_id: uuid
    partition: int32


class ShareSnapshotValue(Message, key=0, versions=(0, 0), flexible=0):
    """The whole state of a share partition."""

    class StateBatch(Message):
        first_offset: int64
        last_offset: int64
        delivery_state: int8
        delivery_count: int16

    snapshot_epoch: int32
    state_epoch: int32
    leader_epoch: int32
    start_offset: int64
    create_timestamp: int64
    write_timestamp: int64
    state_batches: list[StateBatch]


class ShareUpdateKey(Message, key=1, versions=(0, 0)):
    """The group and partition of an update."""

    group_id: string
    topic_id: uuid
    partition: int32


class ShareUpdateValue(Message, key=1, versions=(0, 0), flexible=0):
    """Changes of a share partition since its snapshot."""

    class StateBatch(Message):
        first_offset: int64
        last_offset: int64
        delivery_state: int8
        delivery_count: int16

    snapshot_epoch: int32
    leader_epoch: int32
    start_offset: int64
    state_batches: list[StateBatch]
