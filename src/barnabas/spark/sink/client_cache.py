"""The clients that a process keeps for the next task: a loop, connections, and for at-least-once its
producer.

Spark's worker processes serve many tasks one after the other, and connecting for each would cost more than a
small batch takes.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from barnabas.client.cluster import Cluster
from barnabas.client.options import producer_options
from barnabas.runtime.loop.loop_thread import LoopThread
from barnabas.spark.sink.calls import SinkCalls
from barnabas.spark.sink.options import DRIVER_DEFAULTS, SinkOptions
from barnabas.spark.sink.producer import TableProducer

T = TypeVar("T")
# More kinds of sinks in one process are unlikely; the oldest is evicted.
MAX_CLIENT_CACHES = 8


class ClientCache:
    """A loop on its own thread, and clients that live there as long as the process."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._thread = LoopThread("barnabas-spark-sink")
        self._cluster: Cluster | None = None
        self._calls: SinkCalls | None = None
        self._producer: TableProducer | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._thread.run(work)

    async def calls(self) -> SinkCalls:
        if self._calls is None:
            self._calls = SinkCalls({**DRIVER_DEFAULTS, **self._options.kafka})
        return self._calls

    async def cluster(self) -> Cluster:
        """Return the cluster for tasks: the first write creates topics, if brokers allow it."""
        if self._cluster is None:
            settings = producer_options(self._options.table_settings(), {})
            self._cluster = Cluster(settings, allow_auto_topic_creation=True)
        return self._cluster

    async def producer(self) -> TableProducer:
        """Return the producer for rows without transactions."""
        if self._producer is None:
            settings = producer_options(self._options.table_settings(), {})
            self._producer = TableProducer(settings, await self.cluster())
        return self._producer

    async def transactional(self, transactional_id: str) -> TableProducer:
        """Return a new producer for one transaction."""
        settings = producer_options(self._options.table_settings(transactional_id), {})
        return TableProducer(settings, await self.cluster())

    async def _closed(self) -> None:
        if self._producer is not None:
            await self._producer.close()
        if self._cluster is not None:
            await self._cluster.close()
        if self._calls is not None:
            await self._calls.close()

    def close(self) -> None:
        self._thread.run(self._closed())
        self._thread.end()


_client_caches: dict[tuple[tuple[str, str], ...], ClientCache] = {}


def client_cache_for(options: SinkOptions) -> ClientCache:
    """Return the client cache of this process for a cluster and its options."""
    key = tuple(sorted(options.kafka.items()))
    cached = _client_caches.get(key)
    if cached is None:
        while len(_client_caches) >= MAX_CLIENT_CACHES:
            _client_caches.pop(next(iter(_client_caches))).close()
        cached = _client_caches[key] = ClientCache(options)
    return cached


def discard(options: SinkOptions) -> None:
    """Called after a failure: the next task creates new clients."""
    cached = _client_caches.pop(tuple(sorted(options.kafka.items())), None)
    if cached is not None:
        cached.close()
