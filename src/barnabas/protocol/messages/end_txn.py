"""EndTxn (api key 26).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, int64, string


class EndTxnRequest(Message, key=26, versions=(0, 5), flexible=3):
    """A producer commits or aborts its transaction."""

    transactional_id: string
    producer_id: int64
    producer_epoch: int16
    committed: bool


class EndTxnResponse(Message, key=26, versions=(0, 5), flexible=3):
    """Whether it succeeded; from version 5 with the epoch for the next transaction."""

    throttle_time_ms: int32
    error_code: int16
    producer_id: int64 = field("5+", default=-1, ignorable=True)
    producer_epoch: int16 = field("5+", default=-1, ignorable=True)
