"""AddPartitionsToTxn (api key 24).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, int64, string


class AddPartitionsToTxnRequest(Message, key=24, versions=(0, 5), flexible=3):
    """Partitions that a transaction will write; brokers send several transactions at once."""

    class Topic(Message):
        name: string
        partitions: list[int32]

    class Transaction(Message):
        transactional_id: string
        producer_id: int64
        producer_epoch: int16
        verify_only: bool = field(default=False)
        topics: list[AddPartitionsToTxnRequest.Topic]

    transactions: list[Transaction] = field("4+", default=[])
    v3_and_below_transactional_id: string = field("0-3", default="")
    v3_and_below_producer_id: int64 = field("0-3", default=0)
    v3_and_below_producer_epoch: int16 = field("0-3", default=0)
    v3_and_below_topics: list[Topic] = field("0-3", default=[])


class AddPartitionsToTxnResponse(Message, key=24, versions=(0, 5), flexible=3):
    """The outcome for each partition, and from version 4 for each transaction."""

    class PartitionResult(Message):
        partition_index: int32
        partition_error_code: int16

    class TopicResult(Message):
        name: string
        results_by_partition: list[AddPartitionsToTxnResponse.PartitionResult]

    class Result(Message):
        transactional_id: string
        topic_results: list[AddPartitionsToTxnResponse.TopicResult]

    throttle_time_ms: int32
    error_code: int16 = field("4+", default=0, ignorable=True)
    results_by_transaction: list[Result] = field("4+", default=[])
    results_by_topic_v3_and_below: list[TopicResult] = field("0-3", default=[])
