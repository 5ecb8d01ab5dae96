"""DescribeTransactions (api key 65), version 0.

State, producer and partitions of transactional ids (KIP-664), each answered for itself.  Topics that the
asker may not describe are left out.
"""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.network.request_context import Answer, RequestContext
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.coordinator.txn.transaction import Transaction
from barnabas.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 65

Described = DescribeTransactionsResponse.TransactionState


def handle(
    broker: Broker, request: DescribeTransactionsRequest, context: RequestContext
) -> Answer[DescribeTransactionsResponse]:
    return _Describing(broker, request, context).start()


def refuse(request: DescribeTransactionsRequest, code: ErrorCode, text: str) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        throttle_time_ms=0, transaction_states=[_error(one, code) for one in request.transactional_ids]
    )


class _Describing:
    """A request under way."""

    def __init__(self, broker: Broker, request: DescribeTransactionsRequest, context: RequestContext) -> None:
        self._broker = broker
        self._call = context
        self._ids = request.transactional_ids
        self._states: list[Described] = [_error(one, ErrorCode.NONE) for one in self._ids]
        # Reading the request counts as one: it is not over before all were asked.
        self._unanswered = 1
        self._later: Promise[DescribeTransactionsResponse] = Promise()

    def start(self) -> Promise[DescribeTransactionsResponse]:
        allows = self._broker.authorizer.allows
        for place, transactional_id in enumerate(self._ids):
            if not allows(self._call, Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, transactional_id):
                code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
                self._states[place] = _error(transactional_id, code)
                continue
            self._unanswered += 1
            self._broker.transactions.describe(transactional_id).then(
                partial(self._described, place), partial(self._failed, place)
            )
        self._one_less()
        return self._later

    def _described(self, place: int, transaction: Transaction) -> None:
        self._states[place] = Described(
            error_code=0,
            transactional_id=transaction.transactional_id,
            transaction_state=transaction.state.told,
            transaction_timeout_ms=transaction.timeout_ms,
            transaction_start_time_ms=transaction.start_ms,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            topics=self._topics(transaction),
        )
        self._one_less()

    def _topics(self, transaction: Transaction) -> list[DescribeTransactionsResponse.TopicData]:
        allows = self._broker.authorizer.allows
        return [
            DescribeTransactionsResponse.TopicData(topic=topic, partitions=[one.partition for one in group])
            for topic, group in groupby(sorted(transaction.partitions), key=lambda one: one.topic)
            if allows(self._call, Operation.DESCRIBE, Resource.TOPIC, topic, quiet=True)
        ]

    def _failed(self, place: int, error: BaseException) -> None:
        code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
        self._states[place] = _error(self._ids[place], code)
        self._one_less()

    def _one_less(self) -> None:
        self._unanswered -= 1
        if not self._unanswered:
            self._later.set(DescribeTransactionsResponse(throttle_time_ms=0, transaction_states=self._states))


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
