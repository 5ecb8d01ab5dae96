"""AddOffsetsToTxn (api key 25).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, int16, int32, int64, string


class AddOffsetsToTxnRequest(Message, key=25, versions=(0, 4), flexible=3):
    """Adds the offsets of a group to a transaction."""

    transactional_id: string
    producer_id: int64
    producer_epoch: int16
    group_id: string


class AddOffsetsToTxnResponse(Message, key=25, versions=(0, 4), flexible=3):
    """Whether the group's offsets partition was added."""

    throttle_time_ms: int32
    error_code: int16
