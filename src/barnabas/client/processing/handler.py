"""One handler of an `App`: its function, its formats, the order of its work, retries and dead letters."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from barnabas.batch.engine.consume import ConsumerRecord
from barnabas.client.errors.local import HandlerError
from barnabas.client.serialization.by_name import deserializer
from barnabas.client.types.serializers import DeserializerGiven

logger = logging.getLogger(__name__)

Raw = ConsumerRecord[bytes, Any]
Bury = Callable[[str, Raw, Exception, str], Awaitable[None]]
FIRST_PAUSE_MS = 100
MAX_PAUSE_MS = 30_000
MAX_DOUBLINGS = 16


class Handler:
    """Calls a function for each record of some topics.

    Records with the same key are handled in order, those without a key in any order, at most `concurrency`
    at a time.  A function that raises is called again, up to `retries` times; then the record goes to the
    topic `dead_letters`, or, without one, the app stops before it.
    """

    def __init__(
        self,
        function: Callable[[Any], object],
        topics: tuple[str, ...],
        *,
        key: DeserializerGiven[Any] | None,
        value: DeserializerGiven[Any] | None,
        concurrency: int,
        retries: int,
        retry_pause_ms: int,
        dead_letters: str | None,
    ) -> None:
        self.function = function
        self.name = getattr(function, "__name__", repr(function))
        self.topics = topics
        self.dead_letters = dead_letters
        self._key = None if key is None else deserializer(key, "key")
        self._value = None if value is None else deserializer(value, "value")
        self._retries = retries
        self._retry_pause_ms = retry_pause_ms
        self._slots = asyncio.Semaphore(concurrency)
        # The last task of each key that has one.
        self._last: dict[tuple[str, bytes], asyncio.Task[None]] = {}
        self._is_async = inspect.iscoroutinefunction(function)

    def start(self, record: Raw, bury: Bury) -> asyncio.Task[None]:
        """The work on a record, behind earlier work on its key."""
        if record.key is None:
            return asyncio.ensure_future(self._work(record, bury, None))
        place = (record.topic, record.key)
        task = asyncio.ensure_future(self._work(record, bury, self._last.get(place)))
        self._last[place] = task
        task.add_done_callback(lambda done: self._forget(place, done))
        return task

    def _forget(self, place: tuple[str, bytes], done: asyncio.Task[None]) -> None:
        if self._last.get(place) is done:
            del self._last[place]

    async def _work(self, record: Raw, bury: Bury, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            # If it fails, the app stops: a later record of its key must not overtake it.
            await asyncio.shield(before)
        async with self._slots:
            failures = 0
            while True:
                try:
                    await self._call(record)
                    return
                except Exception as error:
                    failures += 1
                    if failures > self._retries:
                        await self._give_up(record, error, bury)
                        return
                    logger.warning("%s failed (%s of %s)", self._about(record), failures, self._retries + 1)
                pause_ms = self._retry_pause_ms << min(failures - 1, MAX_DOUBLINGS)
                await asyncio.sleep(min(pause_ms, MAX_PAUSE_MS) / 1000)

    async def _call(self, record: Raw) -> None:
        given: ConsumerRecord[Any, Any] = record
        if self._key is not None or self._value is not None:
            given = ConsumerRecord(
                record.topic,
                record.partition,
                record.leader_epoch,
                record.offset,
                record.timestamp,
                record.timestamp_type,
                record.key if self._key is None else self._key(record.topic, record.key),
                record.value if self._value is None else self._value(record.topic, record.value),
                record.headers,
            )
        if self._is_async:
            awaited: Awaitable[object] = self.function(given)  # type: ignore[assignment]
            await awaited
        else:
            # Plain functions may block: they run on a thread.
            await asyncio.to_thread(self.function, given)

    async def _give_up(self, record: Raw, error: Exception, bury: Bury) -> None:
        if self.dead_letters is None:
            raise HandlerError(
                f"{self._about(record)} failed: {type(error).__name__}: {error}; the record is not committed"
            ) from error
        logger.error(
            "%s failed; the record goes to %s", self._about(record), self.dead_letters, exc_info=error
        )
        await bury(self.dead_letters, record, error, self.name)

    def _about(self, record: Raw) -> str:
        return f"handler {self.name} at {record.topic}-{record.partition} offset {record.offset}"
