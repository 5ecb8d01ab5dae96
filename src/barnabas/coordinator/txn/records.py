"""Converts transactional ids to records (`TransactionLogKey`, `TransactionLogValue`) and back.

The version follows transaction.version: 0 without tagged fields, 1 with them.  Apache Kafka 4.1 reads the
previous and next producer id but writes neither, so a coordinator that restarts between the end of a
transaction and its last marker forgets a producer id that it has already returned.  Here they are written
when they matter: when the epochs of a producer id are exhausted (KIP-890).  All other records are identical
byte for byte, except for the order of partitions.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from barnabas.coordinator.entry import Entry
from barnabas.coordinator.txn.transaction import (
    FLEXIBLE_RECORDS_LEVEL,
    State,
    Transaction,
)
from barnabas.protocol.records.transaction_log import TransactionLogKey, TransactionLogValue
from barnabas.storage.log.names import TopicPartition

_NO_PARTITIONS: frozenset[TopicPartition] = frozenset()
_KNOWN_STATES = frozenset(State)
_COMPLETE = (State.COMPLETE_COMMIT, State.COMPLETE_ABORT)


def entry_of(transaction: Transaction, level: int) -> Entry:
    """The record of this state, at this level of transaction.version."""
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=None if transaction.state is State.EMPTY else _topics(transaction.partitions),
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
    )
    key = TransactionLogKey(transactional_id=transaction.transactional_id)
    if level < FLEXIBLE_RECORDS_LEVEL:
        return Entry(key, value, 0)
    value.client_transaction_version = transaction.client_version
    value.next_producer_id = transaction.next_producer_id
    if transaction.state in _COMPLETE and transaction.previous_producer_id != transaction.producer_id:
        value.previous_producer_id = transaction.previous_producer_id
    return Entry(key, value, 1)


def tombstone_of(transactional_id: str) -> Entry:
    """The tombstone of a removed id."""
    return Entry(TransactionLogKey(transactional_id=transactional_id), None)


def _topics(partitions: Iterable[TopicPartition]) -> list[TransactionLogValue.PartitionsSchema]:
    return [
        TransactionLogValue.PartitionsSchema(
            topic=topic, partition_ids=[partition.partition for partition in of_topic]
        )
        for topic, of_topic in groupby(sorted(partitions), key=lambda partition: partition.topic)
    ]


def transaction_of(transactional_id: str, value: TransactionLogValue) -> Transaction:
    """Returns the state in a record; raises ValueError if its status is unknown to this release."""
    if value.transaction_status not in _KNOWN_STATES:
        raise ValueError(f"the transaction status {value.transaction_status} is unknown")
    state = State(value.transaction_status)
    partitions = _NO_PARTITIONS
    if state is not State.EMPTY and value.transaction_partitions:
        partitions = frozenset(
            TopicPartition(topic.topic, number)
            for topic in value.transaction_partitions
            for number in topic.partition_ids
        )
    return Transaction(
        transactional_id,
        value.producer_id,
        value.producer_epoch,
        value.transaction_timeout_ms,
        state,
        partitions,
        value.transaction_start_timestamp_ms,
        value.transaction_last_update_timestamp_ms,
        value.client_transaction_version,
        value.previous_producer_id,
        value.next_producer_id,
    )
