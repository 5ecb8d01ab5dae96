"""The search for transactions that hang: open in a partition, and nobody will ever end them (KIP-664)."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.cli.framework.columns import tabbed_table
from barnabas.cli.transactions.command import NOT_KNOWN, failing
from barnabas.client.admin.records import ProducerState
from barnabas.client.model import TopicPartition
from barnabas.runtime.clock import SystemClock

if TYPE_CHECKING:
    from barnabas.client.admin.transactions import TransactionDescription
    from barnabas.client.sync import Admin

T = TypeVar("T")

# Partitions and topics that are asked about at once.
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


class Open(NamedTuple):
    """A transaction that a partition waits for."""

    place: TopicPartition
    producer: ProducerState


def search(admin: Admin, options: Namespace) -> list[Open]:
    """What is open for longer than it may be, and is not in the books of its coordinator."""
    oldest_ms = SystemClock().wall_ms() - options.max_transaction_timeout * MINUTE_MS
    places = _places(admin, options)
    found = [
        one
        for some in _batches(places)
        for one in _open(admin, some, options.broker_id)
        if one.producer.last_timestamp < oldest_ms
    ]
    if not found:
        return []
    names = _transactional_ids(admin, {one.producer.producer_id for one in found})
    books = _descriptions(admin, set(names.values()))
    return [one for one in found if _hangs(one, books.get(names.get(one.producer.producer_id, "")))]


def _hangs(one: Open, described: TransactionDescription | None) -> bool:
    """The coordinator still writes markers to the partitions that it names, and to no others."""
    return described is None or one.place not in described.partitions


def table(found: Sequence[Open]) -> str:
    now_ms = SystemClock().wall_ms()
    rows = [
        (
            place.topic,
            place.partition,
            producer.producer_id,
            producer.producer_epoch,
            producer.coordinator_epoch,
            producer.current_txn_start_offset,
            producer.last_timestamp,
            (now_ms - producer.last_timestamp) // MINUTE_MS,
        )
        for place, producer in found
    ]
    return tabbed_table(HEADERS, rows)


def _places(admin: Admin, options: Namespace) -> list[TopicPartition]:
    if options.topic is not None and options.partition is not None:
        return [TopicPartition(options.topic, options.partition)]
    topics = [options.topic]
    if options.topic is None:
        with failing("Failed to list topics"):
            topics = sorted(admin.list_topics(include_internal=True))
    places: list[TopicPartition] = []
    for some in _batches(topics):
        with failing(f"Failed to describe {len(some)} topics"):
            described = admin.describe_topics(some).raise_first()
        places += [
            TopicPartition(str(topic), one.partition)
            for topic, description in described.items()
            for one in description.partitions
            if options.broker_id is None or options.broker_id in one.replicas
        ]
    return places


def _open(admin: Admin, places: Sequence[TopicPartition], broker_id: int | None) -> Iterable[Open]:
    asked = "Optional.empty" if broker_id is None else f"Optional[{broker_id}]"
    with failing(f"Failed to describe producers for {len(places)} partitions on broker {asked}"):
        found = admin.describe_producers(places, broker_id=broker_id).raise_first()
    for place, producers in found.items():
        for one in producers:
            if one.current_txn_start_offset != NOT_KNOWN:
                yield Open(place, one)


def _transactional_ids(admin: Admin, producer_ids: set[int]) -> dict[int, str]:
    with failing(f"Failed to list transactions for {len(producer_ids)} producers"):
        found = admin.list_transactions(producer_ids=producer_ids).raise_first()
    return {one.producer_id: one.transactional_id for listings in found.values() for one in listings}


def _descriptions(admin: Admin, names: set[str]) -> dict[str, TransactionDescription]:
    """Of the ids that their coordinators know."""
    if not names:
        return {}
    with failing(f"Failed to describe {len(names)} transactions"):
        found = admin.describe_transactions(names)
        for error in found.errors.values():
            if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise KafkaError(error.code, error.message)
    return found.values_by_key


def _batches(things: Sequence[T]) -> Iterable[list[T]]:
    return (list(things[start : start + BATCH]) for start in range(0, len(things), BATCH))
