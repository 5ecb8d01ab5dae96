"""EndTxn (api key 26), versions 0 to 5.

Commits or aborts a producer's transaction.  The response is sent when the decision is committed; the markers
are written right after.  Version 5 (transaction.version 2, KIP-890) returns the producer id and epoch of the
next transaction.  Up to version 1 a fenced producer gets INVALID_PRODUCER_EPOCH instead of PRODUCER_FENCED.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.coordinators.transaction_errors import error_for_version
from barnabas.broker.network.request_context import Answer, RequestContext
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.coordinator.txn.ending import EndRequest
from barnabas.coordinator.txn.transaction import EPOCH_BUMP_LEVEL, NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from barnabas.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 26
FIRST_VERSION_WITH_FENCED = 2
FIRST_VERSION_THAT_BUMPS = 5


def handle(broker: Broker, request: EndTxnRequest, context: RequestContext) -> Answer[EndTxnResponse]:
    transactional_id, version = request.transactional_id, context.api_version
    if not broker.authorizer.allows(context, Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a transactional id must not be empty")
    end_request = EndRequest(
        request.producer_id,
        request.producer_epoch,
        request.committed,
        EPOCH_BUMP_LEVEL if version >= FIRST_VERSION_THAT_BUMPS else 0,
    )
    promise: Promise[EndTxnResponse] = Promise()
    broker.transactions.end(transactional_id, end_request).then(
        lambda ended: promise.set(_response(ErrorCode.NONE, ended.producer_id, ended.producer_epoch)),
        lambda error: promise.fail(error_for_version(version, FIRST_VERSION_WITH_FENCED, error)),
    )
    return promise


def refuse(request: EndTxnRequest, code: ErrorCode, text: str) -> EndTxnResponse:
    return _response(code, NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


def _response(code: ErrorCode, producer_id: int, producer_epoch: int) -> EndTxnResponse:
    return EndTxnResponse(
        throttle_time_ms=0, error_code=code, producer_id=producer_id, producer_epoch=producer_epoch
    )
