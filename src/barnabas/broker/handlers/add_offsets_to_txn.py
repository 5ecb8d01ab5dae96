"""AddOffsetsToTxn (api key 25), versions 0 to 4.

Adds a group's partition of `__consumer_offsets` to a transaction that will commit the group's offsets.  Up to
version 1 a fenced producer gets INVALID_PRODUCER_EPOCH instead of PRODUCER_FENCED.  Clients of
transaction.version 2 do not send this request: TxnOffsetCommit 5 adds the partition itself (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.topic_names import CONSUMER_OFFSETS
from barnabas.broker.coordinators.transaction_errors import error_for_version
from barnabas.broker.network.request_context import Answer, RequestContext
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from barnabas.runtime.loop.promise import Promise
from barnabas.storage.log.names import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 25
FIRST_VERSION_WITH_FENCED = 2
# Clients that send this request add partitions themselves (transaction.version below 2).
CLIENT_VERSION = 0


def handle(
    broker: Broker, request: AddOffsetsToTxnRequest, context: RequestContext
) -> Answer[AddOffsetsToTxnResponse]:
    transactional_id, group_id, version = request.transactional_id, request.group_id, context.api_version
    if not broker.authorizer.allows(context, Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not broker.authorizer.allows(context, Operation.READ, Resource.GROUP, group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a transactional id must not be empty")
    promise: Promise[AddOffsetsToTxnResponse] = Promise()
    broker.transactions.add_partitions(
        transactional_id,
        (request.producer_id, request.producer_epoch),
        frozenset((TopicPartition(CONSUMER_OFFSETS, broker.groups.partition_for(group_id)),)),
        CLIENT_VERSION,
    ).then(
        lambda _: promise.set(AddOffsetsToTxnResponse(throttle_time_ms=0, error_code=0)),
        lambda error: promise.fail(error_for_version(version, FIRST_VERSION_WITH_FENCED, error)),
    )
    return promise


def refuse(request: AddOffsetsToTxnRequest, code: ErrorCode, text: str) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(throttle_time_ms=0, error_code=code)
