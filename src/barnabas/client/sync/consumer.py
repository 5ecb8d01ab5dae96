"""The blocking consumer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Unpack

from barnabas.base.type_variables import K, V
from barnabas.batch.engine.consume import ConsumerRecord
from barnabas.client.consumer.consumer import DEFAULT_CLOSE_MS, DEFAULT_POLL_MS, by_partition
from barnabas.client.consumer.consumer import Consumer as AsyncConsumer
from barnabas.client.consumer.subscription import RebalanceListener
from barnabas.client.model import TopicPartition
from barnabas.client.sync.blocking_client import BlockingClient, blocking, on_loop, start_client
from barnabas.client.types.serializers import DeserializerGiven
from barnabas.runtime.loop.loop_thread import in_caller

if TYPE_CHECKING:
    from barnabas.client.types.options import ConsumerOptions


class Consumer(BlockingClient[AsyncConsumer[K, V]], Generic[K, V]):
    """See `barnabas.client.Consumer`.

    with Consumer("orders", bootstrap_servers="localhost:9092", group_id="billing") as consumer:
        for record in consumer:
            ...
    """

    def __init__(
        self,
        config: Mapping[str, object] | str | None = None,
        /,
        *topics: str,
        key_deserializer: DeserializerGiven[K] | None = None,
        value_deserializer: DeserializerGiven[V] | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        def make() -> AsyncConsumer[K, V]:
            return AsyncConsumer(
                config,
                *topics,
                key_deserializer=key_deserializer,
                value_deserializer=value_deserializer,
                **options,
            )

        super().__init__(*start_client("barnabas-consumer", make))

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        server_pattern: str | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Subscribe as a member of the group; the listener is called on the polling thread."""
        on_caller = None if listener is None else _OnCallersThread(listener)
        self._subscribe(topics, pattern=pattern, server_pattern=server_pattern, listener=on_caller)

    _subscribe = on_loop(AsyncConsumer.subscribe)

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        while not self._is_closed:
            yield from self._one_by_one(self.poll())

    def _one_by_one(self, records: list[ConsumerRecord[K, V]]) -> Iterator[ConsumerRecord[K, V]]:
        """Yield records so that a commit within the loop commits consumed records, not all polled ones."""
        out = self._client._out
        out.begin(records)
        for record in records:
            out.taken += 1
            yield record
            if out.records is not records:
                return

    def wakeup(self) -> None:
        """Make a waiting poll return at once, without records; may be called by any thread and by signal
        handlers."""
        self._thread.call_soon(self._client.wakeup)

    def close(self, *, timeout_ms: int = DEFAULT_CLOSE_MS) -> None:
        """Auto-commit if enabled, leave the group, and close the connections."""
        self._end(self._client.close(timeout_ms=timeout_ms))

    def poll(
        self, timeout_ms: int = DEFAULT_POLL_MS, max_records: int | None = None
    ) -> list[ConsumerRecord[K, V]]:
        """Return the next records, at most `max.poll.records`; an empty list if none arrive in time."""
        return self.call(lambda consumer: consumer.poll(timeout_ms, max_records))

    def getone(self, *, timeout_ms: int | None = None) -> ConsumerRecord[K, V]:
        """Return the next record; raises KafkaTimeoutError if none arrives in time, or after `wakeup`."""
        return self.call(lambda consumer: consumer.getone(timeout_ms=timeout_ms))

    def getmany(
        self, timeout_ms: int = DEFAULT_POLL_MS, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
        """Like `poll`, with the records by partition."""
        return by_partition(self.poll(timeout_ms, max_records))

    poll_arrow = blocking(AsyncConsumer.poll_arrow)
    assign = on_loop(AsyncConsumer.assign)
    unsubscribe = blocking(AsyncConsumer.unsubscribe)
    subscription = on_loop(AsyncConsumer.subscription)
    assignment = on_loop(AsyncConsumer.assignment)
    seek = on_loop(AsyncConsumer.seek)
    seek_to_beginning = on_loop(AsyncConsumer.seek_to_beginning)
    seek_to_end = on_loop(AsyncConsumer.seek_to_end)
    seek_to_time = on_loop(AsyncConsumer.seek_to_time)
    seek_to_committed = on_loop(AsyncConsumer.seek_to_committed)
    position = blocking(AsyncConsumer.position)
    pause = on_loop(AsyncConsumer.pause)
    resume = on_loop(AsyncConsumer.resume)
    paused = on_loop(AsyncConsumer.paused)
    current_lag = on_loop(AsyncConsumer.current_lag)
    consumed = on_loop(AsyncConsumer.consumed)
    commit = blocking(AsyncConsumer.commit)
    commit_async = on_loop(AsyncConsumer.commit_async)
    committed = blocking(AsyncConsumer.committed)
    statistics = on_loop(AsyncConsumer.statistics)
    group_metadata = on_loop(AsyncConsumer.group_metadata)
    beginning_offsets = blocking(AsyncConsumer.beginning_offsets)
    end_offsets = blocking(AsyncConsumer.end_offsets)
    offsets_for_times = blocking(AsyncConsumer.offsets_for_times)
    partitions_for = blocking(AsyncConsumer.partitions_for)
    list_topics = blocking(AsyncConsumer.list_topics)


class _OnCallersThread:
    """A listener whose methods run on the polling thread, so that they may call the consumer."""

    def __init__(self, listener: RebalanceListener) -> None:
        self._listener = listener

    async def _call(self, name: str, partitions: list[TopicPartition]) -> Any:
        method = getattr(self._listener, name, None)
        return None if method is None else await in_caller(partial(method, partitions))

    async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        await self._call("on_partitions_assigned", partitions)

    async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        await self._call("on_partitions_revoked", partitions)

    async def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        has_own = hasattr(self._listener, "on_partitions_lost")
        await self._call("on_partitions_lost" if has_own else "on_partitions_revoked", partitions)
