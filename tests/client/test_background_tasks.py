"""Background tasks of a client: one at a time for each purpose, reported when done, ended by close."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.client.background_tasks import BackgroundTasks
from barnabas.client.pool import Purpose

PATIENCE_S = 60


class FakeCluster:
    """Each call waits until the test answers it."""

    def __init__(self) -> None:
        self.connecting: list[tuple[int, Purpose, asyncio.Future[None]]] = []
        self.updating: list[asyncio.Future[None]] = []
        self.expired = 0
        self.pauses: list[int] = []
        self.metadata = SimpleNamespace(expire=self._expire)
        self.retries = SimpleNamespace(pause_s=self._pause_s)

    def _expire(self) -> None:
        self.expired += 1

    def _pause_s(self, attempt: int) -> float:
        self.pauses.append(attempt)
        return 0

    async def connection_to(self, node_id: int, purpose: Purpose) -> None:
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.connecting.append((node_id, purpose, answer))
        await answer

    async def update(self) -> None:
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.updating.append(answer)
        await answer


class Tasks:
    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.done = asyncio.Event()
        self.calls = 0
        self.tasks = BackgroundTasks(self.cluster, self._called, Purpose.DATA)  # type: ignore[arg-type]

    def _called(self) -> None:
        self.calls += 1
        self.done.set()

    async def until_done(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self.done.wait()
        self.done.clear()


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


async def _begun() -> None:
    """Tasks that were started have begun after this."""
    for _ in range(3):
        await asyncio.sleep(0)


def test_a_broker_is_connected_to_once_at_a_time() -> None:
    async def scenario() -> None:
        world = Tasks()
        failed: list[int] = []
        for node_id in (1, 1, 2):
            world.tasks.connect(node_id, failed.append)
        await _begun()
        assert [(node_id, purpose) for node_id, purpose, _ in world.cluster.connecting] == [
            (1, Purpose.DATA),
            (2, Purpose.DATA),
        ]
        world.cluster.connecting[0][2].set_result(None)
        await world.until_done()
        assert (world.calls, failed, world.cluster.expired) == (1, [], 0)
        world.cluster.connecting[1][2].set_exception(KafkaError(ErrorCode.NETWORK_EXCEPTION))
        await world.until_done()
        assert (world.calls, failed, world.cluster.expired) == (2, [2], 1)
        world.tasks.connect(1)
        await _begun()
        assert len(world.cluster.connecting) == 3, "the first attempt is over"
        world.cluster.connecting[2][2].set_exception(KafkaError(ErrorCode.NETWORK_EXCEPTION))
        await world.until_done()
        assert world.cluster.expired == 2

    run(scenario())


def test_metadata_is_updated_once_at_a_time_with_a_pause_if_it_was_of_no_use() -> None:
    async def scenario() -> None:
        world = Tasks()
        lacks = False
        for _ in range(2):
            world.tasks.update_metadata(lambda: lacks)
        await _begun()
        assert len(world.cluster.updating) == 1
        world.cluster.updating[0].set_result(None)
        await world.until_done()
        assert world.cluster.pauses == []
        lacks = True
        world.tasks.update_metadata(lambda: lacks)
        await _begun()
        world.cluster.updating[1].set_result(None)
        await world.until_done()
        assert world.cluster.pauses == [0], "leaders are missing"
        world.tasks.update_metadata(lambda: lacks)
        await _begun()
        world.cluster.updating[2].set_exception(KafkaError(ErrorCode.NETWORK_EXCEPTION))
        await world.until_done()
        assert (world.cluster.pauses, world.calls) == ([0, 1], 3)

    run(scenario())


def test_close_ends_what_is_under_way() -> None:
    async def scenario() -> None:
        world = Tasks()
        world.tasks.connect(1)
        world.tasks.update_metadata(lambda: False)
        await _begun()
        async with asyncio.timeout(PATIENCE_S):
            await world.tasks.close()
        assert world.cluster.updating[0].cancelled()
        assert world.cluster.connecting[0][2].cancelled()
        assert world.calls == 0

    run(scenario())


def test_close_without_any_task_returns() -> None:
    async def scenario() -> None:
        await Tasks().tasks.close()

    run(scenario())
