"""The coordinators of a broker: creates their shards from the state machines and the broker's settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from barnabas.base.topic_names import CONSUMER_OFFSETS
from barnabas.batch.compression import Codec
from barnabas.broker.coordinators.shards import Shards
from barnabas.broker.coordinators.transactions import Transactions
from barnabas.broker.metrics.registry import Metrics
from barnabas.broker.peers.broker_channel import BrokerChannel
from barnabas.broker.replicas.replica_manager import ReplicaManager
from barnabas.metadata.delta import Delta
from barnabas.runtime.loop.timers import TimerService

if TYPE_CHECKING:
    from barnabas.broker.server import Broker
    from barnabas.coordinator.group.machine import GroupMachine


class Coordinators:
    """The group and transaction coordinators of one broker."""

    def __init__(
        self,
        broker: Broker,
        replicas: ReplicaManager,
        timers: TimerService,
        channel: Callable[[str], BrokerChannel],
    ) -> None:
        """`channel` makes the connections to other brokers for a purpose."""
        settings = broker.settings
        self.groups: Shards[GroupMachine] = Shards(
            broker,
            replicas,
            timers,
            topic=CONSUMER_OFFSETS,
            partitions=settings["offsets.topic.num.partitions"],
            make_machine=_group_machine,
            codec=lambda: Codec(broker.settings["offsets.topic.compression.codec"]),
            commit_timeout_ms=settings["offsets.commit.timeout.ms"],
            load_bytes=settings["offsets.load.buffer.size"],
        )
        self.transactions = Transactions(broker, replicas, timers, self.groups, channel)
        self._all: list[Shards[Any]] = [self.groups, self.transactions.shards]

    def add_gauges(self, metrics: Metrics) -> None:
        metrics.gauge("groups", "groups that are coordinated here", self._count_groups)
        metrics.gauge(
            "coordinators_loading", "partitions of coordinators that are being loaded", self._count_loading
        )

        metrics.gauge(
            "transactional_ids", "transactional ids that are coordinated here", self._count_transactional_ids
        )
        metrics.gauge(
            "open_transactions", "transactions that have begun and are not complete", self._count_open
        )

    def _count_transactional_ids(self) -> int:
        return sum(len(machine.transactions) for machine in self.transactions.shards.machines())

    def _count_open(self) -> int:
        return sum(machine.open_count for machine in self.transactions.shards.machines())

    def _count_groups(self) -> int:
        return sum(len(machine.table) for machine in self.groups.machines())

    def _count_loading(self) -> int:
        return sum(shards.loading_count for shards in self._all)

    def apply(self, delta: Delta) -> None:
        """Applies a committed delta; called after the replica manager has applied it."""
        for shards in self._all:
            shards.apply(delta)
        self.transactions.apply(delta)

    def stop(self) -> None:
        self.transactions.stop()
        for shards in self._all:
            shards.stop()


def _group_machine(partition: int) -> GroupMachine:
    """Imported lazily: a broker that leads no partition of `__consumer_offsets` does not need it."""
    from barnabas.coordinator.group.machine import GroupMachine

    return GroupMachine(partition)
