"""What the controller does by itself: after elections of controllers, changes of brokers, and by the clock.

Contains the order of the steps; the decisions belong in controller/.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from barnabas.base.errors import KafkaError
from barnabas.base.ids import Uuid
from barnabas.base.units import NS_PER_S
from barnabas.broker.modes.kraft.controller_driver import ControllerDriver
from barnabas.broker.modes.zookeeper.controller.deletions import Deletions
from barnabas.broker.modes.zookeeper.controller.store import ZooKeeperStore
from barnabas.config import Settings
from barnabas.controller.brokers import live_brokers
from barnabas.controller.replication import reassignment_steps
from barnabas.controller.replication.elections import MAX_ELECTIONS_PER_ROUND
from barnabas.controller.replication.partition_change import Election, PartitionChange
from barnabas.controller.replication.reassignment import in_progress
from barnabas.controller.state import ControllerState
from barnabas.metadata.delta import Delta
from barnabas.metadata.topics import Partition, Topic
from barnabas.protocol.records.metadata import RegisterBrokerRecord
from barnabas.protocol.schema import Message
from barnabas.runtime.clock import Clock
from barnabas.runtime.loop.timers import TimerService

logger = logging.getLogger(__name__)

# A new controller balances the leaders this soon, as in Apache Kafka.
FIRST_BALANCE_SECONDS = 5

Decide = Callable[[], Sequence[Message]]


class FollowUps:
    """Appends what the controller decides without a request."""

    def __init__(
        self,
        driver: ControllerDriver,
        store: ZooKeeperStore,
        settings: Settings,
        clock: Clock,
        timers: TimerService,
    ) -> None:
        self._driver = driver
        self._store = store
        self._settings = settings
        self._clock = clock
        self._timers = timers
        self.deletions: Deletions | None = None

    @property
    def _state(self) -> ControllerState:
        return self._driver.controller.state

    @property
    def _deleted(self) -> frozenset[str]:
        return frozenset(() if self.deletions is None else self.deletions.names)

    def decide(self, decide: Decide) -> None:
        """Appends the records of a decision; one that cannot be appended now is made again after loading."""
        try:
            self._driver.append(decide, atomic=False)
        except KafkaError as error:
            logger.warning("the controller could not carry out a decision: %s", error)

    def adopt(self, records: Sequence[Message]) -> None:
        """Records that describe what is in znodes already, or what is not stored at all."""
        if records:
            self._store.adopt(partial(self.decide, lambda: records))

    # A new controller

    def start(self, without_id: Iterable[str]) -> None:
        state = self._state
        self.decide(partial(live_brokers.leave_all_dead, state, self._deleted))
        self.elect_leaderless()
        for name in without_id:
            self.decide(partial(_with_id, state, name))
        for topic, number, _ in list(reassignment_steps.reassigning(state)):
            self._end_reassignment(topic, number)
        if self._settings["auto.leader.rebalance.enable"]:
            self._balance_in(FIRST_BALANCE_SECONDS)

    def stop(self) -> None:
        self._timers.cancel((self, "balance"))

    def elect_leaderless(self) -> None:
        self.decide(partial(live_brokers.elect_leaderless, self._state, self._deleted))

    # Brokers

    def brokers_gone(self, broker_ids: Sequence[int]) -> None:
        state, deleted = self._state, self._deleted
        self.decide(partial(live_brokers.mark_dead, state, broker_ids))
        for broker_id in broker_ids:
            self.decide(partial(live_brokers.leave_partitions, state, broker_id, deleted))
        self.decide(partial(live_brokers.unregister, state, broker_ids))
        if self.deletions is not None:
            self.deletions.brokers_gone(broker_ids)

    def brokers_appeared(self, records: Sequence[RegisterBrokerRecord]) -> None:
        state = self._state
        for record in records:
            lost = live_brokers.lost_replicas(state, record.broker_id)
            self.adopt(live_brokers.mark_replicas(state, record.broker_id, lost, lost=False))
        self.decide(lambda: records)
        self.elect_leaderless()
        if self.deletions is not None:
            self.deletions.proceed()

    def replicas_lost(self, broker_id: int, keys: Sequence[tuple[Uuid, int]]) -> None:
        """A log directory of this broker has failed: these replicas are out of reach."""
        state = self._state
        self.adopt(live_brokers.mark_replicas(state, broker_id, keys, lost=True))
        self.decide(partial(live_brokers.leave_lost, state, broker_id, keys, self._deleted))

    def replicas_back(self, broker_id: int, keys: Sequence[tuple[Uuid, int]]) -> None:
        records = live_brokers.mark_replicas(self._state, broker_id, keys, lost=False)
        if records:
            self.adopt(records)
            self.elect_leaderless()

    # Reassignments

    def published(self, delta: Delta) -> None:
        """A change is stored: it may complete a reassignment, for which a deletion may wait."""
        has_ended = False
        for topic_id, number in sorted(delta.partitions):
            partition = delta.image.partition(topic_id, number)
            if partition is None:
                continue
            if reassignment_steps.is_complete(partition):
                self._end_reassignment(delta.image.topics[topic_id], number)
            before = delta.before.partition(topic_id, number)
            has_ended |= before is not None and in_progress(before) and not in_progress(partition)
        if has_ended and self.deletions is not None:
            self.deletions.proceed()

    def _end_reassignment(self, topic: Topic, number: int) -> None:
        if self._state.image.partition(topic.id, number) is not None:
            self.decide(partial(reassignment_steps.move_leader, self._state, topic, number))
            self.decide(partial(reassignment_steps.remove_old_replicas, self._state, topic, number))

    # Preferred leaders

    def _balance_in(self, seconds: int) -> None:
        deadline_ns = self._clock.monotonic_ns() + seconds * NS_PER_S
        self._timers.set((self, "balance"), deadline_ns, self._balance)

    def _balance(self) -> None:
        self._balance_in(int(self._settings["leader.imbalance.check.interval.seconds"]))
        self.decide(
            lambda: list(
                balance(
                    self._state, int(self._settings["leader.imbalance.per.broker.percentage"]), self._deleted
                )
            )[:MAX_ELECTIONS_PER_ROUND]
        )


def balance(state: ControllerState, percentage: int, deleted: frozenset[str]) -> Iterator[Message]:
    """Preferred leaders for the brokers that lead too few of the partitions that they should lead."""
    preferred: dict[int, int] = {}
    for topic, _, partition in state.partitions():
        if topic.name not in deleted:
            preferred[partition.replicas[0]] = preferred.get(partition.replicas[0], 0) + 1
    missing: dict[int, list[tuple[Topic, int, Partition]]] = {}
    for entry in state.imbalanced():
        if entry[0].name not in deleted:
            missing.setdefault(entry[2].replicas[0], []).append(entry)
    for broker_id, entries in sorted(missing.items()):
        if not state.is_active(broker_id) or len(entries) * 100 <= percentage * preferred[broker_id]:
            continue
        for topic, number, partition in entries:
            if not in_progress(partition) and broker_id in partition.isr:
                change = PartitionChange(state, topic, number, partition, Election.PREFERRED)
                record = change.build()
                if record is not None:
                    yield record


def _with_id(state: ControllerState, name: str) -> list[Message]:
    """Any record of a topic stores its assignment, with the id that it has by now."""
    topic = state.image.topic_named(name)
    if topic is None:
        return []
    level = state.image.metadata_version
    return [topic.partitions[0].to_record(topic.id, 0, level)]
