"""Records of the transaction coordinator.

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int8, int16, int32, int64, string


class TransactionLogKey(Message, key=0, versions=(0, 0)):
    """The key of a transactional id."""

    transactional_id: string


class TransactionLogValue(Message, key=0, versions=(0, 1), flexible=1):
    """The state of a transaction."""

    class PartitionsSchema(Message):
        topic: string
        partition_ids: list[int32]

    producer_id: int64
    previous_producer_id: int64 = field("1+", tag=0, default=-1)
    next_producer_id: int64 = field("1+", tag=1, default=-1)
    producer_epoch: int16
    next_producer_epoch: int16 = field("1+", tag=3, default=-1)
    transaction_timeout_ms: int32
    transaction_status: int8
    transaction_partitions: list[PartitionsSchema] | None
    transaction_last_update_timestamp_ms: int64
    transaction_start_timestamp_ms: int64
    client_transaction_version: int16 = field("1+", tag=2, default=0)
