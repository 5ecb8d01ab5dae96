"""The producer for programs without asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from barnabas.base.errors import KafkaError
from barnabas.client.errors.local import ClosedError, KafkaTimeoutError
from barnabas.client.producer.delivery import OnDelivery, RecordMetadata
from barnabas.client.producer.placing import HeadersGiven, check_arguments, headers_of
from barnabas.client.producer.producer import Producer as AsyncProducer
from barnabas.client.sync.face import Face, blocking, plain, started
from barnabas.client.sync.inbox import Handover, Inbox, closed_too_early


class Delivery(Handover):
    """A record that was given to send(); `result()` waits until it is written."""

    __slots__ = ("_face",)

    def __init__(self, face: Producer) -> None:
        super().__init__()
        self._face = face

    @property
    def error(self) -> Exception | None:
        """Why it was refused, or not written."""
        taken = self.taken
        return self.refusal if taken is None else taken.error

    @property
    def done(self) -> bool:
        return self.refusal is not None or (self.taken is not None and self.taken.done)

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
        self._inbox = Inbox(self._thread, self._client)
        # Interceptors may make bytes of anything: then only they know what may be given.
        self._check_types = None if self._client._interceptors else self._client._placer.check_types

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
        """Take a record; what cannot be sent at all raises here (TypeError, ValueError, InvalidTopicError).

        What comes to light later, `result()` and `on_delivery` report, the latter on the client's own thread.
        """
        if self._is_closed:
            raise ClosedError("the producer is closed; open a new one")
        if (
            topic not in self._client._quick
            or partition is not None
            or timestamp_ms is not None
            or on_delivery is not None
        ):
            check_arguments(topic, partition, timestamp_ms, on_delivery)
        if self._check_types is not None:
            self._check_types(key, value)
        if headers != ():
            headers = headers_of(headers)
        delivery = Delivery(self)
        record = (topic, value, key, partition, headers, timestamp_ms, on_delivery)
        self._inbox.put(delivery, record)
        return delivery

    def _result(self, delivery: Delivery, timeout_s: float | None) -> RecordMetadata:
        return self._thread.run(self._awaited(delivery, timeout_s))

    async def _awaited(self, delivery: Delivery, timeout_s: float | None) -> RecordMetadata:
        try:
            async with asyncio.timeout(timeout_s):
                await delivery.settled()
                if delivery.taken is None:
                    assert delivery.refusal is not None
                    raise delivery.refusal
                metadata: RecordMetadata = await delivery.taken
                return metadata
        except KafkaError:
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
                await self._inbox.at_most(0)
        except TimeoutError:
            left = self._inbox.size
            raise KafkaTimeoutError(f"{left} records are still on their way after {timeout_ms} ms") from None
        return None if timeout_ms is None else max(0, timeout_ms - int((loop.time() - start_s) * 1000))

    def close(self, *, timeout_ms: int | None = None) -> None:
        self._end(self._closed(timeout_ms))

    async def _closed(self, timeout_ms: int | None) -> None:
        try:
            left_ms = await self._moved_within(timeout_ms)
        except KafkaTimeoutError:
            left_ms = 0
            self._inbox.refuse_all(closed_too_early())
        await self._client.close(timeout_ms=left_ms)

    async def _committed(self, timeout_ms: int | None) -> None:
        await self._inbox.at_most(0)
        await self._client.commit_transaction(timeout_ms=timeout_ms)

    def commit_transaction(self, *, timeout_ms: int | None = None) -> None:
        """Send what waits and commit."""
        self._thread.run(self._committed(timeout_ms))

    async def _aborted(self, timeout_ms: int | None) -> None:
        await self._inbox.at_most(0)
        await self._client.abort_transaction(timeout_ms=timeout_ms)

    def abort_transaction(self, *, timeout_ms: int | None = None) -> None:
        self._thread.run(self._aborted(timeout_ms))

    partitions_for = blocking(AsyncProducer.partitions_for)
    init_transactions = blocking(AsyncProducer.init_transactions)
    begin_transaction = plain(AsyncProducer.begin_transaction)
    send_offsets_to_transaction = blocking(AsyncProducer.send_offsets_to_transaction)
