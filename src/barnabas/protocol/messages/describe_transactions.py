"""DescribeTransactions (api key 65).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, int16, int32, int64, string


class DescribeTransactionsRequest(Message, key=65, versions=(0, 0), flexible=0):
    """Transactional ids to describe."""

    transactional_ids: list[string]


class DescribeTransactionsResponse(Message, key=65, versions=(0, 0), flexible=0):
    """State, producer and partitions of each."""

    class TopicData(Message):
        topic: string
        partitions: list[int32]

    class TransactionState(Message):
        error_code: int16
        transactional_id: string
        transaction_state: string
        transaction_timeout_ms: int32
        transaction_start_time_ms: int64
        producer_id: int64
        producer_epoch: int16
        topics: list[DescribeTransactionsResponse.TopicData]

    throttle_time_ms: int32
    transaction_states: list[TransactionState]
