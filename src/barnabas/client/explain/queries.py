"""Queries about partitions: log end offsets, open transactions, the next record."""

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
from barnabas.client.errors.base import AuthorizationError, ClientError, error_for
from barnabas.client.explain.decoding import Format, fault_of
from barnabas.client.explain.facts import OpenTransaction, PartitionFacts
from barnabas.client.model import TopicPartition, by_topic
from barnabas.config import CONSUMER
from barnabas.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)

MIN_ISR = "min.insync.replicas"
# Partitions whose next record is sampled, and the preceding records that show its expected format.
MAX_SAMPLED = 16
BEFORE = 5
SAMPLE_MS = 2_000
# Per fetch; a larger record is returned all the same.
SAMPLE_BYTES = 65_536


async def end_offsets(
    admin: Admin, epochs: Mapping[TopicPartition, int], timeout_ms: int
) -> dict[TopicPartition, int]:
    """Return the log end offsets of the leaders, which may be beyond the high watermark."""

    async def send(
        connection: BrokerConnection, requested: list[TopicPartition]
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
                for topic, numbers in by_topic(requested).items()
            ],
        )
        response = await connection.send(request, OffsetForLeaderEpochResponse)
        return {
            TopicPartition(topic.topic, partition.partition): error_for(partition.error_code)
            if partition.error_code
            else partition.end_offset
            for topic in response.topics
            for partition in topic.partitions
        }

    if not epochs:
        return {}
    outcomes = await admin.send_to_leaders(epochs, send, timeout_ms, "OffsetForLeaderEpoch")
    return {partition: offset for partition, offset in outcomes.values_by_key.items() if offset >= 0}


async def min_isr_of(admin: Admin, topics: Collection[str], timeout_ms: int) -> dict[str, int]:
    """Return min.insync.replicas of topics, as far as we are authorized to see it."""
    resources = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in topics]
    if not resources:
        return {}
    try:
        outcomes = await admin.describe_configs(resources, names=[MIN_ISR], timeout_ms=timeout_ms)
    except ClientError:
        return {}
    return {
        resource.name: int(entries[MIN_ISR].value or 1)
        for resource, entries in outcomes.values_by_key.items()
        if MIN_ISR in entries
    }


async def open_transactions(
    admin: Admin, partitions: Sequence[TopicPartition], timeout_ms: int
) -> dict[TopicPartition, tuple[OpenTransaction, ...]]:
    """Return the transactions that hold the last stable offset back."""
    if not partitions:
        return {}
    try:
        states = (await admin.describe_producers(partitions, timeout_ms=timeout_ms)).values_by_key
        open_in = {
            partition: [producer for producer in producers if producer.current_txn_start_offset >= 0]
            for partition, producers in states.items()
        }
        ids = {producer.producer_id for producers in open_in.values() for producer in producers}
        known = await _described(admin, ids, timeout_ms)
    except ClientError:
        return {}
    return {
        partition: tuple(
            _open(producer.producer_id, producer.current_txn_start_offset, known.get(producer.producer_id))
            for producer in producers
        )
        for partition, producers in open_in.items()
    }


async def _described(
    admin: Admin, producer_ids: Iterable[int], timeout_ms: int
) -> dict[int, tuple[str, TransactionDescription]]:
    listed = await admin.list_transactions(producer_ids=producer_ids, timeout_ms=timeout_ms)
    names = {entry.transactional_id for requested in listed.values_by_key.values() for entry in requested}
    if not names:
        return {}
    outcomes = await admin.describe_transactions(names, timeout_ms=timeout_ms)
    return {entry.producer_id: (name, entry) for name, entry in outcomes.values_by_key.items()}


def _open(
    producer_id: int, start_offset: int, known: tuple[str, TransactionDescription] | None
) -> OpenTransaction:
    if known is None:
        return OpenTransaction(producer_id, start_offset)
    name, entry = known
    return OpenTransaction(
        producer_id,
        start_offset,
        name,
        entry.state,
        entry.transaction_start_time_ms,
        entry.transaction_timeout_ms,
    )


# ------------------------------------------------------------------------------------------------ next record


async def next_faults(
    admin: Admin, partitions: Sequence[PartitionFacts], expected: Format
) -> dict[TopicPartition, str]:
    """Return why the group's next record cannot be read or decoded, where it cannot."""
    waiting = [
        partition
        for partition in partitions
        if partition.leader is not None and partition.readable and _is_in_log(partition)
    ]
    if not waiting or expected is Format.BYTES:
        return {}
    known = CONSUMER.options()
    given = {name: value for name, value in admin.settings.given.items() if name in known}
    faults = {}
    given |= {"max.partition.fetch.bytes": SAMPLE_BYTES, "enable.auto.commit": False}
    async with Consumer(given) as consumer:
        for entry in waiting[:MAX_SAMPLED]:
            fault = await _fault_at(consumer, entry, expected)
            if fault is not None:
                faults[entry.topic_partition] = fault
    return faults


def _is_in_log(partition: PartitionFacts) -> bool:
    return (
        partition.committed is not None
        and partition.log_start is not None
        and partition.committed >= partition.log_start
    )


async def _fault_at(consumer: Consumer, partition: PartitionFacts, expected: Format) -> str | None:
    """Read the next record and some records before it."""
    assert partition.committed is not None
    assert partition.log_start is not None
    consumer.assign([partition.topic_partition])
    consumer.seek(partition.topic_partition, max(partition.log_start, partition.committed - BEFORE))
    read: list[ConsumerRecord] = []
    try:
        while not read or read[-1].offset < partition.committed:
            requested = await consumer.poll(timeout_ms=SAMPLE_MS)
            if not requested:
                return None
            read += requested
    except AuthorizationError:
        return None
    except KafkaError as error:
        return f"it cannot be read: {error.message}"
    following = next(record for record in read if record.offset >= partition.committed)
    before = [_value(record) for record in read if record.offset < partition.committed]
    return fault_of(_value(following), before[-BEFORE:], expected)


def _value(record: ConsumerRecord) -> bytes | None:
    value = record.value
    assert value is None or isinstance(value, bytes), "no deserializer is set"
    return value
