"""AllocateProducerIds: each broker assigns producer ids from its own blocks (KIP-730)."""

from __future__ import annotations

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.controller.decision import Context, Decision
from barnabas.controller.state import ControllerState
from barnabas.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from barnabas.protocol.records.metadata import ProducerIdsRecord

BLOCK_SIZE = 1000
LAST_PRODUCER_ID = 2**63 - 1


def allocate_producer_ids(
    state: ControllerState, request: AllocateProducerIdsRequest, context: Context
) -> Decision:
    state.check_broker_epoch(request.broker_id, request.broker_epoch)
    first = max(state.image.next_producer_id, 0)
    if first > LAST_PRODUCER_ID - BLOCK_SIZE:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            "Exhausted all producerIds as the next block's end producerId has exceeded the int64 type limit",
        )
    record = ProducerIdsRecord(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        next_producer_id=first + BLOCK_SIZE,
    )
    reply = AllocateProducerIdsResponse(
        throttle_time_ms=0, error_code=0, producer_id_start=first, producer_id_len=BLOCK_SIZE
    )
    return Decision([record], reply)
