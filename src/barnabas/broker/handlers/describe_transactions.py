"""DescribeTransactions (api key 65), version 0.

Describes the state, producer and partitions of transactional ids (KIP-664).  Each id has its own error.
Topics that the client may not describe are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.coordinators.chunked_lookup import look_up
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import Steps
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.coordinator.decision import Context, Decision
from barnabas.coordinator.txn.listing import describe
from barnabas.coordinator.txn.machine import TransactionMachine
from barnabas.coordinator.txn.transaction import Transaction
from barnabas.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 65

Described = DescribeTransactionsResponse.TransactionState
Found: TypeAlias = Transaction | ErrorCode


def handle(
    broker: Broker, request: DescribeTransactionsRequest, context: RequestContext
) -> Steps[DescribeTransactionsResponse]:
    """An id that is named more than once is looked up once and described each time, as in Apache Kafka."""
    ids = request.transactional_ids
    states: dict[str, Described] = {}
    allowed: list[str] = []
    allows = broker.authorizer.allows
    for transactional_id in dict.fromkeys(ids):
        if allows(context, Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, transactional_id):
            allowed.append(transactional_id)
        else:
            denied = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            states[transactional_id] = _error(transactional_id, denied)
        yield None
    found = yield from look_up(broker.transactions.shards, allowed, _look_up, _error_code)
    for transactional_id, result in found.items():
        if isinstance(result, Transaction):
            states[transactional_id] = _state(broker, context, result)
        else:
            states[transactional_id] = _error(transactional_id, result)
        yield None
    return DescribeTransactionsResponse(
        throttle_time_ms=0, transaction_states=[states[transactional_id] for transactional_id in ids]
    )


def refuse(request: DescribeTransactionsRequest, code: ErrorCode, text: str) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        throttle_time_ms=0,
        transaction_states=[_error(transactional_id, code) for transactional_id in request.transactional_ids],
    )


def _look_up(
    machine: TransactionMachine, _: Context, transactional_ids: Sequence[str]
) -> Decision[dict[str, Found]]:
    found: dict[str, Found] = {}
    for transactional_id in transactional_ids:
        try:
            found[transactional_id] = describe(machine.transactions, transactional_id)
        except KafkaError as error:
            found[transactional_id] = error.code
    return Decision((), found)


def _error_code(_: str, error: KafkaError) -> Found:
    return error.code


def _state(broker: Broker, context: RequestContext, transaction: Transaction) -> Described:
    return Described(
        error_code=0,
        transactional_id=transaction.transactional_id,
        transaction_state=transaction.state.display_name,
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
        DescribeTransactionsResponse.TopicData(topic=topic, partitions=[name.partition for name in names])
        for topic, names in groupby(sorted(transaction.partitions), key=lambda name: name.topic)
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
