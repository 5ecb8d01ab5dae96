"""ListTransactions (api key 66), versions 0 to 2.

The transactional ids of this broker's coordinators (KIP-664): by state and producer id, from version 1 on by
age (KIP-994), from 2 on by a pattern in RE2's syntax that the whole id has to match (KIP-1152).  Names of
states that do not exist are told and match nothing.  Ids that the principal may not describe are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode
from barnabas.broker.network.request_context import Answer, RequestContext
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.coordinator.txn.listing import Filter, id_pattern, known_states
from barnabas.coordinator.txn.transaction import Transaction
from barnabas.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 66


def handle(
    broker: Broker, request: ListTransactionsRequest, context: RequestContext
) -> Answer[ListTransactionsResponse]:
    states, unknown = known_states(request.state_filters)
    wanted = Filter(
        states,
        bool(request.state_filters),
        frozenset(request.producer_id_filters),
        request.duration_filter,
        id_pattern(request.transactional_id_pattern),
    )
    promise: Promise[ListTransactionsResponse] = Promise()

    def answer(found: list[Transaction]) -> None:
        allows = broker.authorizer.allows
        shown = [
            one
            for one in found
            if allows(
                context, Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, one.transactional_id, quiet=True
            )
        ]
        promise.set(_answer(ErrorCode.NONE, unknown, shown))

    broker.transactions.matching(wanted).then(answer, promise.fail)
    return promise


def refuse(request: ListTransactionsRequest, code: ErrorCode, text: str) -> ListTransactionsResponse:
    return _answer(code, [], [])


def _answer(code: ErrorCode, unknown: list[str], found: list[Transaction]) -> ListTransactionsResponse:
    return ListTransactionsResponse(
        throttle_time_ms=0,
        error_code=code,
        unknown_state_filters=unknown,
        transaction_states=[
            ListTransactionsResponse.TransactionState(
                transactional_id=one.transactional_id,
                producer_id=one.producer_id,
                transaction_state=one.state.told,
            )
            for one in found
        ],
    )
