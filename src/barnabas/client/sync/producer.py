"""The blocking producer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, Unpack

from barnabas.base.errors import KafkaError
from barnabas.base.type_variables import K, V
from barnabas.client.errors.local import ClosedError, KafkaTimeoutError
from barnabas.client.producer.delivery import OnDelivery, RecordMetadata
from barnabas.client.producer.placing import HeadersGiven, check_arguments, headers_of
from barnabas.client.producer.producer import Producer as AsyncProducer
from barnabas.client.producer.transactions import State
from barnabas.client.sync.blocking_client import BlockingClient, blocking, on_loop, start_client
from barnabas.client.sync.inbox import Inbox, PendingRecord, closed_too_early
from barnabas.client.types.serializers import SerializerGiven

if TYPE_CHECKING:
    from barnabas.client.sync.consumer import Consumer
    from barnabas.client.sync.transaction import Transaction
    from barnabas.client.types.options import ProducerOptions


class Delivery(PendingRecord):
    """A record passed to send(); `result()` waits until it is written."""

    __slots__ = ("_producer",)

    def __init__(self, client: Producer[Any, Any]) -> None:
        super().__init__()
        self._producer = client

    @property
    def error(self) -> Exception | None:
        """The error if it was rejected or not written."""
        taken = self.taken
        if taken is not None:
            failure: Exception | None = taken.error
            return failure
        if self.refusal is not None:
            self._producer._claim(self)
        return self.refusal

    @property
    def done(self) -> bool:
        """Whether it was written or has failed."""
        return self.refusal is not None or (self.taken is not None and self.taken.done)

    def result(self, timeout_s: float | None = None) -> RecordMetadata:
        """Wait until it is written and return its metadata; raises if that failed."""
        return self._producer._result(self, timeout_s)


class Producer(BlockingClient[AsyncProducer[K, V]], Generic[K, V]):
    """See `barnabas.client.Producer`.

    with Producer(bootstrap_servers="localhost:9092") as producer:
        delivery = producer.send("orders", b"value", key=b"key")
        metadata = delivery.result()
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
        def make() -> AsyncProducer[K, V]:
            return AsyncProducer(
                config, key_serializer=key_serializer, value_serializer=value_serializer, **options
            )

        super().__init__(*start_client("barnabas-producer", make))
        self._inbox = Inbox(self._thread, self._client)
        # Interceptors may convert any type to bytes, so types cannot be checked here.
        self._check_types = None if self._client._interceptors else self._client._placer.check_types

    def send(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        partition: int | None = None,
        headers: HeadersGiven = (),
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Accept a record; invalid arguments raise here (TypeError, ValueError, InvalidTopicError).

        Later errors are reported by `result()` and `on_delivery`; the latter runs on the client's own thread.
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

    def send_and_wait(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        partition: int | None = None,
        headers: HeadersGiven = (),
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """Send a record and wait until it is written."""
        return self.send(topic, value, key, partition, headers, timestamp_ms).result()

    def _result(self, delivery: Delivery, timeout_s: float | None) -> RecordMetadata:
        return self._thread.run(self._awaited(delivery, timeout_s))

    async def _awaited(self, delivery: Delivery, timeout_s: float | None) -> RecordMetadata:
        try:
            async with asyncio.timeout(timeout_s):
                await delivery.settled()
                if delivery.taken is None:
                    assert delivery.refusal is not None
                    self._claim(delivery)
                    raise delivery.refusal
                metadata: RecordMetadata = await delivery.taken
                return metadata
        except KafkaError:
            raise
        except TimeoutError:
            raise KafkaTimeoutError(f"the record was not written within {timeout_s} s") from None

    def _claim(self, delivery: Delivery) -> None:
        self._client._sender.undelivered.claim(delivery)

    def flush(self, *, timeout_ms: int | None = None) -> None:
        """Wait until all accepted records are written or have failed."""
        self._thread.run(self._flushed(timeout_ms))

    async def _flushed(self, timeout_ms: int | None) -> None:
        await self._client.flush(timeout_ms=await self._moved_within(timeout_ms))

    async def _moved_within(self, timeout_ms: int | None) -> int | None:
        """Wait until the inbox is empty; returns the remaining milliseconds."""
        loop = asyncio.get_running_loop()
        start_s = loop.time()
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                await self._inbox.at_most(0)
        except TimeoutError:
            left = self._inbox.size
            raise KafkaTimeoutError(f"{left} records are still undelivered after {timeout_ms} ms") from None
        return None if timeout_ms is None else max(0, timeout_ms - int((loop.time() - start_s) * 1000))

    def close(self, *, timeout_ms: int | None = None) -> None:
        """Send waiting records for at most `timeout_ms`; raises UndeliveredError as without `sync`."""
        self._end(self._closed(timeout_ms))

    async def _closed(self, timeout_ms: int | None) -> None:
        try:
            left_ms = await self._moved_within(timeout_ms)
        except KafkaTimeoutError:
            left_ms = 0
            self._inbox.refuse_all(closed_too_early())
        await self._client._shut_down(left_ms)
        self._client._report_lost(only_log=timeout_ms == 0)

    async def _committed(self, timeout_ms: int | None) -> None:
        await self._inbox.at_most(0)
        await self._client.commit_transaction(timeout_ms=timeout_ms)

    def commit_transaction(self, *, timeout_ms: int | None = None) -> None:
        """Send waiting records and commit: all become visible, or an error says that it must be aborted."""
        self._thread.run(self._committed(timeout_ms))

    async def _aborted(self, timeout_ms: int | None) -> None:
        await self._inbox.at_most(0)
        await self._client.abort_transaction(timeout_ms=timeout_ms)

    def abort_transaction(self, *, timeout_ms: int | None = None) -> None:
        """Drop waiting records and abort: read_committed consumers see none of the transaction."""
        self._thread.run(self._aborted(timeout_ms))

    def transaction(self, consumer: Consumer[Any, Any] | None = None) -> Transaction:
        """A transaction as a block, committed at its end and aborted if it raises.

            with producer.transaction(consumer):
                for record in consumer.poll():
                    producer.send("shouts", record.value.upper())

        With a consumer its offsets are committed with the transaction, and after an abort it reads the same
        records again.  The first block calls `init_transactions`.
        """
        from barnabas.client.sync.transaction import Transaction  # It needs the consumer.

        self._client._transactional()
        return Transaction(self, consumer)

    @property
    def transaction_state(self) -> State:
        """Whether a transaction is open, is ending, or has failed."""
        return self._client.transaction_state

    statistics = on_loop(AsyncProducer.statistics)
    partitions_for = blocking(AsyncProducer.partitions_for)
    init_transactions = blocking(AsyncProducer.init_transactions)
    begin_transaction = on_loop(AsyncProducer.begin_transaction)
    send_offsets_to_transaction = blocking(AsyncProducer.send_offsets_to_transaction)
