"""Reading a few records of a partition: the last decision, and the outcome of a transaction."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from enum import Enum

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.batch.control import batch_marker
from barnabas.batch.records import Record
from barnabas.batch.view import BatchView
from barnabas.batch.view import batches as whole_batches
from barnabas.client.admin.admin import Admin
from barnabas.client.admin.records import IsolationLevel, OffsetSpec
from barnabas.client.broker_connection import BrokerConnection
from barnabas.client.errors.base import error_for
from barnabas.client.errors.local import KafkaTimeoutError
from barnabas.client.model import TopicPartition
from barnabas.client.retries import Deadline
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.primitives import record_view
from barnabas.spark.sink.decision import BrokenPromiseError, OpenTransaction, Written

# The last version that identifies topics by name.
LAST_NAMED_FETCH = 12
FETCH_BYTES = 1 << 20
ONE_BATCH = 1
MAX_WAIT_MS = 100
# How far before its end a control topic is read first; the span grows by the factor until a record is found.
FIRST_SPAN = 64
SPAN_FACTOR = 16


class Fate(Enum):
    """The outcome of a transaction, according to its partitions."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open, or behind another open one"
    DELETED = "deleted since"


@dataclass(frozen=True, slots=True)
class Committed:
    """The value of the newest committed record with a key."""

    value: bytes
    offset: int


async def fetch(
    admin: Admin,
    topic_partition: TopicPartition,
    offset: int,
    isolation: IsolationLevel,
    max_bytes: int = FETCH_BYTES,
) -> FetchResponse.PartitionData:
    """Fetch from a partition's leader: at least one batch, if there is one."""

    async def send(
        connection: BrokerConnection, requested: list[TopicPartition]
    ) -> Mapping[TopicPartition, FetchResponse.PartitionData | KafkaError]:
        wanted = FetchRequest.Partition(
            partition=topic_partition.partition, fetch_offset=offset, partition_max_bytes=max_bytes
        )
        request = FetchRequest(
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=isolation,
            topics=[FetchRequest.Topic(topic=topic_partition.topic, partitions=[wanted])],
        )
        response = await connection.send(request, FetchResponse, highest=LAST_NAMED_FETCH)
        if response.error_code:
            return {topic_partition: error_for(response.error_code)}
        data = response.responses[0].partitions[0]
        return {topic_partition: error_for(data.error_code) if data.error_code else data}

    return (await admin.send_to_leaders([topic_partition], send, None, "Fetch"))[topic_partition]


async def batches_between(
    admin: Admin, topic_partition: TopicPartition, start: int, end: int
) -> AsyncIterator[BatchView]:
    """Yield the batches between two offsets, committed or not; waits for a new leader's high watermark."""
    offset = start
    deadline = Deadline(admin.settings["default.api.timeout.ms"])
    while offset < end:
        if deadline.passed:
            raise KafkaTimeoutError(
                f"{topic_partition} has nothing at offset {offset}, though it had records there: has it "
                "lost data?"
            )
        data = await fetch(admin, topic_partition, offset, IsolationLevel.READ_UNCOMMITTED)
        reached = offset
        for batch in whole_batches(record_view(data.records)):
            if batch.next_offset > offset and batch.base_offset < end:
                yield batch
            reached = max(reached, batch.next_offset)
        if reached > offset:
            deadline = Deadline(deadline.timeout_ms)
        offset = reached


async def newest_committed(admin: Admin, topic_partition: TopicPartition, key: bytes) -> Committed | None:
    """Return the newest committed record with this key.

    Transactions are filtered here and not by the broker, so that the open transaction of another sink does
    not hide what follows it.  The caller has ensured that none of its own is open.
    """
    first = (await admin.list_offsets({topic_partition: OffsetSpec.EARLIEST}))[topic_partition].offset
    end = (await admin.list_offsets({topic_partition: OffsetSpec.LATEST}))[topic_partition].offset
    span = FIRST_SPAN
    while True:
        start = max(first, end - span)
        newest = await _newest_from(admin, topic_partition, key, start, end)
        if newest is not None or start == first:
            return newest
        span *= SPAN_FACTOR


async def _newest_from(
    admin: Admin, topic_partition: TopicPartition, key: bytes, start: int, end: int
) -> Committed | None:
    pending: dict[int, Committed] = {}
    newest: Committed | None = None
    async for batch in batches_between(admin, topic_partition, start, end):
        if batch.is_control:
            ended = pending.pop(batch.producer_id, None)
            marker = batch_marker(batch) if ended is not None else None
            if marker is not None and marker.commit:
                newest = ended
        elif batch.is_transactional:
            for record in batch.records():
                if record.key == key and record.value is not None:
                    pending[batch.producer_id] = Committed(record.value, record.offset)
    return newest


async def fate_of(admin: Admin, open_transaction: OpenTransaction) -> Fate:
    """Return the outcome of a transaction; a marker is in all of its partitions or being written there."""
    fates = [await _fate_in(admin, open_transaction, written) for written in open_transaction.written]
    for fate in (Fate.ABORTED, Fate.OPEN, Fate.COMMITTED):
        if fate in fates:
            return fate
    return Fate.DELETED


async def _fate_in(admin: Admin, open_transaction: OpenTransaction, written: Written) -> Fate:
    partition = TopicPartition(written.topic, written.partition)
    try:
        data = await fetch(admin, partition, written.first, IsolationLevel.READ_COMMITTED, ONE_BATCH)
    except KafkaError as error:
        if error.code in (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            return Fate.DELETED
        raise
    if data.last_stable_offset <= written.last:
        return Fate.OPEN
    aborted = {(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()}
    return Fate.ABORTED if (open_transaction.producer_id, written.first) in aborted else Fate.COMMITTED


async def rows_of(admin: Admin, open_transaction: OpenTransaction) -> list[tuple[TopicPartition, Record]]:
    """Return the rows of an aborted transaction, which stay in the log until retention or compaction
    deletes them."""
    results: list[tuple[TopicPartition, Record]] = []
    for written in open_transaction.written:
        partition = TopicPartition(written.topic, written.partition)
        before = len(results)
        try:
            async for batch in batches_between(admin, partition, written.first, written.last + 1):
                owner = (batch.producer_id, batch.producer_epoch)
                if (
                    owner == (open_transaction.producer_id, open_transaction.producer_epoch)
                    and not batch.is_control
                ):
                    results.extend((partition, record) for record in batch.records())
        except KafkaError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
        if len(results) - before != written.count:
            raise BrokenPromiseError(
                f"{written.count - len(results) + before} of {written.count} rows of the decision are "
                f"lost: their transaction {open_transaction.transactional_id} was aborted by the broker "
                "before it could "
                f"be committed, and {partition} has deleted them since; run the query again from an older "
                "checkpoint, with another sinkId"
            )
    return results
