"""Records on their way from a program's threads to the producer's loop.

What lives here: the queue between the threads, its bound, and which records wait for which.  What may not:
what becomes of a record once the producer has taken it.

A record that has to wait for its topic's metadata holds up only what must stay behind it: the records of that
topic, or those of the one partition that is not there yet.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Hashable
from typing import Any, NamedTuple

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.client.errors.local import KafkaTimeoutError
from barnabas.client.producer.delivery import Delivery as AsyncDelivery
from barnabas.client.producer.delivery import OnDelivery, ProducerRecord
from barnabas.client.producer.placing import headers_of
from barnabas.client.producer.producer import Producer
from barnabas.client.waiting import Deadline
from barnabas.runtime.loop.loop_thread import LoopThread

logger = logging.getLogger(__name__)

# Records on their way to the loop's thread: beyond so many, send() waits until half of them are there.
MAX_INBOX = 10_000

# The arguments of send(), in its order.
Record = tuple[Any, ...]


class Handover:
    """One record's way to the producer: `taken` is what the producer gave for it, `refusal` why nothing."""

    __slots__ = ("_waiter", "refusal", "taken")

    def __init__(self) -> None:
        self.taken: AsyncDelivery | None = None
        self.refusal: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def is_settled(self) -> bool:
        return self.taken is not None or self.refusal is not None

    async def settled(self) -> None:
        """On the loop: wait until the producer has taken or refused it."""
        if self.is_settled:
            return
        if self._waiter is None:
            self._waiter = asyncio.get_running_loop().create_future()
        # Several threads may wait for the same record, and each may give up by itself.
        await asyncio.shield(self._waiter)

    def settle(self, taken: AsyncDelivery | None, refusal: Exception | None) -> None:
        self.taken, self.refusal = taken, refusal
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class _Parked(NamedTuple):
    """A record that waits for metadata, at most until its deadline (`max.block.ms` after it was given)."""

    handover: Handover
    record: Record
    deadline: Deadline

    @property
    def topic(self) -> str:
        topic: str = self.record[0]
        return topic


class Inbox:
    """Takes records on any thread; everything else happens on the loop."""

    def __init__(self, thread: LoopThread, producer: Producer) -> None:
        self._thread = thread
        self._producer = producer
        self._records: deque[tuple[Handover, Record]] = deque()
        self._is_moving = False
        # What waits for metadata, by what it waits for; the first of each is being sent.
        self._parked: dict[Hashable, deque[_Parked]] = {}
        self._parked_count = 0
        self._tasks: set[asyncio.Task[None]] = set()
        # Who waits until no more than so many are under way, and the largest of those numbers.
        self._emptied: list[tuple[int, asyncio.Future[None]]] = []
        self._notify_at = -1

    @property
    def size(self) -> int:
        return len(self._records) + self._parked_count

    def put(self, handover: Handover, record: Record) -> None:
        """Any thread; waits when too many are under way."""
        self._records.append((handover, record))
        if not self._is_moving:
            self._is_moving = True
            self._thread.call_soon(self._start)
        if self.size > MAX_INBOX and not self._thread.is_current:
            self._thread.run(self.at_most(MAX_INBOX // 2))

    async def at_most(self, count: int) -> None:
        """Wait until no more than so many records are under way."""
        while self.size > count or (count == 0 and self._is_moving):
            emptied: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._emptied.append((count, emptied))
            self._notify_at = max(self._notify_at, count)
            await emptied

    def refuse_all(self, error: KafkaError) -> None:
        """The producer takes no more: whatever is still under way has failed."""
        for task in self._tasks:
            task.cancel()
        waiting = [(entry.handover, entry.record) for queue in self._parked.values() for entry in queue]
        waiting += self._records
        self._parked.clear()
        self._parked_count = 0
        self._records.clear()
        self._is_moving = False
        for handover, record in waiting:
            if not handover.is_settled:
                _refuse(handover, record[-1], error)
        self._notify()

    # ------------------------------------------------------------------------------------------ on the loop

    def _start(self) -> None:
        self._spawn(self._move())

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _move(self) -> None:
        """To the producer, in order; the one place that takes from the queue."""
        records = self._records
        producer = self._producer
        send = producer.send
        while records:
            handover, record = records.popleft()
            queues = producer._quick.get(record[0])
            partition = record[3]
            if queues is None or self._parked or not (partition is None or partition < queues.count):
                key = self._waits_for(record[0], partition)
                if key is not None:
                    self._parked_count += 1
                    self._park(key, _Parked(handover, record, producer._block(None)))
                    continue
            try:
                handover.settle(await send(*record), None)
            except asyncio.CancelledError:
                _refuse(handover, record[-1], closed_too_early())
                raise
            except Exception as error:
                _refuse(handover, record[-1], error)
            if len(records) <= self._notify_at:
                self._notify()
        self._is_moving = False
        if records:
            # One came between the last look and the line above.
            self._is_moving = True
            self._start()
        self._notify()

    def _waits_for(self, topic: str, partition: int | None) -> Hashable | None:
        """What has to be there, or gone through, before a record can be sent; None if nothing."""
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
            # It stays in the queue while it is being sent: whatever comes meanwhile goes behind it.
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
        """The partition that a record names and its topic turns out not to have: only its own wait for it."""
        partition = entry.record[3]
        if partition is None:
            return None
        try:
            layout = await self._producer.cluster.topic(entry.topic, entry.deadline)
        except KafkaError:
            # It is found again, and told, when the record is sent.
            return None
        return (entry.topic, partition) if partition >= len(layout.partitions) else None

    async def _send_one(self, entry: _Parked) -> None:
        handover = entry.handover
        topic, value, key, partition, headers, timestamp_ms, on_delivery = entry.record
        try:
            given = ProducerRecord(topic, value, key, partition, headers_of(headers), timestamp_ms)
            handover.settle(await self._producer._send_carefully(given, on_delivery, entry.deadline), None)
        except Exception as error:
            _refuse(handover, on_delivery, error)

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


def _refuse(handover: Handover, on_delivery: OnDelivery | None, error: Exception) -> None:
    """A record that the producer did not take: whoever waits for it hears why."""
    handover.settle(None, error)
    if on_delivery is None:
        return
    reported = (
        error if isinstance(error, KafkaError) else KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
    )
    if reported is not error:
        reported.__cause__ = error
    try:
        on_delivery(None, reported)
    except Exception:
        # Those behind it must not wait for ever.
        logger.exception("a callback of a producer failed")


def closed_too_early() -> KafkaError:
    return KafkaTimeoutError("the producer was closed before the record was sent")
