"""Programs that handle records: `App`.

    app = App(bootstrap_servers="localhost:9092", group_id="billing")

    @app.handler("orders", value=JSON, concurrency=10, retries=3, dead_letters="orders.dead")
    async def bill(record: ConsumerRecord[bytes, Any]) -> None:
        ...

    app.main()

Offsets are committed after the work: a record whose handler has not ended is handled again after a restart,
so handlers may see a record twice and never miss one.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from barnabas.base.errors import KafkaError
from barnabas.base.type_variables import K, V
from barnabas.batch.engine.consume import ConsumerRecord
from barnabas.client.consumer.consumer import Consumer
from barnabas.client.consumer.subscription import RebalanceListener
from barnabas.client.model import OffsetAndMetadata, TopicPartition, check_topic
from barnabas.client.options import is_client_option
from barnabas.client.processing.handler import FIRST_PAUSE_MS, Handler, Raw
from barnabas.client.processing.progress import PartitionProgress
from barnabas.client.producer.producer import Producer
from barnabas.client.types.serializers import DeserializerGiven
from barnabas.config import PRODUCER
from barnabas.config.errors import ConfigError

if TYPE_CHECKING:
    from barnabas.client.types.options import ConsumerOptions

logger = logging.getLogger(__name__)

R = TypeVar("R")
MAX_IN_PROGRESS = 500
POLL_MS = 500
# While no further record is taken, the consumer polls this often to stay in its group.
BUSY_POLL_MS = 50
COMMIT_INTERVAL_S = 1.0
# How long partitions that go to other members, and a stop, wait for the work on their records.
DRAIN_S = 30.0


class App(RebalanceListener):
    """Handlers for topics, as a member of a group.

    Options are the consumer's; the producer of `producer` and of dead letters has those of them that it
    knows. A group without committed offsets starts with the earliest record, unless `auto_offset_reset` says
    otherwise.
    """

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        /,
        *,
        max_in_progress: int = MAX_IN_PROGRESS,
        drain_s: float = DRAIN_S,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        given = {**(config or {}), **{name.replace("_", "."): value for name, value in options.items()}}
        if not given.get("group.id"):
            raise ConfigError("an App needs a group.id: the group under which it commits what it has handled")
        self._config = {"auto.offset.reset": "earliest", **given, "enable.auto.commit": False}
        self._max_in_progress = max_in_progress
        self._drain_s = drain_s
        self._declared: list[tuple[tuple[str, ...], Callable[[], Handler]]] = []
        self._handlers: dict[str, Handler] = {}
        self._progress: dict[TopicPartition, PartitionProgress] = {}
        self._tasks: dict[asyncio.Task[None], tuple[TopicPartition, int]] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._consumer: Consumer[bytes, bytes] | None = None
        self._producer: Producer[bytes, bytes] | None = None
        self._error: BaseException | None = None
        self._is_stopping = False

    # ---------------------------------------------------------------------------------------------- declaring

    def handler(
        self,
        *topics: str,
        key: DeserializerGiven[K] | None = None,
        value: DeserializerGiven[V] | None = None,
        concurrency: int = 1,
        retries: int = 0,
        retry_pause_ms: int = FIRST_PAUSE_MS,
        dead_letters: str | None = None,
    ) -> Callable[[Callable[[ConsumerRecord[K, V]], R]], Callable[[ConsumerRecord[K, V]], R]]:
        """Declare the function that handles the records of topics; it may be a coroutine function.

        `key` and `value` are formats; bytes that they cannot read count as a failure of the handler.
        """
        if not topics:
            raise TypeError("name the topics: @app.handler('orders')")
        for topic in (*topics, *(() if dead_letters is None else (dead_letters,))):
            check_topic(topic)
        taken = {topic for names, _ in self._declared for topic in names}
        for topic in topics:
            if topic in taken:
                raise ValueError(f"topic {topic} has a handler already")
        if concurrency < 1 or retries < 0:
            raise ValueError("concurrency is at least 1, and retries at least 0")

        def declare(function: Callable[[ConsumerRecord[K, V]], R]) -> Callable[[ConsumerRecord[K, V]], R]:
            def make() -> Handler:
                return Handler(
                    function,
                    topics,
                    key=key,
                    value=value,
                    concurrency=concurrency,
                    retries=retries,
                    retry_pause_ms=retry_pause_ms,
                    dead_letters=dead_letters,
                )

            self._declared.append((topics, make))
            return function

        return declare

    # ------------------------------------------------------------------------------------------------ running

    @property
    def producer(self) -> Producer[bytes, bytes]:
        """For handlers: what they have sent is written before the offset of their record is committed."""
        if self._producer is None:
            known = PRODUCER.options()
            names = [name for name in self._config if name in known or not is_client_option(name)]
            self._producer = Producer({name: self._config[name] for name in names})
        return self._producer

    def main(self) -> None:
        """Run until SIGINT or SIGTERM; for programs without a loop of their own."""
        asyncio.run(self.run())

    def stop(self) -> None:
        """Take no further records; `run` ends when those in progress are handled and committed."""
        self._is_stopping = True
        if self._consumer is not None:
            self._consumer.wakeup()

    async def run(self) -> None:
        """Handle records until `stop` or a signal; raises the error of a handler without dead letters."""
        if not self._declared:
            raise RuntimeError("there is no handler: declare one with @app.handler(TOPIC)")
        made = [make() for _, make in self._declared]
        self._handlers = {topic: handler for handler in made for topic in handler.topics}
        self._is_stopping, self._error = False, None
        with _StopSignals(self.stop):
            try:
                async with Consumer[bytes, bytes](self._config) as consumer:
                    self._consumer = consumer
                    consumer.subscribe(list(self._handlers), listener=self)
                    await self._serve(consumer)
            finally:
                self._consumer = None
                await self._close()
        if self._error is not None:
            raise self._error

    async def _serve(self, consumer: Consumer[bytes, bytes]) -> None:
        loop = asyncio.get_running_loop()
        commit_at = loop.time() + COMMIT_INTERVAL_S
        while not self._is_stopping:
            free = self._max_in_progress - len(self._tasks)
            if free > 0:
                consumer.resume(*consumer.paused())
                for record in await consumer.poll(POLL_MS if not self._tasks else BUSY_POLL_MS, free):
                    self._begin(record)
            else:
                # No more than the limit at a time; polls keep the membership.
                consumer.pause(*consumer.assignment())
                await asyncio.wait(self._tasks, timeout=BUSY_POLL_MS / 1000, return_when="FIRST_COMPLETED")
                await consumer.poll(0)
            if loop.time() >= commit_at:
                commit_at = loop.time() + COMMIT_INTERVAL_S
                await self._commit(self._progress)
        await self._drain(self._progress)

    def _begin(self, record: Raw) -> None:
        place = TopicPartition(record.topic, record.partition)
        self._progress.setdefault(place, PartitionProgress()).begin(record.offset)
        task = self._handlers[record.topic].start(record, self._bury)
        self._tasks[task] = place, record.offset
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        place, offset = self._tasks.pop(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            if place in self._progress:
                self._progress[place].end(offset)
            return
        # Those that waited for the failed one fail with the same error.
        self._error = self._error or error
        self.stop()

    async def _bury(self, topic: str, record: Raw, error: Exception, handler: str) -> None:
        """Send a record to the dead letters, with where it came from and why."""
        reasons = {
            "dead-letter.topic": record.topic,
            "dead-letter.partition": str(record.partition),
            "dead-letter.offset": str(record.offset),
            "dead-letter.handler": handler,
            "dead-letter.error": f"{type(error).__name__}: {error}",
        }
        headers = [*record.headers, *((name, text.encode()) for name, text in reasons.items())]
        await self.producer.send_and_wait(topic, record.value, record.key, headers=headers)

    # ------------------------------------------------------------------------------------------ commits, ends

    async def _commit(self, partitions: Iterable[TopicPartition]) -> None:
        offsets = {
            partition: OffsetAndMetadata(position)
            for partition in partitions
            if (position := self._progress[partition].position) is not None
            and self._committed.get(partition) != position
        }
        if not offsets or self._consumer is None:
            return
        try:
            if self._producer is not None:
                await self._producer.flush()
            await self._consumer.commit(offsets)
        except KafkaError as error:
            # They are committed with the next ones; if the group has moved on, their new owner handles them.
            logger.warning("offsets were not committed: %s", error)
            return
        self._committed.update({partition: entry.offset for partition, entry in offsets.items()})

    async def _drain(self, partitions: Iterable[TopicPartition]) -> None:
        """Wait for the work on these partitions, and commit it."""
        chosen = [partition for partition in partitions if partition in self._progress]
        tasks = [task for task, (place, _) in self._tasks.items() if place in chosen]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=self._drain_s)
            if late:
                logger.warning("%s records are still in work after %s s", len(late), self._drain_s)
            # Callbacks of the tasks run in the next iteration.
            await asyncio.sleep(0)
        await self._commit(chosen)

    async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        await self._drain(partitions)
        self._forget(partitions)

    async def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        self._forget(partitions)

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._progress.pop(partition, None)
            self._committed.pop(partition, None)

    async def _close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._progress.clear()
        self._committed.clear()
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.close()


class _StopSignals:
    """SIGINT and SIGTERM call `stop`, on the main thread."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._taken: list[signal.Signals] = []

    def __enter__(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                loop.add_signal_handler(number, self._stop)
            except (NotImplementedError, RuntimeError, ValueError):
                # Another thread, or a system without them: the program calls stop() itself.
                return
            self._taken.append(number)

    def __exit__(self, *_: Any) -> None:
        for number in self._taken:
            asyncio.get_running_loop().remove_signal_handler(number)
