"""A producer of whole tables: Arrow rows into batches, batches to their leaders.

What lives here: filling the client's queues many rows at a time, and where the rows were written.  What may
not: Arrow and Spark, which have made rows of it (columns), and who ends the transaction (driver).
"""

from __future__ import annotations

import asyncio
from functools import partial

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.batch.engine.arrow_rows import ArrowRows, gather_rows
from barnabas.batch.engine.gather import Gatherer, largest_record
from barnabas.batch.records import Record
from barnabas.batch.view import HEADER_SIZE
from barnabas.client.cluster import Cluster
from barnabas.client.errors.base import error_for
from barnabas.client.errors.data import UnknownTopicOrPartitionError
from barnabas.client.errors.local import RecordTooLargeError
from barnabas.client.model import TopicPartition
from barnabas.client.producer.accumulator import Accumulator, PartitionQueue, TopicQueues
from barnabas.client.producer.batches import ProducerBatch, RecordMetadata
from barnabas.client.producer.sender import Sender
from barnabas.client.producer.transactions import State, Transactions
from barnabas.client.retries import Deadline
from barnabas.config.settings import Settings
from barnabas.runtime.clock import SystemClock
from barnabas.spark.sink.decision import Written


class TableProducer:
    """Produces rows over a cluster that others use too; lives on one loop."""

    def __init__(self, settings: Settings, cluster: Cluster) -> None:
        self._settings = settings
        self._cluster = cluster
        self._now_ms = SystemClock().wall_ms
        self._accumulator = Accumulator(settings, cluster.random)
        self._sender = Sender(settings, cluster, self._accumulator)
        self._hashes_keys = not settings["partitioner.ignore.keys"]
        self.transactions: Transactions | None = None
        if settings["transactional.id"] is not None:
            assert self._sender.identity is not None
            self.transactions = Transactions(
                settings, cluster, self._sender.identity, self._sender.wake, self._settle
            )
            self._sender.transactions = self.transactions
        self._written: dict[TopicPartition, Written] = {}
        self._error: KafkaError | None = None

    @property
    def identity(self) -> tuple[int, int]:
        """Producer id and epoch."""
        assert self._sender.identity is not None
        return self._sender.identity.pair

    @property
    def written(self) -> tuple[Written, ...]:
        """Where rows were written, partition by partition."""
        return tuple(self._written[one] for one in sorted(self._written))

    def deadline(self) -> Deadline:
        return Deadline(self._settings["max.block.ms"])

    # ----------------------------------------------------------------------------------------------- taking

    async def take(self, topic: str, rows: ArrowRows) -> None:
        """Put rows in the queues; waits for metadata and for room (`max.block.ms`)."""
        deadline = self.deadline()
        queues = self._accumulator.topic(await self._cluster.topic(topic, deadline))
        row = 0
        targets = _targets(queues)
        while True:
            self._raise_failure()
            sticky = queues.sticky.topic_partition.partition
            row, partition, sticks = gather_rows(
                rows, row, self._now_ms(), targets, sticky, self._hashes_keys
            )
            if row == rows.count:
                # The sender and its answers get their turn between Arrow batches.
                await asyncio.sleep(0)
                return
            if not 0 <= partition < queues.count:
                raise UnknownTopicOrPartitionError(
                    f"the topic {topic} has {queues.count} partitions, and none with the number {partition}"
                )
            queue = queues.queues[partition]
            self._accumulator.close_batch(queue)
            targets[partition] = None
            if sticks and queues.sticky is not queue:
                # The batch was full: rows without key go on to another partition.
                continue
            size = HEADER_SIZE + rows.size_of(row)
            if await self._room(size, deadline):
                targets = _targets(queues)
            targets[partition] = self._open(queue, size).gatherer

    async def put(self, where: TopicPartition, record: Record) -> None:
        """One record, as it is, at the end of one partition's queue."""
        deadline = self.deadline()
        queues = self._accumulator.topic(await self._cluster.topic(where.topic, deadline))
        queue = queues.queues[where.partition]
        row = (record.timestamp, record.key, record.value, record.headers)
        if queue.open is not None and queue.open.append(*row) >= 0:
            return
        size = HEADER_SIZE + largest_record(record.key, record.value, record.headers)
        await self._room(size, deadline)
        self._open(queue, size).append(*row)

    async def _room(self, size: int, deadline: Deadline) -> bool:
        """Wait for the memory of a batch; whether that took any waiting."""
        limit: int = self._settings["max.request.size"]
        if size > limit:
            raise RecordTooLargeError(
                f"a row of up to {size} bytes is larger than kafka.max.request.size, {limit}"
            )
        if self._accumulator.has_memory(size):
            return False
        await self._accumulator.wait_for_memory(size, deadline)
        return True

    def _open(self, queue: PartitionQueue, size: int) -> ProducerBatch:
        batch = self._accumulator.open_batch(queue, size)
        # Its first record stands for all of them: it is told when every part of the batch is done.
        batch.listen(partial(self._done, batch), 0, self._now_ms())
        return batch

    def _done(self, batch: ProducerBatch, metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        for part in _parts(batch):
            if part.error is not None:
                self._error = self._error or part.error
                continue
            partition = TopicPartition(part.topic, part.partition)
            written = Written(
                part.topic,
                part.partition,
                part.base_offset,
                part.base_offset + part.record_count - 1,
                part.record_count,
            )
            known = self._written.get(partition)
            self._written[partition] = written if known is None else known.and_also(written)

    # --------------------------------------------------------------------------------------------- the end

    async def flush(self) -> None:
        """Wait until all rows are written; raises why one is not."""
        await self._settle(False)
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self.transactions is not None and self.transactions.error is not None:
            raise self.transactions.error
        if self._error is not None:
            raise self._error

    async def _settle(self, drop_unsent: bool) -> None:
        if drop_unsent:
            error = error_for(ErrorCode.TRANSACTION_ABORTABLE, "the transaction was aborted")
            self._sender.abort(error, unsent_only=True)
        batches = list(self._accumulator.incomplete)
        self._accumulator.make_all_due()
        for batch in batches:
            if not batch.is_done:
                await asyncio.shield(batch.future)

    async def give_up(self) -> None:
        """Abort the transaction, if one is open: its rows are not wanted."""
        transactions = self.transactions
        if transactions is not None and transactions.state in (State.OPEN, State.FAILED):
            await transactions.abort(self.deadline())

    async def close(self) -> None:
        """Leave without a word: an open transaction stays open, for the driver to end it."""
        await self._sender.close()


def _targets(queues: TopicQueues) -> list[Gatherer | None]:
    """The batches that take rows now, by partition."""
    return [None if queue.open is None else queue.open.gatherer for queue in queues.queues[: queues.count]]


def _parts(batch: ProducerBatch) -> list[ProducerBatch]:
    """The batches that were really sent: a batch that a broker finds too large goes in parts."""
    if batch.parts is None:
        return [batch]
    return [found for part in batch.parts for found in _parts(part)]
