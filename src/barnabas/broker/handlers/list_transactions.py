"""ListTransactions (api key 66), versions 0 to 2.

Lists the transactional ids of this broker's coordinators (KIP-664), filtered by state and producer id, from
version 1 on by duration (KIP-994), from 2 on by an RE2 pattern that must match the whole id (KIP-1152).
Unknown state names are returned and match nothing.  Ids that the principal may not describe are left out.
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
    filters = Filter(
        states,
        bool(request.state_filters),
        frozenset(request.producer_id_filters),
        request.duration_filter,
        id_pattern(request.transactional_id_pattern),
    )
    promise: Promise[ListTransactionsResponse] = Promise()

    def respond(transactions: list[Transaction]) -> None:
        allows = broker.authorizer.allows
        shown = [
            transaction
            for transaction in transactions
            if allows(
                context,
                Operation.DESCRIBE,
                Resource.TRANSACTIONAL_ID,
                transaction.transactional_id,
                quiet=True,
            )
        ]
        promise.set(_response(ErrorCode.NONE, unknown, shown))

    broker.transactions.matching(filters).then(respond, promise.fail)
    return promise


def refuse(request: ListTransactionsRequest, code: ErrorCode, text: str) -> ListTransactionsResponse:
    return _response(code, [], [])


def _response(
    code: ErrorCode, unknown: list[str], transactions: list[Transaction]
) -> ListTransactionsResponse:
    return ListTransactionsResponse(
        throttle_time_ms=0,
        error_code=code,
        unknown_state_filters=unknown,
        transaction_states=[
            ListTransactionsResponse.TransactionState(
                transactional_id=transaction.transactional_id,
                producer_id=transaction.producer_id,
                transaction_state=transaction.state.display_name,
            )
            for transaction in transactions
        ],
    )
