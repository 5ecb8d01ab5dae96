"""From sources to a topic.

Contains sending with a bound on unacknowledged chunks, and the acknowledgement of sources; retries are the
producer's.  While no broker responds, the producer's buffer fills and reading stops: files and pipes wait,
and nothing is lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from barnabas.base.errors import KafkaError
from barnabas.client.errors.local import KafkaTimeoutError
from barnabas.client.producer.delivery import Delivery
from barnabas.client.producer.producer import Producer
from barnabas.collect.progress import Progress, SentLines
from barnabas.collect.sources import Lines, Source

logger = logging.getLogger(__name__)

# Chunks that were sent and are not acknowledged yet; a chunk has at most 256 KiB of a file.
MAX_CHUNKS = 64
FIRST_CONTACT_MS = 60_000
# How long a stopped collector tries to deliver what it has read.
DRAIN_S = 30.0
# A warning is logged if lines wait and none was delivered for this long.
STANDSTILL_S = 10.0
FOREVER_MS = 2**31 - 1
ORIGIN_HEADER = "origin"

# Producer defaults of a collector: unlimited retries, large batches, compression.
DEFAULTS: Mapping[str, object] = {
    "acks": "all",
    "enable.idempotence": True,
    "delivery.timeout.ms": FOREVER_MS,
    "max.block.ms": FOREVER_MS,
    "linger.ms": 50,
    "batch.size": 256 * 1024,
    "compression.type": "zstd",
}


class Collector:
    """Sends the lines of its sources to a topic, each as a record.

    collector = Collector("logs", [FileSource(["/var/log/*.log"])], {"bootstrap.servers": "localhost:9092"})
    await collector.run()
    """

    def __init__(
        self,
        topic: str,
        sources: Sequence[Source],
        properties: Mapping[str, object],
        *,
        with_origin: bool = True,
        key_by_origin: bool = False,
    ) -> None:
        """`with_origin`: a header names the origin of a line.  `key_by_origin`: so does the key, which keeps
        all lines of a file in order in one partition."""
        self.topic = topic
        self.lines_sent = 0
        self.lines_written = 0
        self._sources = list(sources)
        self._properties = {**DEFAULTS, **properties}
        self._with_origin = with_origin
        self._key_by_origin = key_by_origin
        self._capacity = asyncio.Semaphore(MAX_CHUNKS)
        self._progress: dict[tuple[int, int], Progress] = {}
        self._acknowledging: set[asyncio.Task[None]] = set()
        self._failed: asyncio.Future[None] | None = None
        self._is_stopped = asyncio.Event()

    @property
    def lines_waiting(self) -> int:
        """The number of lines that were sent and are not acknowledged yet."""
        return self.lines_sent - self.lines_written

    @property
    def is_stopped(self) -> bool:
        return self._is_stopped.is_set()

    async def run(self) -> None:
        """Run until every source has ended, or `stop`, or a record has failed (raised).

        Raises OSError if everything is delivered but the positions could not be saved.
        """
        self._failed = asyncio.get_running_loop().create_future()
        reading: list[asyncio.Future[None]] = []
        watching: list[asyncio.Future[None]] = []
        is_done = False
        async with Producer(self._properties) as producer:
            try:
                if await self._find_topic(producer):
                    reading += [
                        asyncio.ensure_future(self._collect(producer, number, source))
                        for number, source in enumerate(self._sources)
                    ]
                    watching.append(asyncio.ensure_future(self._warn_of_standstill()))
                    await self._unless_drain_expires(self._until_read(reading))
                    await self._unless_drain_expires(self._until_written())
                is_done = True
            finally:
                for task in [*reading, *watching, *self._acknowledging]:
                    task.cancel()
                if not is_done:
                    # The drain time is over; undelivered lines of files are read again at the next start.
                    await producer.close(timeout_ms=0)
                problem = self._close_sources()
                if problem is not None and not is_done:
                    # The first error is raised; this one is only logged.
                    logger.warning("%s: %s", problem.filename, problem.strerror)
        if problem is not None:
            raise problem

    def _close_sources(self) -> OSError | None:
        """Close all sources; returns the last error."""
        problem = None
        for source in self._sources:
            source.stop()
            try:
                source.close()
            except OSError as error:
                problem = error
        return problem

    def stop(self) -> None:
        """Stop reading; `run` ends when everything read is delivered, or after DRAIN_S."""
        self._is_stopped.set()
        for source in self._sources:
            source.stop()

    async def _find_topic(self, producer: Producer) -> bool:
        """Whether the topic was found before `stop`; nothing is read before that."""
        finding = asyncio.ensure_future(producer.partitions_for(self.topic, timeout_ms=FIRST_CONTACT_MS))
        stopping = asyncio.ensure_future(self._is_stopped.wait())
        try:
            await asyncio.wait({finding, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not finding.done():
                return False
            finding.result()
            return True
        finally:
            finding.cancel()
            stopping.cancel()

    async def _unless_drain_expires(self, work: Coroutine[Any, Any, None]) -> None:
        working = asyncio.ensure_future(work)
        stopping = asyncio.ensure_future(self._is_stopped.wait())
        try:
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait_for(working, DRAIN_S)
        except TimeoutError:
            raise KafkaTimeoutError(
                f"{self.lines_waiting} lines are not written after {DRAIN_S:.0f} s; "
                "those of files are sent at the next start"
            ) from None
        finally:
            stopping.cancel()
            working.cancel()

    async def _warn_of_standstill(self) -> None:
        """Warn while no broker accepts lines: nothing is lost, but a user should know why none arrive."""
        is_warned, written, waited = False, 0, 0
        while True:
            await asyncio.sleep(STANDSTILL_S)
            has_moved, written = self.lines_written != written, self.lines_written
            # Lines that wait now may be new; those that waited at the last check are not.
            is_stuck, waited = bool(waited) and not has_moved, self.lines_waiting
            if is_warned and has_moved:
                logger.warning("lines are written to %s again", self.topic)
                is_warned = False
            elif is_stuck and not is_warned:
                logger.warning(
                    "nothing was written to %s for %d s: %d lines wait, and reading stops when the memory "
                    "is full, "
                    "until brokers accept them",
                    self.topic,
                    STANDSTILL_S,
                    self.lines_waiting,
                )
                is_warned = True

    async def _until_read(self, reading: Sequence[asyncio.Future[None]]) -> None:
        assert self._failed is not None
        waiting: set[asyncio.Future[None]] = set(reading)
        while waiting:
            done, waiting = await asyncio.wait({*waiting, self._failed}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            waiting.discard(self._failed)

    async def _until_written(self) -> None:
        assert self._failed is not None
        while self._acknowledging:
            await asyncio.wait({*self._acknowledging, self._failed}, return_when=asyncio.FIRST_COMPLETED)
            if self._failed.done():
                self._failed.result()

    async def _collect(self, producer: Producer, number: int, source: Source) -> None:
        async with aclosing(source.read()) as reading:
            async for found in reading:
                if not found.lines:
                    continue
                await self._capacity.acquire()
                deliveries = await self._send(producer, found)
                progress = self._progress.setdefault((number, found.place), Progress(0))
                chunk = progress.send(found.position)
                task = asyncio.ensure_future(
                    self._acknowledge(source, found.place, progress, chunk, deliveries)
                )
                self._acknowledging.add(task)
                task.add_done_callback(self._acknowledging.discard)

    async def _send(self, producer: Producer, found: Lines) -> list[Delivery]:
        origin = found.origin.encode(errors="surrogateescape")
        key = origin if self._key_by_origin else None
        headers = ((ORIGIN_HEADER, origin),) if self._with_origin else ()
        topic, send = self.topic, producer.send
        deliveries: list[Delivery] = []
        for line in found.lines:
            deliveries.append(await send(topic, line, key, None, headers))
            # Counted one by one: some may be sent while others wait for memory.
            self.lines_sent += 1
        return deliveries

    async def _acknowledge(
        self,
        source: Source,
        place: int,
        progress: Progress,
        chunk: SentLines,
        deliveries: list[Delivery],
    ) -> None:
        assert self._failed is not None
        try:
            for delivery in deliveries:
                await delivery
        except KafkaError as error:
            if not self._failed.done():
                self._failed.set_exception(error)
            return
        self.lines_written += len(deliveries)
        self._capacity.release()
        if progress.acknowledge(chunk):
            source.written(place, progress.written)
