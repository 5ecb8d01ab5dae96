"""InitProducerId (api key 22).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, int64, string


class InitProducerIdRequest(Message, key=22, versions=(0, 6), flexible=2):
    """A producer requests its id and epoch; a transactional one fences its predecessors."""

    transactional_id: string | None
    transaction_timeout_ms: int32
    producer_id: int64 = field("3+", default=-1)
    producer_epoch: int16 = field("3+", default=-1)
    enable2_pc: bool = field("6+", default=False)
    keep_prepared_txn: bool = field("6+", default=False)


class InitProducerIdResponse(Message, key=22, versions=(0, 6), flexible=2):
    """The producer's id and epoch."""

    throttle_time_ms: int32
    error_code: int16
    producer_id: int64 = field(default=-1)
    producer_epoch: int16
    ongoing_txn_producer_id: int64 = field("6+", default=-1)
    ongoing_txn_producer_epoch: int16 = field("6+", default=-1)
