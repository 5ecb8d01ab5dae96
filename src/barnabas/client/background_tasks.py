"""Background tasks of a producer or a consumer: opening connections, updating metadata."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from barnabas.base.errors import KafkaError
from barnabas.client.cluster import Cluster
from barnabas.client.pool import Purpose


class BackgroundTasks:
    """Runs at most one task per broker and one metadata update; calls `done` on the loop after each."""

    def __init__(self, cluster: Cluster, done: Callable[[], None], purpose: Purpose = Purpose.DATA) -> None:
        self._loop = asyncio.get_running_loop()
        self._cluster = cluster
        self._done = done
        self._purpose = purpose
        self._connecting: dict[int, asyncio.Task[None]] = {}
        self._updating: asyncio.Task[None] | None = None

    def connect(self, node_id: int, failed: Callable[[int], None] | None = None) -> None:
        """Open the connection to a broker; `failed` is called with its id if that fails."""
        if node_id not in self._connecting:
            task = asyncio.ensure_future(self._connected(node_id, failed))
            self._connecting[node_id] = task
            task.add_done_callback(lambda _: self._connecting.pop(node_id, None))

    async def _connected(self, node_id: int, failed: Callable[[int], None] | None) -> None:
        try:
            await self._cluster.connection_to(node_id, self._purpose)
        except KafkaError:
            # The broker may have moved or been removed.
            self._cluster.metadata.expire()
            if failed is not None:
                failed(node_id)
        self._loop.call_soon(self._done)

    def update_metadata(self, lacks_leaders: Callable[[], bool]) -> None:
        """Update the metadata; backs off before `done` if leaders are still missing."""
        if self._updating is None or self._updating.done():
            self._updating = asyncio.ensure_future(self._updated(lacks_leaders))

    async def _updated(self, lacks_leaders: Callable[[], bool]) -> None:
        try:
            await self._cluster.update()
        except KafkaError:
            await asyncio.sleep(self._cluster.retries.pause_s(1))
        else:
            await asyncio.sleep(self._cluster.retries.pause_s(0) if lacks_leaders() else 0)
        self._loop.call_soon(self._done)

    async def close(self) -> None:
        tasks = [*self._connecting.values()]
        if self._updating is not None:
            tasks.append(self._updating)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
