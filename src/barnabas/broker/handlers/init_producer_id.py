"""InitProducerId (api key 22), versions 0 to 5 (6 is not stable).

An id for an idempotent producer: a new one each time, with epoch 0 (KIP-98).  A transactional producer's id
is its coordinator's business (KIP-360, KIP-890): as long as there is no coordinator here, it is told so, and
its client looks for one again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.authorizer import CLUSTER_NAME, Operation, Resource
from barnabas.broker.requests import Answer, Call
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.runtime.later import Later

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 22
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


def handle(broker: Broker, request: InitProducerIdRequest, call: Call) -> Answer[InitProducerIdResponse]:
    _authorize(broker, request.transactional_id, call)
    has_id, has_epoch = request.producer_id != NO_PRODUCER_ID, request.producer_epoch != NO_PRODUCER_EPOCH
    if has_id != has_epoch:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a producer id and its epoch are given together")
    if request.transactional_id is not None:
        _check_transactional(broker, request)
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    later: Later[InitProducerIdResponse] = Later()
    broker.replicas.producer_ids.next().then(lambda producer_id: later.set(_given(producer_id)), later.fail)
    return later


def refuse(request: InitProducerIdRequest, code: ErrorCode, text: str) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        throttle_time_ms=0, error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
    )


def _authorize(broker: Broker, transactional_id: str | None, call: Call) -> None:
    allows = broker.authorizer.allows
    if transactional_id is not None:
        if not allows(call, Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id):
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    elif not allows(call, Operation.IDEMPOTENT_WRITE, Resource.CLUSTER, CLUSTER_NAME):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _check_transactional(broker: Broker, request: InitProducerIdRequest) -> None:
    """What a coordinator refuses before it looks anything up."""
    if not request.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a transactional id must not be empty")
    if not 0 < request.transaction_timeout_ms <= broker.settings["transaction.max.timeout.ms"]:
        raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)


def _given(producer_id: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(throttle_time_ms=0, error_code=0, producer_id=producer_id, producer_epoch=0)
