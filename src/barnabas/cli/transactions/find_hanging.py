"""Finds hanging transactions: open in a partition, but unknown to their coordinator (KIP-664)."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.cli.framework.columns import tabbed_table
from barnabas.cli.transactions.command import NOT_KNOWN, error_prefix
from barnabas.client.admin.records import ProducerState
from barnabas.client.model import TopicPartition
from barnabas.runtime.clock import SystemClock

if TYPE_CHECKING:
    from barnabas.client.admin.transactions import TransactionDescription
    from barnabas.client.sync import Admin

T = TypeVar("T")

# Partitions or topics per request.
BATCH = 500
MINUTE_MS = 60_000
HEADERS = (
    "Topic",
    "Partition",
    "ProducerId",
    "ProducerEpoch",
    "CoordinatorEpoch",
    "StartOffset",
    "LastTimestamp",
    "Duration(min)",
)


class OpenTransaction(NamedTuple):
    """An open transaction of a partition."""

    partition: TopicPartition
    producer: ProducerState


def search(admin: Admin, options: Namespace) -> list[OpenTransaction]:
    """Transactions that are open for too long and unknown to their coordinator."""
    oldest_ms = SystemClock().wall_ms() - options.max_transaction_timeout * MINUTE_MS
    partitions = _partitions(admin, options)
    open_transactions = [
        transaction
        for batch in _batches(partitions)
        for transaction in _open(admin, batch, options.broker_id)
        if transaction.producer.last_timestamp < oldest_ms
    ]
    if not open_transactions:
        return []
    names = _transactional_ids(admin, {transaction.producer.producer_id for transaction in open_transactions})
    descriptions = _descriptions(admin, set(names.values()))
    return [
        transaction
        for transaction in open_transactions
        if _hangs(transaction, descriptions.get(names.get(transaction.producer.producer_id, "")))
    ]


def _hangs(transaction: OpenTransaction, described: TransactionDescription | None) -> bool:
    """The coordinator will still write markers to its registered partitions, and to no others."""
    return described is None or transaction.partition not in described.partitions


def table(transactions: Sequence[OpenTransaction]) -> str:
    now_ms = SystemClock().wall_ms()
    rows = [
        (
            partition.topic,
            partition.partition,
            producer.producer_id,
            producer.producer_epoch,
            producer.coordinator_epoch,
            producer.current_txn_start_offset,
            producer.last_timestamp,
            (now_ms - producer.last_timestamp) // MINUTE_MS,
        )
        for partition, producer in transactions
    ]
    return tabbed_table(HEADERS, rows)


def _partitions(admin: Admin, options: Namespace) -> list[TopicPartition]:
    if options.topic is not None and options.partition is not None:
        return [TopicPartition(options.topic, options.partition)]
    topics = [options.topic]
    if options.topic is None:
        with error_prefix("Failed to list topics"):
            topics = sorted(admin.list_topics(include_internal=True))
    partitions: list[TopicPartition] = []
    for batch in _batches(topics):
        with error_prefix(f"Failed to describe {len(batch)} topics"):
            described = admin.describe_topics(batch).raise_first()
        partitions += [
            TopicPartition(str(topic), info.partition)
            for topic, description in described.items()
            for info in description.partitions
            if options.broker_id is None or options.broker_id in info.replicas
        ]
    return partitions


def _open(
    admin: Admin, partitions: Sequence[TopicPartition], broker_id: int | None
) -> Iterable[OpenTransaction]:
    broker_text = "Optional.empty" if broker_id is None else f"Optional[{broker_id}]"
    with error_prefix(
        f"Failed to describe producers for {len(partitions)} partitions on broker {broker_text}"
    ):
        results = admin.describe_producers(partitions, broker_id=broker_id).raise_first()
    for partition, producers in results.items():
        for producer in producers:
            if producer.current_txn_start_offset != NOT_KNOWN:
                yield OpenTransaction(partition, producer)


def _transactional_ids(admin: Admin, producer_ids: set[int]) -> dict[int, str]:
    with error_prefix(f"Failed to list transactions for {len(producer_ids)} producers"):
        results = admin.list_transactions(producer_ids=producer_ids).raise_first()
    return {
        listing.producer_id: listing.transactional_id for listings in results.values() for listing in listings
    }


def _descriptions(admin: Admin, names: set[str]) -> dict[str, TransactionDescription]:
    """The descriptions of the ids that their coordinators know."""
    if not names:
        return {}
    with error_prefix(f"Failed to describe {len(names)} transactions"):
        results = admin.describe_transactions(names)
        for error in results.errors.values():
            if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise KafkaError(error.code, error.message)
    return results.values_by_key


def _batches(values: Sequence[T]) -> Iterable[list[T]]:
    return (list(values[start : start + BATCH]) for start in range(0, len(values), BATCH))
