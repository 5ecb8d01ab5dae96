"""The producer for programs without asyncio."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.client.errors.local import ClosedError, KafkaTimeoutError
from barnabas.client.producer.delivery import Delivery as AsyncDelivery
from barnabas.client.producer.delivery import OnDelivery, RecordMetadata
from barnabas.client.producer.placing import HeadersGiven
from barnabas.client.producer.producer import Producer as AsyncProducer
from barnabas.client.sync.face import Face, blocking, plain, started

logger = logging.getLogger(__name__)

# Records on their way to the loop's thread: beyond so many, send() waits until half of them are there.
MAX_INBOX = 10_000


class Delivery:
    """A record that was given to send(); `result()` waits until it is written."""

    __slots__ = ("_face", "_taken", "error")

    def __init__(self, face: Producer) -> None:
        self._face = face
        self._taken: AsyncDelivery | None = None
        # Why it was refused, or not written.
        self.error: Exception | None = None

    @property
    def done(self) -> bool:
        return self.error is not None or (self._taken is not None and self._taken.done)

    def result(self, timeout_s: float | None = None) -> RecordMetadata:
        """Where it was written; raises why not."""
        return self._face._result(self, timeout_s)


class Producer(Face[AsyncProducer]):
    """See `barnabas.client.Producer`.

    with Producer(bootstrap_servers="localhost:9092") as producer:
        delivery = producer.send("orders", b"value", key=b"key")
        metadata = delivery.result()
    """

    def __init__(self, config: Mapping[str, object] | None = None, **options: object) -> None:
        super().__init__(*started("barnabas-producer", lambda: AsyncProducer(config, **options)))
        self._inbox: deque[tuple[Delivery, tuple[Any, ...]]] = deque()
        self._is_moving = False
        self._moving: Future[None] | None = None

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        headers: HeadersGiven = (),
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Take a record.  What is wrong with it, `result()` and `on_delivery` tell, the latter on the
        client's own thread."""
        if self._is_closed:
            raise ClosedError("the producer is closed; open a new one")
        delivery = Delivery(self)
        inbox = self._inbox
        inbox.append((delivery, (topic, value, key, partition, headers, timestamp_ms, on_delivery)))
        if not self._is_moving:
            self._is_moving = True
            self._moving = self._thread.submit(self._move())
        elif len(inbox) > MAX_INBOX and not self._thread.is_current:
            self._thread.run(self._moved(MAX_INBOX // 2))
        return delivery

    async def _move(self) -> None:
        """From the inbox to the producer, in order; the one place that takes from it."""
        inbox = self._inbox
        send = self._client.send
        while inbox:
            delivery, record = inbox.popleft()
            try:
                delivery._taken = await send(*record)
            except asyncio.CancelledError:
                _refuse(delivery, record[-1], _closed_too_early())
                raise
            except Exception as error:
                _refuse(delivery, record[-1], error)
        self._is_moving = False
        if inbox:
            # One came between the last look and the line above.
            self._is_moving = True
            await self._move()

    async def _moved(self, most: int = 0) -> None:
        while len(self._inbox) > most or (most == 0 and self._is_moving):
            await asyncio.sleep(0.001)

    def _result(self, delivery: Delivery, timeout_s: float | None) -> RecordMetadata:
        return self._thread.run(self._awaited(delivery, timeout_s))

    async def _awaited(self, delivery: Delivery, timeout_s: float | None) -> RecordMetadata:
        try:
            async with asyncio.timeout(timeout_s):
                while delivery._taken is None and delivery.error is None:
                    await asyncio.sleep(0)
                if delivery.error is not None:
                    raise delivery.error
                assert delivery._taken is not None
                metadata: RecordMetadata = await delivery._taken
                return metadata
        except KafkaError as error:
            delivery.error = error
            raise
        except TimeoutError:
            raise KafkaTimeoutError(f"the record is not written after {timeout_s} s") from None

    def flush(self, *, timeout_ms: int | None = None) -> None:
        """Wait until everything that was taken so far is written, or has failed."""
        self._thread.run(self._flushed(timeout_ms))

    async def _flushed(self, timeout_ms: int | None) -> None:
        await self._client.flush(timeout_ms=await self._moved_within(timeout_ms))

    async def _moved_within(self, timeout_ms: int | None) -> int | None:
        """How many milliseconds are left when the inbox is empty."""
        loop = asyncio.get_running_loop()
        start_s = loop.time()
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                await self._moved()
        except TimeoutError:
            left = len(self._inbox) + 1
            raise KafkaTimeoutError(f"{left} records are still on their way after {timeout_ms} ms") from None
        return None if timeout_ms is None else max(0, timeout_ms - int((loop.time() - start_s) * 1000))

    def close(self, *, timeout_ms: int | None = None) -> None:
        self._end(self._closed(timeout_ms))

    async def _closed(self, timeout_ms: int | None) -> None:
        try:
            left_ms = await self._moved_within(timeout_ms)
        except KafkaTimeoutError:
            left_ms = 0
            self._refuse_all()
        await self._client.close(timeout_ms=left_ms)

    def _refuse_all(self) -> None:
        """What is still in the inbox, and what was taken from it last and waits for the cluster."""
        if self._moving is not None:
            self._moving.cancel()
        while self._inbox:
            delivery, record = self._inbox.popleft()
            _refuse(delivery, record[-1], _closed_too_early())

    async def _committed(self, timeout_ms: int | None) -> None:
        await self._moved()
        await self._client.commit_transaction(timeout_ms=timeout_ms)

    def commit_transaction(self, *, timeout_ms: int | None = None) -> None:
        """Send what waits and commit."""
        self._thread.run(self._committed(timeout_ms))

    async def _aborted(self, timeout_ms: int | None) -> None:
        await self._moved()
        await self._client.abort_transaction(timeout_ms=timeout_ms)

    def abort_transaction(self, *, timeout_ms: int | None = None) -> None:
        self._thread.run(self._aborted(timeout_ms))

    partitions_for = blocking(AsyncProducer.partitions_for)
    init_transactions = blocking(AsyncProducer.init_transactions)
    begin_transaction = plain(AsyncProducer.begin_transaction)
    send_offsets_to_transaction = blocking(AsyncProducer.send_offsets_to_transaction)


def _refuse(delivery: Delivery, on_delivery: OnDelivery | None, error: Exception) -> None:
    """A record that the producer did not take: whoever waits for it hears why."""
    delivery.error = error
    if on_delivery is None:
        return
    told = error if isinstance(error, KafkaError) else KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
    if told is not error:
        told.__cause__ = error
    try:
        on_delivery(None, told)
    except Exception:
        # Those behind it must not wait for ever.
        logger.exception("a callback of a producer failed")


def _closed_too_early() -> KafkaError:
    return KafkaTimeoutError("the producer was closed before the record was sent")
