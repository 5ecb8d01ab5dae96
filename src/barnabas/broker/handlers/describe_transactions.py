"""DescribeTransactions (api key 65), version 0.

State, producer and partitions of transactional ids (KIP-664), each answered for itself.  Topics that the
asker may not describe are left out.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import Steps, awaited
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.coordinator.txn.transaction import Transaction
from barnabas.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 65

Described = DescribeTransactionsResponse.TransactionState


def handle(
    broker: Broker, request: DescribeTransactionsRequest, context: RequestContext
) -> Steps[DescribeTransactionsResponse]:
    """An id that is named again is looked at once and answered each time, as in Apache Kafka."""
    states: dict[str, Described] = {}
    for transactional_id in request.transactional_ids:
        if transactional_id not in states:
            states[transactional_id] = yield from _state(broker, context, transactional_id)
        yield None
    return DescribeTransactionsResponse(
        throttle_time_ms=0, transaction_states=[states[one] for one in request.transactional_ids]
    )


def refuse(request: DescribeTransactionsRequest, code: ErrorCode, text: str) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        throttle_time_ms=0, transaction_states=[_error(one, code) for one in request.transactional_ids]
    )


def _state(broker: Broker, context: RequestContext, transactional_id: str) -> Steps[Described]:
    allows = broker.authorizer.allows
    if not allows(context, Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, transactional_id):
        return _error(transactional_id, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    try:
        transaction = yield from awaited(broker.transactions.describe(transactional_id))
    except KafkaError as error:
        return _error(transactional_id, error.code)
    return Described(
        error_code=0,
        transactional_id=transaction.transactional_id,
        transaction_state=transaction.state.told,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=_topics(broker, context, transaction),
    )


def _topics(
    broker: Broker, context: RequestContext, transaction: Transaction
) -> list[DescribeTransactionsResponse.TopicData]:
    allows = broker.authorizer.allows
    return [
        DescribeTransactionsResponse.TopicData(topic=topic, partitions=[one.partition for one in group])
        for topic, group in groupby(sorted(transaction.partitions), key=lambda one: one.topic)
        if allows(context, Operation.DESCRIBE, Resource.TOPIC, topic, quiet=True)
    ]


def _error(transactional_id: str, code: ErrorCode) -> Described:
    return Described(
        error_code=code,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=0,
        producer_epoch=0,
        topics=[],
    )
