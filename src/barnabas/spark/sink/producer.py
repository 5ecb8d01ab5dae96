"""A producer for whole tables: Arrow rows into batches, batches to their leaders.

Fills the client's queues many rows at a time, and records where the rows were written.  The conversion of
rows belongs in `columns`, the end of the transaction in `driver`.
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
    """Produces rows over a shared cluster client; runs on one loop."""

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
        """The written offsets, by partition."""
        return tuple(self._written[partition] for partition in sorted(self._written))

    def deadline(self) -> Deadline:
        return Deadline(self._settings["max.block.ms"])

    # ---------------------------------------------------------------------------------------------- appending

    async def take(self, topic: str, rows: ArrowRows) -> None:
        """Append rows to the queues; waits for metadata and buffer memory (`max.block.ms`)."""
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
                # Yield to the sender between Arrow batches.
                await asyncio.sleep(0)
                return
            if not 0 <= partition < queues.count:
                raise UnknownTopicOrPartitionError(
                    f"topic {topic} has {queues.count} partitions, so there is no partition {partition}"
                )
            queue = queues.queues[partition]
            self._accumulator.close_batch(queue)
            targets[partition] = None
            if sticks and queues.sticky is not queue:
                # The batch was full: rows without a key continue in another partition.
                continue
            size = HEADER_SIZE + rows.size_of(row)
            if await self._wait_for_memory(size, deadline):
                targets = _targets(queues)
            targets[partition] = self._open(queue, size).gatherer

    async def put(self, topic_partition: TopicPartition, record: Record) -> None:
        """Append one record, unchanged, to a partition's queue."""
        deadline = self.deadline()
        queues = self._accumulator.topic(await self._cluster.topic(topic_partition.topic, deadline))
        queue = queues.queues[topic_partition.partition]
        row = (record.timestamp, record.key, record.value, record.headers)
        if queue.open is not None and queue.open.append(*row) >= 0:
            return
        size = HEADER_SIZE + largest_record(record.key, record.value, record.headers)
        await self._wait_for_memory(size, deadline)
        self._open(queue, size).append(*row)

    async def _wait_for_memory(self, size: int, deadline: Deadline) -> bool:
        """Wait for memory for a batch; returns whether it had to wait."""
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
        # A callback for the first record is enough: it is called when every part of the batch is finished.
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

    # ------------------------------------------------------------------------------------------------ the end

    async def flush(self) -> None:
        """Wait until all rows are written; raises if one failed."""
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
        """Abort the transaction, if one is open: its rows are not needed."""
        transactions = self.transactions
        if transactions is not None and transactions.state in (State.OPEN, State.FAILED):
            await transactions.abort(self.deadline())

    async def close(self) -> None:
        """Close without ending an open transaction, which the driver will end."""
        await self._sender.close()


def _targets(queues: TopicQueues) -> list[Gatherer | None]:
    """Return the open batches by partition."""
    return [None if queue.open is None else queue.open.gatherer for queue in queues.queues[: queues.count]]


def _parts(batch: ProducerBatch) -> list[ProducerBatch]:
    """Return the batches that were actually sent: a batch that is too large is split."""
    if batch.parts is None:
        return [batch]
    return [found for part in batch.parts for found in _parts(part)]
