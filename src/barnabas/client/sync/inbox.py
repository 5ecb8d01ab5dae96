"""The queue of records from a program's threads to the producer's loop.

A record that waits for its topic's metadata delays only what must stay behind it: the records of that topic,
or those of the one missing partition.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Hashable
from typing import Any, NamedTuple

from barnabas.base.errors import KafkaError
from barnabas.client.errors.local import KafkaTimeoutError, RecordRefusedError
from barnabas.client.producer.delivery import Delivery as AsyncDelivery
from barnabas.client.producer.delivery import OnDelivery, ProducerRecord
from barnabas.client.producer.placing import headers_of
from barnabas.client.producer.producer import Producer
from barnabas.client.retries import Deadline
from barnabas.runtime.loop.loop_thread import LoopThread

logger = logging.getLogger(__name__)

# Records queued for the loop's thread: beyond this, send() waits until half of them are processed.
MAX_INBOX = 10_000

# The arguments of send(), in its order.
Record = tuple[Any, ...]


class PendingRecord:
    """The state of a queued record: `taken` is the producer's delivery, `refusal` the error instead."""

    __slots__ = ("_future", "refusal", "taken")

    def __init__(self) -> None:
        self.taken: AsyncDelivery | None = None
        self.refusal: Exception | None = None
        self._future: asyncio.Future[None] | None = None

    @property
    def is_settled(self) -> bool:
        return self.taken is not None or self.refusal is not None

    @property
    def is_awaited(self) -> bool:
        return self._future is not None

    async def settled(self) -> None:
        """On the loop: wait until the producer has accepted or rejected the record."""
        if self.is_settled:
            return
        if self._future is None:
            self._future = asyncio.get_running_loop().create_future()
        # Several threads may wait for the same record, and each may time out on its own.
        await asyncio.shield(self._future)

    def settle(self, taken: AsyncDelivery | None, refusal: Exception | None) -> None:
        self.taken, self.refusal = taken, refusal
        if self._future is not None and not self._future.done():
            self._future.set_result(None)


class _Parked(NamedTuple):
    """A record that waits for metadata, at most until its deadline (`max.block.ms` after send())."""

    pending: PendingRecord
    record: Record
    deadline: Deadline

    @property
    def topic(self) -> str:
        topic: str = self.record[0]
        return topic


class Inbox:
    """Accepts records on any thread; everything else happens on the loop."""

    def __init__(self, thread: LoopThread, producer: Producer[Any, Any]) -> None:
        self._thread = thread
        self._producer = producer
        self._records: deque[tuple[PendingRecord, Record]] = deque()
        self._is_moving = False
        # Records waiting for metadata, by what they wait for; the first of each is being sent.
        self._parked: dict[Hashable, deque[_Parked]] = {}
        self._parked_count = 0
        self._tasks: set[asyncio.Task[None]] = set()
        # Futures of callers that wait for a smaller size, and the largest of those sizes.
        self._emptied: list[tuple[int, asyncio.Future[None]]] = []
        self._notify_at = -1

    @property
    def size(self) -> int:
        return len(self._records) + self._parked_count

    def put(self, pending: PendingRecord, record: Record) -> None:
        """Called on any thread; waits if too many records are queued."""
        self._records.append((pending, record))
        if not self._is_moving:
            self._is_moving = True
            self._thread.call_soon(self._start)
        if self.size > MAX_INBOX and not self._thread.is_current:
            self._thread.run(self.at_most(MAX_INBOX // 2))

    async def at_most(self, count: int) -> None:
        """Wait until no more than this many records are queued."""
        while self.size > count or (count == 0 and self._is_moving):
            emptied: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._emptied.append((count, emptied))
            self._notify_at = max(self._notify_at, count)
            await emptied

    def refuse_all(self, error: KafkaError) -> None:
        """The producer is closing: fail all queued records."""
        for task in self._tasks:
            task.cancel()
        waiting = [(entry.pending, entry.record) for queue in self._parked.values() for entry in queue]
        waiting += self._records
        self._parked.clear()
        self._parked_count = 0
        self._records.clear()
        self._is_moving = False
        for pending, record in waiting:
            if not pending.is_settled:
                self._refuse(pending, record, error)
        self._notify()

    # -------------------------------------------------------------------------------------------- on the loop

    def _start(self) -> None:
        self._spawn(self._move())

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _move(self) -> None:
        """Pass records to the producer, in order; the only consumer of the queue."""
        records = self._records
        producer = self._producer
        send = producer.send
        while records:
            pending, record = records.popleft()
            queues = producer._quick.get(record[0])
            partition = record[3]
            if queues is None or self._parked or not (partition is None or partition < queues.count):
                key = self._waits_for(record[0], partition)
                if key is not None:
                    self._parked_count += 1
                    self._park(key, _Parked(pending, record, producer._block(None)))
                    continue
            try:
                pending.settle(await send(*record), None)
            except asyncio.CancelledError:
                self._refuse(pending, record, closed_too_early())
                raise
            except Exception as error:
                self._refuse(pending, record, error)
            if len(records) <= self._notify_at:
                self._notify()
        self._is_moving = False
        if records:
            # A record was added after the last check.
            self._is_moving = True
            self._start()
        self._notify()

    def _waits_for(self, topic: str, partition: int | None) -> Hashable | None:
        """Return what a record must wait for before it can be sent; None if nothing."""
        place = (topic, partition)
        if place in self._parked:
            return place
        if topic in self._parked:
            return topic
        metadata = self._producer.cluster.metadata
        layout = metadata.topics.get(topic)
        if layout is None or not layout.partitions or metadata.is_expired:
            return topic
        return place if partition is not None and partition >= len(layout.partitions) else None

    def _park(self, key: Hashable, entry: _Parked) -> None:
        queue = self._parked.get(key)
        if queue is None:
            self._parked[key] = queue = deque((entry,))
            self._spawn(self._send_parked(key, queue))
        else:
            queue.append(entry)

    async def _send_parked(self, key: Hashable, queue: deque[_Parked]) -> None:
        while queue:
            # It stays in the queue while it is being sent, so that later records queue behind it.
            entry = queue[0]
            place = await self._missing_partition(entry) if entry.topic == key else None
            if place is not None:
                self._park(place, entry)
            else:
                await self._send_one(entry)
                self._parked_count -= 1
            queue.popleft()
            self._notify()
        del self._parked[key]

    async def _missing_partition(self, entry: _Parked) -> Hashable | None:
        """Return the partition that a record names and its topic lacks: only its own records wait for it."""
        partition = entry.record[3]
        if partition is None:
            return None
        try:
            layout = await self._producer.cluster.topic(entry.topic, entry.deadline)
        except KafkaError:
            # The same error is raised, and reported, when the record is sent.
            return None
        return (entry.topic, partition) if partition >= len(layout.partitions) else None

    async def _send_one(self, entry: _Parked) -> None:
        pending = entry.pending
        topic, value, key, partition, headers, timestamp_ms, on_delivery = entry.record
        try:
            given = ProducerRecord(topic, value, key, partition, headers_of(headers), timestamp_ms)
            pending.settle(await self._producer._send_carefully(given, on_delivery, entry.deadline), None)
        except Exception as error:
            self._refuse(pending, entry.record, error)

    def _refuse(self, pending: PendingRecord, record: Record, error: Exception) -> None:
        """Fail a record that the producer did not accept; without a callback, close() reports it too."""
        if record[-1] is None and not pending.is_awaited:
            self._producer._sender.undelivered.refuse(pending, record[0], error)
        _refuse(pending, record[-1], error)

    def _notify(self) -> None:
        waiting, self._emptied = self._emptied, []
        for count, emptied in waiting:
            if emptied.done():
                continue
            if self.size > count or (count == 0 and self._is_moving):
                self._emptied.append((count, emptied))
            else:
                emptied.set_result(None)
        self._notify_at = max((count for count, _ in self._emptied), default=-1)


def _refuse(pending: PendingRecord, on_delivery: OnDelivery | None, error: Exception) -> None:
    """Fail a record that the producer did not accept."""
    pending.settle(None, error)
    if on_delivery is None:
        return
    reported = (
        error if isinstance(error, KafkaError) else RecordRefusedError(f"{type(error).__name__}: {error}")
    )
    if reported is not error:
        reported.__cause__ = error
    try:
        on_delivery(None, reported)
    except Exception:
        # Records behind it must not be delayed forever.
        logger.exception("a delivery callback failed")


def closed_too_early() -> KafkaError:
    return KafkaTimeoutError("the producer was closed before the record was sent")
