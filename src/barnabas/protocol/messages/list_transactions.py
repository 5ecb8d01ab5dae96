"""ListTransactions (api key 66).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, int64, string


class ListTransactionsRequest(Message, key=66, versions=(0, 2), flexible=0):
    """Transactions of this coordinator, by state, producer, age and id."""

    state_filters: list[string]
    producer_id_filters: list[int64]
    duration_filter: int64 = field("1+", default=-1)
    transactional_id_pattern: string | None = field("2+", default=None)


class ListTransactionsResponse(Message, key=66, versions=(0, 2), flexible=0):
    """The transactions that match."""

    class TransactionState(Message):
        transactional_id: string
        producer_id: int64
        transaction_state: string

    throttle_time_ms: int32
    error_code: int16
    unknown_state_filters: list[string]
    transaction_states: list[TransactionState]
