"""Single looks at partitions: the end of the leader's log, open transactions, the next record."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from barnabas.base.errors import KafkaError
from barnabas.base.ids import CONSUMER_REPLICA
from barnabas.batch.engine.consume import ConsumerRecord
from barnabas.client.admin.admin import Admin
from barnabas.client.admin.configs import ConfigResource, ConfigResourceType
from barnabas.client.admin.transactions import TransactionDescription
from barnabas.client.broker_connection import BrokerConnection
from barnabas.client.consumer.consumer import Consumer
from barnabas.client.errors.kinds import AuthorizationError, ClientError, error_for
from barnabas.client.explain.decoding import Format, fault_of
from barnabas.client.explain.facts import OpenTransaction, PartitionFacts
from barnabas.client.model import TopicPartition, by_topic
from barnabas.config import CONSUMER
from barnabas.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)

MIN_ISR = "min.insync.replicas"
# Partitions whose next record is looked at, and the records before it that tell what it should be.
MAX_SAMPLED = 16
BEFORE = 5
SAMPLE_MS = 2_000
# Of one record; one that is larger is looked at all the same.
SAMPLE_BYTES = 65_536


async def end_offsets(
    admin: Admin, epochs: Mapping[TopicPartition, int], timeout_ms: int
) -> dict[TopicPartition, int]:
    """Where the leaders' logs end, which may lie beyond the high watermark: the end of the current epoch."""

    async def ask(
        connection: BrokerConnection, some: list[TopicPartition]
    ) -> dict[TopicPartition, int | KafkaError]:
        request = OffsetForLeaderEpochRequest(
            replica_id=CONSUMER_REPLICA,
            topics=[
                OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
                    topic=topic,
                    partitions=[
                        OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
                            partition=number, leader_epoch=epochs[TopicPartition(topic, number)]
                        )
                        for number in numbers
                    ],
                )
                for topic, numbers in by_topic(some).items()
            ],
        )
        answer = await connection.ask(request, OffsetForLeaderEpochResponse)
        return {
            TopicPartition(topic.topic, one.partition): error_for(one.error_code)
            if one.error_code
            else one.end_offset
            for topic in answer.topics
            for one in topic.partitions
        }

    if not epochs:
        return {}
    found = await admin.ask_leaders(epochs, ask, timeout_ms, "OffsetForLeaderEpoch")
    return {where: offset for where, offset in found.values_by_key.items() if offset >= 0}


async def min_isr_of(admin: Admin, topics: Collection[str], timeout_ms: int) -> dict[str, int]:
    """min.insync.replicas of topics, as far as we may see it."""
    resources = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in topics]
    if not resources:
        return {}
    try:
        found = await admin.describe_configs(resources, names=[MIN_ISR], timeout_ms=timeout_ms)
    except ClientError:
        return {}
    return {
        resource.name: int(entries[MIN_ISR].value or 1)
        for resource, entries in found.values_by_key.items()
        if MIN_ISR in entries
    }


async def open_transactions(
    admin: Admin, partitions: Sequence[TopicPartition], timeout_ms: int
) -> dict[TopicPartition, tuple[OpenTransaction, ...]]:
    """Who holds the last stable offset back."""
    if not partitions:
        return {}
    try:
        states = (await admin.describe_producers(partitions, timeout_ms=timeout_ms)).values_by_key
        open_in = {
            where: [one for one in producers if one.current_txn_start_offset >= 0]
            for where, producers in states.items()
        }
        ids = {one.producer_id for producers in open_in.values() for one in producers}
        known = await _described(admin, ids, timeout_ms)
    except ClientError:
        return {}
    return {
        where: tuple(
            _open(one.producer_id, one.current_txn_start_offset, known.get(one.producer_id))
            for one in producers
        )
        for where, producers in open_in.items()
    }


async def _described(
    admin: Admin, producer_ids: Iterable[int], timeout_ms: int
) -> dict[int, tuple[str, TransactionDescription]]:
    listed = await admin.list_transactions(producer_ids=producer_ids, timeout_ms=timeout_ms)
    names = {one.transactional_id for some in listed.values_by_key.values() for one in some}
    if not names:
        return {}
    found = await admin.describe_transactions(names, timeout_ms=timeout_ms)
    return {one.producer_id: (name, one) for name, one in found.values_by_key.items()}


def _open(
    producer_id: int, start_offset: int, known: tuple[str, TransactionDescription] | None
) -> OpenTransaction:
    if known is None:
        return OpenTransaction(producer_id, start_offset)
    name, one = known
    return OpenTransaction(
        producer_id, start_offset, name, one.state, one.transaction_start_time_ms, one.transaction_timeout_ms
    )


# The next record
# ----------------------------------------------------------------------------------------------


async def next_faults(
    admin: Admin, partitions: Sequence[PartitionFacts], expected: Format
) -> dict[TopicPartition, str]:
    """Why the next record of the group cannot be read or decoded, where it cannot."""
    waiting = [one for one in partitions if one.leader is not None and one.readable and _is_in_log(one)]
    if not waiting or expected is Format.BYTES:
        return {}
    known = CONSUMER.options()
    given = {name: value for name, value in admin.settings.given.items() if name in known}
    found = {}
    options = {"group_id": None, "max_partition_fetch_bytes": SAMPLE_BYTES, "enable_auto_commit": False}
    async with Consumer(given, **options) as consumer:
        for one in waiting[:MAX_SAMPLED]:
            fault = await _fault_at(consumer, one, expected)
            if fault is not None:
                found[one.where] = fault
    return found


def _is_in_log(one: PartitionFacts) -> bool:
    return one.committed is not None and one.log_start is not None and one.committed >= one.log_start


async def _fault_at(consumer: Consumer, one: PartitionFacts, expected: Format) -> str | None:
    """Read the next record with some of those before it."""
    assert one.committed is not None
    assert one.log_start is not None
    consumer.assign([one.where])
    consumer.seek(one.where, max(one.log_start, one.committed - BEFORE))
    read: list[ConsumerRecord] = []
    try:
        while not read or read[-1].offset < one.committed:
            some = await consumer.poll(timeout_ms=SAMPLE_MS)
            if not some:
                return None
            read += some
    except AuthorizationError:
        return None
    except KafkaError as error:
        return f"it cannot be read: {error.message}"
    following = next(record for record in read if record.offset >= one.committed)
    before = [_value(record) for record in read if record.offset < one.committed]
    return fault_of(_value(following), before[-BEFORE:], expected)


def _value(record: ConsumerRecord) -> bytes | None:
    value = record.value
    assert value is None or isinstance(value, bytes), "no deserialiser is set"
    return value
