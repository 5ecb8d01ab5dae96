"""InitProducerId (api key 22), versions 0 to 5 (6 is not stable).

An idempotent producer gets a new producer id with epoch 0 each time (KIP-98).  A transactional producer gets
the producer id of its transactional id and the next epoch from its coordinator, which fences the previous
epoch; from version 3 on it may send the producer id and epoch that it had (KIP-360).  Up to version 3 a
fenced producer gets INVALID_PRODUCER_EPOCH instead of PRODUCER_FENCED.  Two-phase commit (version 6, KIP-939)
is refused unless it is enabled; keeping a prepared transaction is always refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.coordinators.transaction_errors import error_for_version
from barnabas.broker.network.request_context import Answer, RequestContext
from barnabas.broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from barnabas.coordinator.txn.machine import InitRequest
from barnabas.coordinator.txn.transaction import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMEOUT_MS
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 22
FIRST_VERSION_WITH_FENCED = 4


def handle(
    broker: Broker, request: InitProducerIdRequest, context: RequestContext
) -> Answer[InitProducerIdResponse]:
    _authorize(broker, request.transactional_id, context)
    has_id, has_epoch = request.producer_id != NO_PRODUCER_ID, request.producer_epoch != NO_PRODUCER_EPOCH
    if has_id != has_epoch:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a producer id and its epoch are given together")
    promise: Promise[InitProducerIdResponse] = Promise()
    if request.transactional_id is None:
        broker.replicas.producer_ids.next().then(
            lambda producer_id: promise.set(_response(producer_id, 0)), promise.fail
        )
        return promise
    version, timeout_ms = context.api_version, _checked_timeout_ms(broker, request)
    expected = (request.producer_id, request.producer_epoch) if has_id else None
    init_request = InitRequest(request.transactional_id, timeout_ms, expected)
    broker.transactions.initialise(init_request).then(
        lambda producer: promise.set(_response(producer.producer_id, producer.producer_epoch)),
        lambda error: promise.fail(error_for_version(version, FIRST_VERSION_WITH_FENCED, error)),
    )
    return promise


def refuse(request: InitProducerIdRequest, code: ErrorCode, text: str) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        throttle_time_ms=0, error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
    )


def _authorize(broker: Broker, transactional_id: str | None, context: RequestContext) -> None:
    authorizer = broker.authorizer
    if transactional_id is not None:
        if not authorizer.allows(context, Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id):
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    elif not authorizer.allows(
        context, Operation.IDEMPOTENT_WRITE, Resource.CLUSTER, CLUSTER_NAME, quiet=True
    ) and not authorizer.allows_any(context, Operation.WRITE, Resource.TOPIC):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _checked_timeout_ms(broker: Broker, request: InitProducerIdRequest) -> int:
    """Validates the request before the coordinator is involved; returns the transaction timeout."""
    if not request.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a transactional id must not be empty")
    if request.enable2_pc and not broker.settings["transaction.two.phase.commit.enable"]:
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if request.keep_prepared_txn:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    if request.enable2_pc:
        return NO_TIMEOUT_MS
    if not 0 < request.transaction_timeout_ms <= broker.settings["transaction.max.timeout.ms"]:
        raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    return request.transaction_timeout_ms


def _response(producer_id: int, producer_epoch: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        throttle_time_ms=0, error_code=0, producer_id=producer_id, producer_epoch=producer_epoch
    )
