"""Records that wait to be sent: a queue of batches for each partition, and the memory they may take.

What lives here: queues, the sticky choice of a partition, linger, memory.  What may not: requests (sender),
and what a record is before it is bytes (producer).
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
from barnabas.client.waiting import Deadline
from barnabas.config.settings import Settings
from barnabas.runtime.random import Random

NO_IDENTITY = (-1, -1)


class PartitionQueue:
    """The queue of one partition.  `open` is its last batch while that takes records."""

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
        "topic_queues",
        "where",
    )

    def __init__(self, topic_queues: TopicQueues, where: TopicPartition) -> None:
        self.topic_queues = topic_queues
        self.where = where
        self.queue: deque[ProducerBatch] = deque()
        self.open: ProducerBatch | None = None
        # The open batch has waited long enough: it goes with the next request.
        self.due = False
        self.in_flight: list[ProducerBatch] = []
        # Producer id and epoch that its sequence numbers count for; a new pair starts them anew.
        self.identity = NO_IDENTITY
        self.next_sequence = 0
        self.last_acked = NO_SEQUENCE
        # The producer id under which the partition has taken a batch, in whatever epoch, and still knows.
        self.known_producer_id = NO_PRODUCER_ID
        # A sequence number was lost: what waits is numbered anew with the next epoch.
        self.rewrite = False

    def put_back(self, batch: ProducerBatch) -> None:
        """In front of what comes after it, whatever sequence numbers both have now."""
        place = 0
        for waiting in self.queue:
            if waiting.serial > batch.serial:
                break
            place += 1
        self.queue.insert(place, batch)


class TopicQueues:
    """The queues of one topic, and the partition that records without key stick to."""

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
        """The topic may have grown; one that was created anew keeps those in use, and knows no producer."""
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
        # The sender's: called when something may have become sendable.
        self.wake: Callable[[], None] = _nobody
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
        # Lanes whose first batch may be sent.
        self.sendable: dict[PartitionQueue, None] = {}
        # Every batch that is not done, oldest first.
        self.incomplete: dict[ProducerBatch, PartitionQueue] = {}
        self._lingering: deque[tuple[float, PartitionQueue, ProducerBatch]] = deque()
        self._linger_timer: asyncio.TimerHandle | None = None
        self._waiting: deque[asyncio.Future[None]] = deque()
        # The sender's to keep: which brokers take what is ready for them.
        self.availability = BrokerAvailability(settings)

    # ------------------------------------------------------------------------------------------- the queues

    def topic(self, layout: Topic) -> TopicQueues:
        """The queues of a topic, made when first needed."""
        found = self.by_topic.get(layout.name)
        if found is None:
            found = self.by_topic[layout.name] = TopicQueues(layout)
            found.used_at = self._loop.time()
            self._stick(found)
        elif found.layout is not layout:
            found.take(layout)
        return found

    def open_batch(self, partition_queue: PartitionQueue, record_bytes: int) -> ProducerBatch:
        """A new batch at the end of a queue; there must be room for it."""
        self.close_batch(partition_queue)
        limit_bytes = max(self._batch_bytes, record_bytes)
        self._batches += 1
        batch = ProducerBatch(
            partition_queue.where.topic,
            partition_queue.where.partition,
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
        """Whether nobody has sent to a topic for so long, and nothing of it is left."""
        recent = self._loop.time() - topic.used_at < idle_s
        return not recent and not any(
            partition_queue.queue or partition_queue.in_flight for partition_queue in topic.queues
        )

    def close_batch(self, partition_queue: PartitionQueue) -> None:
        """The open batch takes no more: it is full, or another one must follow."""
        if partition_queue.open is not None:
            self._left(partition_queue, partition_queue.open)
            self.sendable[partition_queue] = None
            self.wake()

    def took(self, partition_queue: PartitionQueue, batch: ProducerBatch) -> None:
        """The sender has taken a batch out of a queue."""
        if batch is partition_queue.open:
            self._left(partition_queue, batch)

    def _left(self, partition_queue: PartitionQueue, batch: ProducerBatch) -> None:
        """A batch that takes no more records counts for the sticky choice: by bytes, not by records."""
        partition_queue.open = None
        partition_queue.due = False
        topic = partition_queue.topic_queues
        if partition_queue is topic.sticky:
            topic.sticky_bytes += batch.size
            if topic.sticky_bytes >= self._batch_bytes:
                self._stick(topic)

    def _stick(self, topic: TopicQueues) -> None:
        topic.sticky_bytes = 0
        sizes = [
            len(partition_queue.queue) if self._has_available_leader(partition) else None
            for partition_queue, partition in zip(topic.queues, topic.layout.partitions, strict=False)
        ]
        current = topic.sticky.where.partition
        topic.sticky = topic.queues[next_sticky(current, sizes, self._adaptive, self._random)]

    def _has_available_leader(self, partition: Partition) -> bool:
        return partition.leader != NO_NODE and self.availability.is_available(partition.leader)

    # ---------------------------------------------------------------------------------------------- waiting

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
        """Let nothing wait any longer."""
        while self._lingering:
            _, partition_queue, batch = self._lingering.popleft()
            if batch is partition_queue.open:
                self._become_due(partition_queue)
        self.wake()

    # ----------------------------------------------------------------------------------------------- memory

    def charge_for(self, record_bytes: int) -> int:
        return max(self._batch_bytes, record_bytes)

    def has_room(self, record_bytes: int) -> bool:
        return not self._waiting and self.used_bytes + self.charge_for(record_bytes) <= self.memory_bytes

    async def room(self, record_bytes: int, deadline: Deadline) -> None:
        """Wait until a batch for a record of this size may be opened; those who came first go first."""
        charge = self.charge_for(record_bytes)
        while self._waiting or self.used_bytes + charge > self.memory_bytes:
            # What fills the memory must leave it, whether it has lingered or not.
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
        self._next_turn()

    def release(self, batch: ProducerBatch) -> None:
        """A batch is done: its memory is free for others."""
        if self.incomplete.pop(batch, None) is not None:
            self.used_bytes -= batch.charged_bytes
            self._next_turn()

    def _next_turn(self) -> None:
        if self._waiting and self.used_bytes + self._batch_bytes <= self.memory_bytes:
            turn = self._waiting[0]
            if not turn.done():
                turn.set_result(None)


def _nobody() -> None:
    """Nothing is sent before there is a sender."""
