"""ControlledShutdown (api key 7).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, int64, string


class ControlledShutdownRequest(Message, key=7, versions=(0, 3), flexible=3):
    """A broker is about to shut down and requests new leaders (ZooKeeper mode)."""

    broker_id: int32
    broker_epoch: int64 = field("2+", default=-1, ignorable=True)


class ControlledShutdownResponse(Message, key=7, versions=(0, 3), flexible=3):
    """The partitions that it still leads."""

    class RemainingPartition(Message):
        topic_name: string
        partition_index: int32

    error_code: int16
    remaining_partitions: list[RemainingPartition]
