"""Reading a few records of a partition: what is decided, and what became of a transaction.

What lives here: single fetches and what they tell.  What may not: what follows from it (driver).
"""

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

# The last version that names topics by name.
LAST_NAMED_FETCH = 12
FETCH_BYTES = 1 << 20
ONE_BATCH = 1
MAX_WAIT_MS = 100
# How far from its end a control topic is read first; if that is not enough, so many times as far.
FIRST_SPAN = 64
SPAN_FACTOR = 16


class Fate(Enum):
    """What became of a transaction, as its partitions tell."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open, or behind another one that is"
    GONE = "deleted since"


@dataclass(frozen=True, slots=True)
class Committed:
    """The value of the newest committed record with a key."""

    value: bytes
    offset: int


async def fetch(
    admin: Admin, where: TopicPartition, offset: int, isolation: IsolationLevel, max_bytes: int = FETCH_BYTES
) -> FetchResponse.PartitionData:
    """What a partition's leader gives from an offset on: at least one batch, if there is one."""

    async def send(
        connection: BrokerConnection, some: list[TopicPartition]
    ) -> Mapping[TopicPartition, FetchResponse.PartitionData | KafkaError]:
        wanted = FetchRequest.Partition(
            partition=where.partition, fetch_offset=offset, partition_max_bytes=max_bytes
        )
        request = FetchRequest(
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=isolation,
            topics=[FetchRequest.Topic(topic=where.topic, partitions=[wanted])],
        )
        response = await connection.send(request, FetchResponse, highest=LAST_NAMED_FETCH)
        if response.error_code:
            return {where: error_for(response.error_code)}
        found = response.responses[0].partitions[0]
        return {where: error_for(found.error_code) if found.error_code else found}

    return (await admin.send_to_leaders([where], send, None, "Fetch"))[where]


async def batches_between(
    admin: Admin, where: TopicPartition, start: int, end: int
) -> AsyncIterator[BatchView]:
    """The batches from an offset up to another, committed or not; waits for a new leader to know of them."""
    offset = start
    deadline = Deadline(admin.settings["default.api.timeout.ms"])
    while offset < end:
        if deadline.passed:
            raise KafkaTimeoutError(
                f"{where} has nothing at offset {offset}, though it had: has it lost data?"
            )
        found = await fetch(admin, where, offset, IsolationLevel.READ_UNCOMMITTED)
        reached = offset
        for batch in whole_batches(record_view(found.records)):
            if batch.next_offset > offset and batch.base_offset < end:
                yield batch
            reached = max(reached, batch.next_offset)
        if reached > offset:
            deadline = Deadline(deadline.timeout_ms)
        offset = reached


async def newest_committed(admin: Admin, where: TopicPartition, key: bytes) -> Committed | None:
    """The newest committed record with this key.

    Transactions are told apart here and not by the broker, so that the open transaction of another sink does
    not hide what stands behind it.  Whoever calls has made sure that none of its own is open.
    """
    first = (await admin.list_offsets({where: OffsetSpec.EARLIEST}))[where].offset
    end = (await admin.list_offsets({where: OffsetSpec.LATEST}))[where].offset
    span = FIRST_SPAN
    while True:
        start = max(first, end - span)
        found = await _newest_from(admin, where, key, start, end)
        if found is not None or start == first:
            return found
        span *= SPAN_FACTOR


async def _newest_from(
    admin: Admin, where: TopicPartition, key: bytes, start: int, end: int
) -> Committed | None:
    pending: dict[int, Committed] = {}
    newest: Committed | None = None
    async for batch in batches_between(admin, where, start, end):
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
    """What became of a transaction; a marker stands in all of its partitions or is on its way there."""
    fates = [await _fate_in(admin, open_transaction, written) for written in open_transaction.written]
    for fate in (Fate.ABORTED, Fate.OPEN, Fate.COMMITTED):
        if fate in fates:
            return fate
    return Fate.GONE


async def _fate_in(admin: Admin, open_transaction: OpenTransaction, written: Written) -> Fate:
    partition = TopicPartition(written.topic, written.partition)
    try:
        found = await fetch(admin, partition, written.first, IsolationLevel.READ_COMMITTED, ONE_BATCH)
    except KafkaError as error:
        if error.code in (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            return Fate.GONE
        raise
    if found.last_stable_offset <= written.last:
        return Fate.OPEN
    aborted = {(each.producer_id, each.first_offset) for each in found.aborted_transactions or ()}
    return Fate.ABORTED if (open_transaction.producer_id, written.first) in aborted else Fate.COMMITTED


async def rows_of(admin: Admin, open_transaction: OpenTransaction) -> list[tuple[TopicPartition, Record]]:
    """The rows of an aborted transaction, which stay in the log until retention or compaction takes them."""
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
                f"{written.count - len(results) + before} of {written.count} rows that were decided upon are "
                f"lost: their transaction {open_transaction.transactional_id} was aborted by the broker before it could "
                f"be committed, and {partition} has deleted them since; run the query again from an older "
                "checkpoint, with another sinkId"
            )
    return results
