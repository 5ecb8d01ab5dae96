"""What a process keeps for the next task: a loop, connections, and for at-least-once its producer.

What lives here: clients by their options.  Spark's worker processes serve many tasks one after the other, and
to connect anew for each would cost more than a small batch takes.  What may not: what clients do.
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
# More kinds of sinks in one process are unlikely; the oldest makes room.
MAX_DESKS = 8


class ClientCache:
    """A loop on a thread of its own, and clients that live there as long as the process."""

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
        """For tasks: topics are created by the first write, where brokers allow that."""
        if self._cluster is None:
            settings = producer_options(self._options.table_settings(), {})
            self._cluster = Cluster(settings, allow_auto_topic_creation=True)
        return self._cluster

    async def producer(self) -> TableProducer:
        """The one for rows that need no transaction."""
        if self._producer is None:
            settings = producer_options(self._options.table_settings(), {})
            self._producer = TableProducer(settings, await self.cluster())
        return self._producer

    async def transactional(self, transactional_id: str) -> TableProducer:
        """A new one for one transaction."""
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
    """The desk of this process for a cluster and its options."""
    key = tuple(sorted(options.kafka.items()))
    found = _client_caches.get(key)
    if found is None:
        while len(_client_caches) >= MAX_DESKS:
            _client_caches.pop(next(iter(_client_caches))).close()
        found = _client_caches[key] = ClientCache(options)
    return found


def discard(options: SinkOptions) -> None:
    """After a failure: whoever comes next starts anew."""
    found = _client_caches.pop(tuple(sorted(options.kafka.items())), None)
    if found is not None:
        found.close()
