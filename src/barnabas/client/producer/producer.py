"""The producer: the path of a record to its queue, and the public calls.

Queues belong in `accumulator`, requests in `sender`, transactions in `transactions`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, Unpack

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.type_variables import K, V
from barnabas.base.units import NS_PER_MS
from barnabas.batch.engine.murmur import key_partition
from barnabas.client.cluster import Cluster
from barnabas.client.errors.base import error_for
from barnabas.client.errors.data import UnknownTopicOrPartitionError
from barnabas.client.errors.groups import InvalidTxnStateError
from barnabas.client.errors.local import (
    BufferExhaustedError,
    ClosedError,
    KafkaTimeoutError,
    UndeliveredError,
)
from barnabas.client.model import ConsumerGroupMetadata, OffsetAndMetadata, Partition, Topic, TopicPartition
from barnabas.client.options import producer_options
from barnabas.client.producer.accumulator import Accumulator, TopicQueues
from barnabas.client.producer.batches import ProducerBatch
from barnabas.client.producer.delivery import (
    Delivery,
    OnDelivery,
    ProducerRecord,
    RecordMetadata,
)
from barnabas.client.producer.interceptors import ProducerInterceptors, interceptors
from barnabas.client.producer.placing import HeadersGiven, Placed, Placer, check_arguments, headers_of
from barnabas.client.producer.sender import Sender
from barnabas.client.producer.transactions import State, Transactions
from barnabas.client.producer.undelivered import Undelivered
from barnabas.client.retries import Deadline
from barnabas.client.types.serializers import SerializerGiven
from barnabas.runtime.loop.loop_services import loop_services

if TYPE_CHECKING:
    from barnabas.client.consumer.consumer import Consumer
    from barnabas.client.processing.transaction import Transaction
    from barnabas.client.types.options import ProducerOptions
    from barnabas.client.types.statistics import ProducerStatistics

logger = logging.getLogger(__name__)

# The default, told from others by identity: a comparison costs more for every record.
_NO_HEADERS: HeadersGiven = ()


class Producer(Generic[K, V]):
    """Sends records.

        async with Producer(bootstrap_servers="localhost:9092") as producer:
            delivery = await producer.send("orders", b"value", key=b"key")  # taken; on its way
            metadata = await delivery  # written

    Options are Apache Kafka's, as keywords with underscores or as a dict with dots.
    """

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        /,
        *,
        key_serializer: SerializerGiven[K] | None = None,
        value_serializer: SerializerGiven[V] | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        settings = producer_options(
            config, {**options, "key_serializer": key_serializer, "value_serializer": value_serializer}
        )
        self.settings = settings
        self.cluster = Cluster(settings, allow_auto_topic_creation=True)
        clock = loop_services().clock
        self._now_ns = clock.wall_ns
        self._accumulator = Accumulator(settings, self.cluster.random)
        self._sender = Sender(settings, self.cluster, self._accumulator)
        self._interceptors = ProducerInterceptors(interceptors(settings["interceptor.classes"], settings))
        self._placer = Placer(settings, self.cluster.random, clock.wall_ms)
        self._transactions: Transactions | None = None
        if settings["transactional.id"] is not None:
            assert self._sender.identity is not None
            self._transactions = Transactions(
                settings, self.cluster, self._sender.identity, self._sender.wake, self._settle
            )
            self._sender.transactions = self._transactions
        # Topics whose records can be appended to an open batch directly; empty if the slow path is needed.
        self._quick: dict[str, TopicQueues] = {}
        self._is_plain = self._placer.is_plain and not self._interceptors and self._transactions is None
        self._is_closed = False
        self.cluster.on_update.append(self._metadata_changed)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Like the blocking producer: accepted records are sent, even if the block was left by an exception.
        try:
            await self.close()
        except UndeliveredError as lost:
            if error is None:
                raise
            logger.error("%s", lost.message)

    # ------------------------------------------------------------------------------------------------ sending

    async def send(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        partition: int | None = None,
        headers: HeadersGiven = (),
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Accept a record; waits only for metadata and buffer memory (`max.block.ms`).

        Await the returned delivery for the record's offset.  `on_delivery(metadata, error)` is called as
        well.
        """
        # The fast path is inlined here: a call of `_quick_send` would cost a tenth.  It takes bytes; anything
        # else is a TypeError there, and the slow path serializes it.
        queues = self._quick.get(topic)
        if queues is not None and (on_delivery is None or callable(on_delivery)):
            if partition is None and headers is _NO_HEADERS and timestamp_ms is None:
                try:
                    if key is None:
                        queue = queues.sticky
                    else:
                        queue = queues.queues[key_partition(key, queues.count)]  # type: ignore[arg-type]
                    batch = queue.open
                    # A text would come into the batch half written, and spoil the records of others.
                    if batch is not None and (type(value) is bytes or value is None):
                        time_ms = self._now_ns() // NS_PER_MS
                        delivery = batch.take(time_ms, key, value, ())  # type: ignore[arg-type]
                        if delivery is not None:
                            if on_delivery is not None:
                                batch.listen(on_delivery, delivery.index, time_ms)
                            return delivery
                except TypeError:
                    # A value is not bytes: the slow path raises a descriptive error.
                    pass
            else:
                taken = self._quick_send(queues, value, key, partition, headers, timestamp_ms, on_delivery)
                if taken is not None:
                    return taken
        check_arguments(topic, partition, timestamp_ms, on_delivery)
        record = ProducerRecord(topic, value, key, partition, headers_of(headers), timestamp_ms)
        return await self._send_carefully(record, on_delivery)

    async def send_and_wait(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        partition: int | None = None,
        headers: HeadersGiven = (),
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """Send a record and wait until it is written."""
        metadata: RecordMetadata = await (
            await self.send(topic, value, key, partition, headers, timestamp_ms)
        )
        return metadata

    def send_nowait(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        partition: int | None = None,
        headers: HeadersGiven = (),
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Accept a record if that is possible immediately; raises BufferExhaustedError if it is not.

        The topic must be known already (`partitions_for`, or an earlier send).
        """
        queues = self._quick.get(topic)
        if queues is not None and (on_delivery is None or callable(on_delivery)):
            taken = self._quick_send(queues, value, key, partition, headers, timestamp_ms, on_delivery)
            if taken is not None:
                return taken
        check_arguments(topic, partition, timestamp_ms, on_delivery)
        self._check_open()
        record = self._interceptors.on_send(
            ProducerRecord(topic, value, key, partition, headers_of(headers), timestamp_ms)
        )
        layout = self.cluster.metadata.topics.get(record.topic)
        if layout is None or not layout.partitions:
            raise BufferExhaustedError(f"topic {record.topic} is not known yet: send() waits for it")
        placed = self._placer.place(record, self._accumulator.topic(layout))
        delivery = self._append(placed, on_delivery)
        if delivery is not None:
            return delivery
        if not self._accumulator.has_memory(placed.size):
            raise BufferExhaustedError(f"{self._accumulator.used_bytes} bytes are already waiting to be sent")
        self._accumulator.open_batch(placed.queue, placed.size)
        return self._appended(placed, on_delivery)

    def _quick_send(
        self,
        queues: TopicQueues,
        value: Any,
        key: Any,
        partition: int | None,
        headers: Any,
        timestamp_ms: int | None,
        on_delivery: OnDelivery | None,
    ) -> Delivery | None:
        """The fast path: append bytes to an open batch.  Returns None if the slow path is needed."""
        try:
            if partition is None:
                queue = queues.sticky if key is None else queues.queues[key_partition(key, queues.count)]
            elif 0 <= partition < queues.count:
                queue = queues.queues[partition]
            else:
                return None
            batch = queue.open
            if batch is None or (timestamp_ms is not None and timestamp_ms < 0):
                return None
            if not (value is None or type(value) is bytes) or not (key is None or type(key) is bytes):
                return None
            time_ms = self._now_ns() // NS_PER_MS if timestamp_ms is None else timestamp_ms
            delivery = batch.take(time_ms, key, value, headers_of(headers))
        except TypeError:
            # A value is not bytes: the slow path raises a descriptive error.
            return None
        if delivery is not None and on_delivery is not None:
            batch.listen(on_delivery, delivery.index, time_ms)
        return delivery

    async def _send_carefully(
        self, given: ProducerRecord, on_delivery: OnDelivery | None, deadline: Deadline | None = None
    ) -> Delivery:
        self._check_open()
        if deadline is None:
            deadline = self._block(None)
        record = self._interceptors.on_send(given)
        try:
            # Check before awaiting anything: waiting does not fix an invalid record.
            self._placer.check_types(record.key, record.value)
            layout = await self.cluster.topic(record.topic, deadline)
            queues = self._accumulator.topic(layout)
            if record.partition is not None and record.partition >= queues.count:
                queues = self._accumulator.topic(await self._grown(record, deadline))
            placed = self._placer.place(record, queues)
            delivery = self._append(placed, on_delivery)
            if delivery is not None:
                return delivery
            if not self._accumulator.has_memory(placed.size):
                await self._accumulator.wait_for_memory(placed.size, deadline)
                self._check_open()
        except KafkaError as error:
            self._interceptors.on_acknowledgement(None, error)
            raise
        self._accumulator.open_batch(placed.queue, placed.size)
        delivery = self._appended(placed, on_delivery)
        if self._is_plain and not self._is_closed:
            self._quick[record.topic] = queues
        # A batch was filled or opened: yield to the sender and other tasks.
        await asyncio.sleep(0)
        return delivery

    async def _grown(self, record: ProducerRecord, deadline: Deadline) -> Topic:
        """Wait for the partition that a record names, which may be newer than the cached metadata."""

        async def attempt() -> Topic:
            await self.cluster.update()
            layout = self.cluster.metadata.topics.get(record.topic)
            if layout is None or record.partition not in layout.partition_of:
                raise UnknownTopicOrPartitionError(
                    f"topic {record.topic} has no partition {record.partition}"
                )
            return layout

        return await self.cluster.retries.until(deadline, f"sending to {record.topic}", attempt)

    def _append(self, placed: Placed, on_delivery: OnDelivery | None) -> Delivery | None:
        """Append to the open batch of its queue, if there is one with enough space."""
        for _ in range(2):
            if placed.queue.open is not None and placed.queue.open.append(*placed.row) >= 0:
                return self._taken(placed, placed.queue.open, on_delivery)
            self._accumulator.close_batch(placed.queue)
            if not placed.sticks or placed.queue is placed.queue.topic_queues.sticky:
                return None
            # Closing the full batch has moved the topic's sticky partition.
            placed.queue = placed.queue.topic_queues.sticky
        return None

    def _appended(self, placed: Placed, on_delivery: OnDelivery | None) -> Delivery:
        """Append to the batch that was just opened for it."""
        batch = placed.queue.open
        assert batch is not None
        batch.append(*placed.row)
        return self._taken(placed, batch, on_delivery)

    def _taken(self, placed: Placed, batch: ProducerBatch, on_delivery: OnDelivery | None) -> Delivery:
        index, timestamp_ms = batch.record_count - 1, placed.row[0]
        if on_delivery is not None:
            batch.listen(on_delivery, index, timestamp_ms)
        if self._interceptors:
            batch.listen(self._interceptors.on_acknowledgement, index, timestamp_ms)
        return Delivery(batch, index, timestamp_ms)

    def statistics(self) -> ProducerStatistics:
        """Return what was delivered and what waits; cheap enough for a metrics endpoint."""
        return self._sender.statistics()

    # ------------------------------------------------------------------------------------------- flush, close

    async def flush(self, *, timeout_ms: int | None = None) -> None:
        """Wait until all accepted records are written or have failed."""
        batches = list(self._accumulator.incomplete)
        self._accumulator.make_all_due()
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                for batch in batches:
                    if not batch.is_done:
                        await asyncio.shield(batch.future)
        except TimeoutError:
            left = sum(batch.record_count for batch in batches if not batch.is_done)
            raise KafkaTimeoutError(f"{left} records are still undelivered after {timeout_ms} ms") from None

    async def _settle(self, drop_unsent: bool) -> None:
        """Called at the end of a transaction."""
        if drop_unsent:
            message = "the transaction was aborted before the record was sent"
            self._sender.abort(error_for(ErrorCode.TRANSACTION_ABORTABLE, message), unsent_only=True)
        await self.flush()

    async def close(self, *, timeout_ms: int | None = None) -> None:
        """Send waiting records for at most `timeout_ms`; the others fail.  An open transaction is aborted.

        Raises UndeliveredError, after all is closed, if records failed and nobody has seen their errors: no
        delivery was awaited, and there was no `on_delivery`.  `timeout_ms=0` drops what waits, and only logs
        it.
        """
        await self._shut_down(timeout_ms)
        self._report_lost(only_log=timeout_ms == 0)

    async def _shut_down(self, timeout_ms: int | None) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._quick = {}
        try:
            transactions = self._transactions
            if transactions is not None and transactions.state in (State.OPEN, State.FAILED):
                deadline = self._block(timeout_ms)
                await transactions.abort(deadline)
            await self.flush(timeout_ms=timeout_ms)
        except KafkaError as error:
            logger.warning("the producer was closed before everything was completed: %s", error)
            self._sender.abort(
                error_for(ErrorCode.REQUEST_TIMED_OUT, "the producer was closed before the record was sent"),
                unsent_only=False,
            )
        finally:
            await self._sender.close()
            await self.cluster.close()
            self._interceptors.close()
            self._placer.close()

    def _report_lost(self, *, only_log: bool) -> None:
        lost = self._sender.undelivered.error()
        self._sender.undelivered = Undelivered()
        if lost is not None and only_log:
            logger.warning("%s", lost.message)
        elif lost is not None:
            raise lost

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("the producer is closed; open a new one")
        if self._transactions is not None:
            self._transactions.check_can_send()

    def _metadata_changed(self) -> None:
        """Update layouts, and stop requesting metadata of topics that have been idle for long."""
        idle_s = self.settings["metadata.max.idle.ms"] / 1000
        for name, queues in list(self._accumulator.by_topic.items()):
            layout = self.cluster.metadata.topics.get(name)
            if layout is not None and layout.partitions:
                queues.take(layout)
            if self._accumulator.is_idle(queues, idle_s):
                del self._accumulator.by_topic[name]
                self._quick.pop(name, None)
                if self.cluster.wanted is not None:
                    self.cluster.wanted.discard(name)

    async def partitions_for(self, topic: str, *, timeout_ms: int | None = None) -> tuple[Partition, ...]:
        """Return the partitions of a topic, with their leaders and replicas."""
        check_arguments(topic, None, None, None)
        return (await self.cluster.topic(topic, self._block(timeout_ms))).partitions

    # ------------------------------------------------------------------------------------------- transactions

    def transaction(self, consumer: Consumer[Any, Any] | None = None) -> Transaction:
        """A transaction as a block, committed at its end and aborted if it raises.

            async with producer.transaction(consumer):
                for record in await consumer.poll():
                    await producer.send("shouts", record.value.upper())

        With a consumer its offsets are committed with the transaction, and after an abort it reads the same
        records again.  The first block calls `init_transactions`.
        """
        from barnabas.client.processing.transaction import Transaction  # It needs the consumer.

        self._transactional()
        return Transaction(self, consumer)

    @property
    def transaction_state(self) -> State:
        """Whether a transaction is open, is ending, or has failed."""
        return self._transactional().state

    async def init_transactions(self, *, timeout_ms: int | None = None) -> None:
        """Call once, before the first transaction; fences earlier producers with the same
        `transactional.id`."""
        await self._transactional().init(self._block(timeout_ms))

    def begin_transaction(self) -> None:
        """What is sent from now on belongs to a transaction."""
        self._transactional().begin()

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: ConsumerGroupMetadata,
        *,
        timeout_ms: int | None = None,
    ) -> None:
        """Commit a consumer's offsets with the transaction; `group` is the consumer's group_metadata()."""
        await self._transactional().send_offsets(offsets, group, self._block(timeout_ms))

    async def commit_transaction(self, *, timeout_ms: int | None = None) -> None:
        """Send waiting records and commit: all become visible, or an error says that it must be aborted."""
        await self._transactional().commit(self._block(timeout_ms))

    async def abort_transaction(self, *, timeout_ms: int | None = None) -> None:
        """Drop waiting records and abort: read_committed consumers see none of the transaction."""
        await self._transactional().abort(self._block(timeout_ms))

    def _block(self, timeout_ms: int | None) -> Deadline:
        return Deadline(self.settings["max.block.ms"] if timeout_ms is None else timeout_ms)

    def _transactional(self) -> Transactions:
        if self._transactions is None:
            raise InvalidTxnStateError("set transactional.id to use transactions")
        return self._transactions
