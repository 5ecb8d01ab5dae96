"""The fetchers of a broker: which partition is fetched by which of them.

Contains the assignment of partitions to fetchers, `num.replica.fetchers` for each leader, and their life:
the first partition creates a fetcher, the last one closes it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from barnabas.base.hashing import java_string_hash
from barnabas.broker.context import ReplicaContext
from barnabas.broker.replicas.hosted_partition import Hosted
from barnabas.broker.replication.follower_effects import FollowerEffects
from barnabas.broker.replication.replica_fetcher import LeaderConnection, ReplicaFetcher
from barnabas.config.settings import Settings
from barnabas.metadata.topics import NO_LEADER
from barnabas.replica.fetching.fetch_session import PartitionKey
from barnabas.replica.fetching.fetcher import Fetcher
from barnabas.replica.fetching.requests import FetchOptions
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.timers import TimerService
from barnabas.runtime.network.network import Address
from barnabas.storage.log.names import TopicPartition

logger = logging.getLogger(__name__)

_INT_MASK = 0xFFFFFFFF
_INT_SIGN = 1 << 31


def fetcher_number(topic: str, index: int, fetchers: int) -> int:
    """Which of a leader's fetchers a partition has, as in Apache Kafka."""
    hashed = (31 * java_string_hash(topic) + index) & _INT_MASK
    if hashed & _INT_SIGN:
        hashed = 0 if hashed == _INT_SIGN else (1 << 32) - hashed
    return hashed % fetchers


def fetch_options(settings: Settings) -> FetchOptions:
    return FetchOptions(
        max_wait_ms=settings["replica.fetch.wait.max.ms"],
        min_bytes=settings["replica.fetch.min.bytes"],
        max_bytes=settings["replica.fetch.response.max.bytes"],
        partition_max_bytes=settings["replica.fetch.max.bytes"],
        backoff_ms=settings["replica.fetch.backoff.ms"],
    )


class FetcherManager:
    """All fetchers of one broker.  Runs on the event loop's thread."""

    def __init__(
        self,
        broker: ReplicaContext,
        effects: FollowerEffects,
        *,
        connect: Callable[[str], LeaderConnection],
        timers: TimerService,
        at_tick_end: Callable[[Callable[[], None]], None],
    ) -> None:
        self._broker = broker
        self._broker_id = broker.node.node_id
        self._effects = effects
        # Makes the connection of a fetcher, with this client id; it is opened by the first request.
        self._connect = connect
        self._timers = timers
        self._at_tick_end = at_tick_end
        self._count: int = broker.settings["num.replica.fetchers"]
        # By leader and number.
        self.fetchers: dict[tuple[int, int], ReplicaFetcher] = {}
        self._places: dict[PartitionKey, ReplicaFetcher] = {}
        self._is_stopped = False

    def __len__(self) -> int:
        return len(self._places)

    @property
    def max_lag(self) -> int:
        """How far the partition furthest behind is behind its leader's high watermark, in records."""
        states = (state for one in self.fetchers.values() for state in one.fetcher.states.values())
        return max((state.lag or 0 for state in states), default=0)

    # Partitions

    def follow(self, partition: Hosted) -> None:
        """Fetch the partition from its leader, in its current epoch; without a leader it waits for one."""
        is_followed = not partition.is_leader and partition.leader not in (NO_LEADER, self._broker_id)
        if self._is_stopped or not is_followed or partition.log is None:
            self.unfollow(partition)
            return
        place = (partition.leader, fetcher_number(partition.topic, partition.index, self._count))
        fetcher = self.fetchers.get(place)
        key = (partition.topic_id, partition.index)
        if self._places.get(key) is not fetcher:
            self.unfollow(partition)
            fetcher = self.fetchers.get(place)
        if fetcher is None:
            fetcher = self.fetchers[place] = self._create(*place)
        self._places[key] = fetcher
        truncation = fetcher.fetcher.add(partition)
        if truncation is not None:
            fetcher.truncate(truncation)
        fetcher.wake()

    def unfollow(self, partition: Hosted) -> None:
        """Stop fetching the partition: it is led, removed or offline."""
        key = (partition.topic_id, partition.index)
        fetcher = self._places.pop(key, None)
        if fetcher is None:
            return
        fetcher.fetcher.remove(key)
        if len(fetcher.fetcher):
            fetcher.wake()
        else:
            del self.fetchers[fetcher.leader_id, fetcher.number]
            fetcher.close()
            logger.info("%r is closed: nothing is left to fetch", fetcher)

    def flushed(self, partition: Hosted) -> None:
        """The partition's log was flushed: with flush.messages its fetcher waits for that."""
        fetcher = self._places.get((partition.topic_id, partition.index))
        if fetcher is not None and fetcher.fetcher.flushed((partition.topic_id, partition.index)):
            fetcher.wake()

    def has_room(self, partition: Hosted) -> None:
        """The partition's directory has space again: fetch what there was no space for."""
        key = (partition.topic_id, partition.index)
        fetcher = self._places.get(key)
        if fetcher is not None:
            fetcher.has_room(key)

    def configure(self, partitions: Callable[[], list[Hosted]]) -> None:
        """The broker's settings have changed: apply another num.replica.fetchers."""
        count: int = self._broker.settings["num.replica.fetchers"]
        if count == self._count:
            return
        logger.info("the number of fetchers for each leader changes from %d to %d", self._count, count)
        self._count = count
        for partition in partitions():
            if (partition.topic_id, partition.index) in self._places:
                self.follow(partition)

    def is_truncating(self, name: TopicPartition) -> bool:
        return self._effects.truncations.is_truncating(name)

    def stop(self) -> Promise[None]:
        """Close all connections; completes when no log is being truncated any more."""
        self._is_stopped = True
        for fetcher in self.fetchers.values():
            fetcher.close()
        self.fetchers.clear()
        self._places.clear()
        return self._effects.truncations.stop()

    # Fetchers

    def _create(self, leader_id: int, number: int) -> ReplicaFetcher:
        broker = self._broker
        settings = broker.settings
        logger.info("fetcher %d of broker %d begins", number, leader_id)
        return ReplicaFetcher(
            leader_id,
            number,
            Fetcher(self._broker_id, fetch_options(settings)),
            self._connect(f"broker-{self._broker_id}-fetcher-{number}"),
            self._effects,
            broker_id=self._broker_id,
            broker_epoch=lambda: broker.broker_epoch,
            address_of=self._address_of,
            timeout_ms=settings["replica.socket.timeout.ms"],
            timers=self._timers,
            now_ns=broker.clock.monotonic_ns,
            at_tick_end=self._at_tick_end,
        )

    def _address_of(self, broker_id: int) -> Address | None:
        """Where a broker accepts requests of other brokers."""
        registered = self._broker.image.brokers.get(broker_id)
        listener = self._broker.node.listeners.inter_broker_name
        for end in () if registered is None else registered.endpoints:
            if end.name == listener:
                return Address(end.host, end.port)
        return None
