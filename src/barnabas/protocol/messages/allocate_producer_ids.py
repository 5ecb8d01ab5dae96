"""AllocateProducerIds (api key 67).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, int64


class AllocateProducerIdsRequest(Message, key=67, versions=(0, 0), flexible=0):
    """A broker requests a block of producer ids."""

    broker_id: int32
    broker_epoch: int64 = field(default=-1)


class AllocateProducerIdsResponse(Message, key=67, versions=(0, 0), flexible=0):
    """The first id of the block and its size."""

    throttle_time_ms: int32
    error_code: int16
    producer_id_start: int64
    producer_id_len: int32
