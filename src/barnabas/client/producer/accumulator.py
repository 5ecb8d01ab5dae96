"""The record accumulator: a queue of batches per partition, and the buffer memory.

Contains queues, the sticky partition, linger and memory.  Requests belong in `sender`, serialization in
`producer`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from barnabas.batch.compression import Codec
from barnabas.batch.records import NO_PRODUCER_ID, NO_SEQUENCE
from barnabas.client.errors.local import BufferExhaustedError
from barnabas.client.model import NO_NODE, Partition, Topic, TopicPartition
from barnabas.client.producer.availability import BrokerAvailability
from barnabas.client.producer.batches import ProducerBatch
from barnabas.client.producer.partitioners import next_sticky
from barnabas.client.retries import Deadline
from barnabas.config.settings import Settings
from barnabas.runtime.random import Random

NO_IDENTITY = (-1, -1)


class PartitionQueue:
    """The batches of one partition.  `open` is the last one while it accepts records."""

    __slots__ = (
        "due",
        "identity",
        "in_flight",
        "known_producer_id",
        "last_acked",
        "next_sequence",
        "open",
        "queue",
        "rewrite",
        "topic_partition",
        "topic_queues",
    )

    def __init__(self, topic_queues: TopicQueues, topic_partition: TopicPartition) -> None:
        self.topic_queues = topic_queues
        self.topic_partition = topic_partition
        self.queue: deque[ProducerBatch] = deque()
        self.open: ProducerBatch | None = None
        # The open batch has lingered long enough: it is sent with the next request.
        self.due = False
        self.in_flight: list[ProducerBatch] = []
        # Producer id and epoch that the sequence numbers belong to; a new pair restarts them.
        self.identity = NO_IDENTITY
        self.next_sequence = 0
        self.last_acked = NO_SEQUENCE
        # The producer id whose batches the partition has accepted, in any epoch, and still knows.
        self.known_producer_id = NO_PRODUCER_ID
        # A sequence number was lost: queued batches are renumbered with the next epoch.
        self.rewrite = False

    def put_back(self, batch: ProducerBatch) -> None:
        """Requeue a batch in its original order, regardless of the current sequence numbers."""
        place = 0
        for waiting in self.queue:
            if waiting.serial > batch.serial:
                break
            place += 1
        self.queue.insert(place, batch)


class TopicQueues:
    """The queues of one topic, and the current sticky partition for records without a key."""

    __slots__ = ("count", "layout", "name", "queues", "sticky", "sticky_bytes", "used_at")

    def __init__(self, layout: Topic) -> None:
        self.name = layout.name
        self.queues: list[PartitionQueue] = []
        self.sticky_bytes = 0
        self.used_at = 0.0
        self.layout = layout
        self.take(layout)
        self.sticky = self.queues[0]

    def take(self, layout: Topic) -> None:
        """Update the layout; partitions may have been added, and a re-created topic knows no producer."""
        if layout.id != self.layout.id:
            for partition_queue in self.queues:
                partition_queue.known_producer_id = NO_PRODUCER_ID
        self.layout = layout
        self.count = len(layout.partitions)
        for number in range(len(self.queues), self.count):
            self.queues.append(PartitionQueue(self, TopicPartition(self.name, number)))


class Accumulator:
    """All queues of a producer."""

    def __init__(self, settings: Settings, random: Random) -> None:
        self._loop = asyncio.get_running_loop()
        self._random = random
        # Set by the sender: called when a batch may have become sendable.
        self.wake: Callable[[], None] = _no_sender
        self._batch_bytes: int = min(settings["batch.size"], settings["max.request.size"])
        self._linger_s: float = settings["linger.ms"] / 1000
        self._adaptive: bool = settings["partitioner.adaptive.partitioning.enable"]
        self._codec = Codec[settings["compression.type"].upper()]
        level = f"compression.{self._codec.config_name}.level"
        self._level: int | None = settings.get(level)
        self._transactional = settings["transactional.id"] is not None
        self.memory_bytes: int = settings["buffer.memory"]
        self.used_bytes = 0
        self._batches = 0
        self.by_topic: dict[str, TopicQueues] = {}
        # Queues whose first batch may be sent.
        self.sendable: dict[PartitionQueue, None] = {}
        # Every unfinished batch, oldest first.
        self.incomplete: dict[ProducerBatch, PartitionQueue] = {}
        self._lingering: deque[tuple[float, PartitionQueue, ProducerBatch]] = deque()
        self._linger_timer: asyncio.TimerHandle | None = None
        self._waiting: deque[asyncio.Future[None]] = deque()
        # Maintained by the sender: which brokers accept data that is ready for them.
        self.availability = BrokerAvailability(settings)

    # ------------------------------------------------------------------------------------------------- queues

    def topic(self, layout: Topic) -> TopicQueues:
        """Return the queues of a topic, created on first use."""
        queues = self.by_topic.get(layout.name)
        if queues is None:
            queues = self.by_topic[layout.name] = TopicQueues(layout)
            queues.used_at = self._loop.time()
            self._switch_sticky(queues)
        elif queues.layout is not layout:
            queues.take(layout)
        return queues

    def open_batch(self, partition_queue: PartitionQueue, record_bytes: int) -> ProducerBatch:
        """Append a new batch to a queue; the caller has checked that there is memory for it."""
        self.close_batch(partition_queue)
        limit_bytes = max(self._batch_bytes, record_bytes)
        self._batches += 1
        batch = ProducerBatch(
            partition_queue.topic_partition.topic,
            partition_queue.topic_partition.partition,
            limit_bytes,
            self.charge_for(record_bytes),
            self._loop.time(),
            serial=(self._batches,),
            codec=self._codec,
            level=self._level,
            transactional=self._transactional,
        )
        partition_queue.topic_queues.used_at = batch.created_at
        self.used_bytes += batch.charged_bytes
        self.incomplete[batch] = partition_queue
        partition_queue.queue.append(batch)
        partition_queue.open = batch
        partition_queue.due = False
        if self._linger_s:
            self._linger(partition_queue, batch)
        else:
            self._become_due(partition_queue)
        return batch

    def is_idle(self, topic: TopicQueues, idle_s: float) -> bool:
        """Whether nothing was sent to a topic for `idle_s`, and none of its records are left."""
        recent = self._loop.time() - topic.used_at < idle_s
        return not recent and not any(
            partition_queue.queue or partition_queue.in_flight for partition_queue in topic.queues
        )

    def close_batch(self, partition_queue: PartitionQueue) -> None:
        """Close the open batch: it is full, or another one must follow."""
        if partition_queue.open is not None:
            self._batch_closed(partition_queue, partition_queue.open)
            self.sendable[partition_queue] = None
            self.wake()

    def batch_taken(self, partition_queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Called when the sender has removed a batch from a queue."""
        if batch is partition_queue.open:
            self._batch_closed(partition_queue, batch)

    def _batch_closed(self, partition_queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Account for a closed batch in the sticky choice: by bytes, not by records."""
        partition_queue.open = None
        partition_queue.due = False
        topic = partition_queue.topic_queues
        if partition_queue is topic.sticky:
            topic.sticky_bytes += batch.size
            if topic.sticky_bytes >= self._batch_bytes:
                self._switch_sticky(topic)

    def _switch_sticky(self, topic: TopicQueues) -> None:
        topic.sticky_bytes = 0
        sizes = [
            len(partition_queue.queue) if self._has_available_leader(partition) else None
            for partition_queue, partition in zip(topic.queues, topic.layout.partitions, strict=False)
        ]
        current = topic.sticky.topic_partition.partition
        topic.sticky = topic.queues[next_sticky(current, sizes, self._adaptive, self._random)]

    def _has_available_leader(self, partition: Partition) -> bool:
        return partition.leader != NO_NODE and self.availability.is_available(partition.leader)

    # ------------------------------------------------------------------------------------------------- linger

    def _linger(self, partition_queue: PartitionQueue, batch: ProducerBatch) -> None:
        due_at = batch.created_at + self._linger_s
        self._lingering.append((due_at, partition_queue, batch))
        if self._linger_timer is None:
            self._linger_timer = self._loop.call_at(due_at, self._lingered)

    def _lingered(self) -> None:
        self._linger_timer = None
        now = self._loop.time()
        lingering = self._lingering
        while lingering:
            due_at, partition_queue, batch = lingering[0]
            if batch is partition_queue.open and due_at > now:
                self._linger_timer = self._loop.call_at(due_at, self._lingered)
                return
            lingering.popleft()
            if batch is partition_queue.open:
                self._become_due(partition_queue)

    def _become_due(self, partition_queue: PartitionQueue) -> None:
        partition_queue.due = True
        self.sendable[partition_queue] = None
        self.wake()

    def make_all_due(self) -> None:
        """Make all batches sendable, whether they have lingered or not."""
        while self._lingering:
            _, partition_queue, batch = self._lingering.popleft()
            if batch is partition_queue.open:
                self._become_due(partition_queue)
        self.wake()

    # ------------------------------------------------------------------------------------------------- memory

    def charge_for(self, record_bytes: int) -> int:
        return max(self._batch_bytes, record_bytes)

    def has_memory(self, record_bytes: int) -> bool:
        return not self._waiting and self.used_bytes + self.charge_for(record_bytes) <= self.memory_bytes

    async def wait_for_memory(self, record_bytes: int, deadline: Deadline) -> None:
        """Wait for memory for a batch with a record of this size, first come, first served."""
        charge = self.charge_for(record_bytes)
        while self._waiting or self.used_bytes + charge > self.memory_bytes:
            # The memory must be drained, whether the batches have lingered or not.
            self.make_all_due()
            turn: asyncio.Future[None] = self._loop.create_future()
            self._waiting.append(turn)
            try:
                async with asyncio.timeout(deadline.left_s):
                    await turn
            except TimeoutError:
                raise BufferExhaustedError(
                    f"no room for a record of {record_bytes} bytes within {deadline.timeout_ms:.0f} ms: "
                    f"{self.used_bytes} of {self.memory_bytes} bytes are in use"
                ) from None
            finally:
                if turn in self._waiting:
                    self._waiting.remove(turn)
            if self.used_bytes + charge <= self.memory_bytes:
                break
        self._wake_next()

    def release(self, batch: ProducerBatch) -> None:
        """Release the memory of a finished batch."""
        if self.incomplete.pop(batch, None) is not None:
            self.used_bytes -= batch.charged_bytes
            self._wake_next()

    def _wake_next(self) -> None:
        if self._waiting and self.used_bytes + self._batch_bytes <= self.memory_bytes:
            turn = self._waiting[0]
            if not turn.done():
                turn.set_result(None)


def _no_sender() -> None:
    """Does nothing: there is no sender yet."""
