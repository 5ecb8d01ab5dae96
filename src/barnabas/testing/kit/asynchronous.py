"""The kit for tests that are coroutines: the same calls, awaited, run in threads beside the loop."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

from barnabas.base.errors import ErrorCode
from barnabas.runtime.loop.loop_services import off_loop
from barnabas.testing.kit.cluster import Cluster
from barnabas.testing.kit.faults.faults import Faults
from barnabas.testing.kit.faults.outages import Effect, Outage
from barnabas.testing.kit.faults.rules import Fault
from barnabas.testing.kit.shared import Kafka
from barnabas.testing.kit.snapshots import Snapshot
from barnabas.testing.kit.topics.groups import Group
from barnabas.testing.kit.topics.records import Codec, TestRecord
from barnabas.testing.kit.topics.topics import Topic
from barnabas.testing.kit.waiting import DEFAULT_TIMEOUT_S


class AsyncTopic:
    """See `Topic`."""

    def __init__(self, topic: Topic) -> None:
        self.blocking = topic
        self.name = topic.name

    async def send(
        self,
        value: Any,
        key: str | bytes | None = None,
        headers: Mapping[str, str | bytes] | None = None,
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> None:
        await off_loop(self.blocking.send, value, key, headers, partition, timestamp)

    async def records(
        self, n: int = 1, timeout: float = DEFAULT_TIMEOUT_S, *, committed: bool = False
    ) -> list[TestRecord]:
        return await off_loop(self.blocking.records, n, timeout, committed=committed)

    async def all_records(self, *, committed: bool = False) -> list[TestRecord]:
        return await off_loop(self.blocking.all_records, committed=committed)

    async def load(self, path: str | Path) -> int:
        return await off_loop(self.blocking.load, path)


class AsyncGroup:
    """See `Group`."""

    def __init__(self, group: Group) -> None:
        self.blocking = group
        self.id = group.id

    async def state(self) -> str:
        return await off_loop(lambda: self.blocking.state)

    async def lag(self, *topics: AsyncTopic | str) -> int:
        return await off_loop(self.blocking.lag, *_names(topics))

    async def wait_settled(self, timeout: float = DEFAULT_TIMEOUT_S) -> None:
        await off_loop(self.blocking.wait_settled, timeout)

    async def wait_assigned(
        self, *topics: AsyncTopic | str, members: int | None = None, timeout: float = DEFAULT_TIMEOUT_S
    ) -> None:
        await off_loop(self.blocking.wait_assigned, *_names(topics), members=members, timeout=timeout)

    async def wait_caught_up(self, *topics: AsyncTopic | str, timeout: float = DEFAULT_TIMEOUT_S) -> None:
        await off_loop(self.blocking.wait_caught_up, *_names(topics), timeout=timeout)


class AsyncKafka:
    """See `Kafka`."""

    def __init__(self, kafka: Kafka) -> None:
        self.blocking = kafka

    @property
    def bootstrap_servers(self) -> str:
        return self.blocking.bootstrap_servers

    async def topic(
        self,
        name: str,
        *,
        exact: bool = False,
        partitions: int = 1,
        configs: Mapping[str, object] | None = None,
        codec: Codec | None = None,
    ) -> AsyncTopic:
        make = self.blocking.topic
        return AsyncTopic(
            await off_loop(make, name, exact=exact, partitions=partitions, configs=configs, codec=codec)
        )

    def group(self, group_id: str) -> AsyncGroup:
        return AsyncGroup(self.blocking.group(group_id))


class AsyncEffect:
    """Something that the kit does to a cluster, see `Effect`.  It begins when it is awaited or entered:

    async with cluster.kill(1) as outage:
        await outage.wait_election()
    """

    blocking: Effect

    def __init__(self, begin: Callable[[], Effect]) -> None:
        self._begin = begin

    def __await__(self) -> Generator[Any, None, Self]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> Self:
        self.blocking = await off_loop(self._begin)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.end()

    async def end(self) -> None:
        await off_loop(self.blocking.end)

    async def wait_election(self, timeout: float = DEFAULT_TIMEOUT_S) -> Self:
        """Of an outage of a node."""
        assert isinstance(self.blocking, Outage), f"{self.blocking} leaves all nodes running"
        await off_loop(self.blocking.wait_election, timeout)
        return self


class AsyncFault:
    """A fault of requests, see `Fault`; it begins when it is awaited or entered."""

    blocking: Fault

    def __init__(self, begin: Callable[[], Fault]) -> None:
        self._begin = begin

    def __await__(self) -> Generator[Any, None, Self]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> Self:
        self.blocking = await off_loop(self._begin)
        return self

    async def __aexit__(self, *_: object) -> None:
        await off_loop(self.blocking.remove)

    @property
    def hits(self) -> int:
        return self.blocking.hits

    async def wait(self, hits: int = 1, timeout: float = DEFAULT_TIMEOUT_S) -> Self:
        await off_loop(self.blocking.wait, hits, timeout)
        return self


class AsyncFaults:
    """See `Faults`."""

    def __init__(self, faults: Faults) -> None:
        self.blocking = faults

    def add(self, api: str, **what: Any) -> AsyncFault:
        return AsyncFault(partial(self.blocking.add, api, **what))

    def error(self, api: str, error: str | int | ErrorCode, **what: Any) -> AsyncFault:
        return AsyncFault(partial(self.blocking.error, api, error, **what))

    def partition(self, one: int | str, *others: int | Literal["zookeeper"]) -> AsyncEffect:
        return AsyncEffect(partial(self.blocking.partition, one, *others))

    def full_disk(self, node: int) -> AsyncEffect:
        return AsyncEffect(partial(self.blocking.full_disk, node))

    def slow_disk(self, node: int, seconds: float) -> AsyncEffect:
        return AsyncEffect(partial(self.blocking.slow_disk, node, seconds))

    def shrink_isr(
        self, topic: str, partition: int, node: int, timeout: float = DEFAULT_TIMEOUT_S
    ) -> AsyncEffect:
        return AsyncEffect(partial(self.blocking.shrink_isr, topic, partition, node, timeout))

    async def rebalance(self, group: str) -> None:
        await off_loop(self.blocking.rebalance, group)

    async def expire_transaction(self, transactional_id: str) -> None:
        await off_loop(self.blocking.expire_transaction, transactional_id)


class AsyncCluster:
    """See `Cluster`.

    async with AsyncCluster(Cluster(3)) as cluster:
        topic = await cluster.topic("orders")
    """

    def __init__(self, cluster: Cluster) -> None:
        self.blocking = cluster
        self.faults = AsyncFaults(cluster.faults)

    async def __aenter__(self) -> Self:
        await off_loop(self.blocking.start)
        return self

    async def __aexit__(self, *_: object) -> None:
        await off_loop(self.blocking.stop)

    @property
    def bootstrap_servers(self) -> str:
        return self.blocking.bootstrap_servers

    @property
    def brokers(self) -> list[int]:
        return self.blocking.brokers

    async def topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        configs: Mapping[str, object] | None = None,
        codec: Codec | None = None,
    ) -> AsyncTopic:
        make = self.blocking.topic
        return AsyncTopic(await off_loop(make, name, partitions=partitions, configs=configs, codec=codec))

    async def existing_topic(self, name: str, *, codec: Codec | None = None) -> AsyncTopic:
        return AsyncTopic(await off_loop(self.blocking.existing_topic, name, codec=codec))

    def group(self, group_id: str) -> AsyncGroup:
        return AsyncGroup(self.blocking.group(group_id))

    async def leader(self, topic: str, partition: int = 0) -> int:
        return await off_loop(self.blocking.leader, topic, partition)

    async def isr(self, topic: str, partition: int = 0) -> list[int]:
        return await off_loop(self.blocking.isr, topic, partition)

    async def coordinator(self, *, group: str | None = None, transactional_id: str | None = None) -> int:
        return await off_loop(self.blocking.coordinator, group=group, transactional_id=transactional_id)

    def kill(self, node: int, *, fence: bool = True) -> AsyncEffect:
        return AsyncEffect(partial(self.blocking.kill, node, fence=fence))

    def shut_down(self, node: int) -> AsyncEffect:
        return AsyncEffect(partial(self.blocking.shut_down, node))

    def pause(self, node: int, *, fence: bool = False) -> AsyncEffect:
        return AsyncEffect(partial(self.blocking.pause, node, fence=fence))

    async def restart(self, node: int) -> None:
        await off_loop(self.blocking.restart, node)

    async def elect(self, topic: str, partition: int = 0, leader: int | None = None) -> int:
        return await off_loop(self.blocking.elect, topic, partition, leader)

    async def advance(self, **how_far: Any) -> None:
        """The clock's `advance`."""
        await off_loop(self.blocking.clock.advance, **how_far)

    async def run_retention(self) -> None:
        await off_loop(self.blocking.run_retention)

    async def snapshot(self) -> Snapshot:
        return await off_loop(self.blocking.snapshot)

    async def restore(self, snapshot: Snapshot) -> None:
        await off_loop(self.blocking.restore, snapshot)


def _names(topics: tuple[AsyncTopic | str, ...]) -> list[str]:
    return [topic if isinstance(topic, str) else topic.name for topic in topics]
