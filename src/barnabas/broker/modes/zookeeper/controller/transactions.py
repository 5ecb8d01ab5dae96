"""What a change of the metadata means in znodes: transactions in Apache Kafka's order, with its guards.

Pure.  The result is a list of groups: the transactions of a group are sent one right after the other, the
next group when all of them have succeeded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from barnabas.base.ids import Uuid
from barnabas.broker.modes.zookeeper.znodes import paths
from barnabas.broker.modes.zookeeper.znodes.cluster import ProducerIdBlock
from barnabas.broker.modes.zookeeper.znodes.configs import encode_configs
from barnabas.broker.modes.zookeeper.znodes.topics import Assignment, PartitionState, TopicAssignment
from barnabas.controller.brokers.producer_ids import BLOCK_SIZE
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import ConfigResource
from barnabas.metadata.topics import Partition, Topic
from barnabas.runtime.zookeeper.client import Check, Create, Operation, SetData

# Of /controller, which is never set, only created.
CONTROLLER_VERSION = 0


@dataclass(frozen=True, slots=True)
class Transaction:
    """A multi, or one operation alone; where it may exist already, that counts as success."""

    operations: tuple[Operation, ...]
    may_exist: bool = False
    # In place of this transaction, if the znode that it sets does not exist.
    otherwise: Create | None = None


@dataclass(frozen=True, slots=True)
class RemoveTopic:
    """Removes all znodes of a topic, whatever is below them."""

    name: str


Group = list[Transaction | RemoveTopic]


class Epoch(NamedTuple):
    """The epoch of a controller, and the version of /controller_epoch that it checks."""

    number: int
    version: int

    def guarded(self, operation: Operation, *, may_exist: bool = False) -> Transaction:
        return Transaction((Check(paths.CONTROLLER_EPOCH, self.version), operation), may_exist)


@dataclass(slots=True)
class Stored:
    """What is known to be in znodes: topics with the versions of their znodes, and that of producer ids."""

    topics: dict[str, tuple[TopicAssignment, int]] = field(default_factory=dict)
    producer_ids_version: int = 0


def transactions(delta: Delta, epoch: Epoch, stored: Stored, producer_broker: int) -> list[Group]:
    """The transactions of a delta, with what they make of `stored`.

    Only what is not in znodes yet is written: the delta may just as well describe what was found there.
    """
    changes = _Changes(delta, epoch, stored)
    groups = [*changes.groups(), *_producer_ids(delta, stored, producer_broker)]
    return [group for group in groups if group]


class _Changes:
    """The topics and partitions of one delta."""

    def __init__(self, delta: Delta, epoch: Epoch, stored: Stored) -> None:
        self._delta = delta
        self._epoch = epoch
        self._stored = stored
        self._created: list[Topic] = []
        self._changed: list[Topic] = []
        for topic_id in sorted(delta.topics):
            topic = delta.image.topics.get(topic_id)
            if topic is not None:
                is_stored = topic.name in stored.topics
                (self._changed if is_stored else self._created).append(topic)

    def groups(self) -> Iterator[Group]:
        yield [self._config_transaction(topic) for topic in self._created]
        yield [self._creation(topic) for topic in self._created]
        # A reassignment is announced before its states, and ended after them.
        yield self._assignments(ended=False)
        yield from self._new_partitions()
        yield from self._state_changes()
        yield self._assignments(ended=True)
        for topic in self._delta.removed_topics:
            if self._stored.topics.pop(topic.name, None) is not None:
                yield [RemoveTopic(topic.name)]

    # Topics

    def _config_transaction(self, topic: Topic) -> Transaction:
        path = paths.topic_config(topic.name)
        data = encode_configs(dict(self._delta.image.configs_of(ConfigResource.TOPIC, topic.name)))
        guard = Check(paths.CONTROLLER, CONTROLLER_VERSION)
        return Transaction((guard, SetData(path, data)), otherwise=Create(path, data))

    def _creation(self, topic: Topic) -> Transaction:
        assignment = assignment_of(topic)
        self._stored.topics[topic.name] = (assignment, 0)
        return Transaction((Create(paths.topic(topic.name), assignment.encode()),))

    def _assignments(self, *, ended: bool) -> Group:
        group: Group = []
        for topic in self._changed:
            assignment = assignment_of(topic)
            known, version = self._stored.topics[topic.name]
            is_end = any(
                each.adding + each.removing and not (after.adding + after.removing)
                for number, each in known.partitions.items()
                if (after := assignment.partitions.get(number)) is not None
            )
            if assignment == known or is_end is not ended:
                continue
            self._stored.topics[topic.name] = (assignment, version + 1)
            operation = SetData(paths.topic(topic.name), assignment.encode(), version)
            group.append(self._epoch.guarded(operation))
        return group

    # Partitions

    def _entries(self) -> Iterator[tuple[Topic, int, Partition | None, Partition]]:
        """The changed partitions of which anything is to be stored, before and after."""
        before_topics = self._delta.before.topics
        for topic_id, number in sorted(self._delta.partitions):
            topic = self._delta.image.topics.get(topic_id)
            if topic is not None:
                before_topic = before_topics.get(topic_id)
                before = None if before_topic is None else before_topic.partitions.get(number)
                yield topic, number, before, topic.partitions[number]

    def _new_partitions(self) -> Iterator[Group]:
        new = [
            (topic, number, after)
            for topic, number, before, after in self._entries()
            if after.partition_epoch == 0 and (before is None or before.partition_epoch < 0)
        ]
        names = dict.fromkeys(topic.name for topic, _, _ in new)
        guarded = self._epoch.guarded
        yield [guarded(Create(paths.partitions(name)), may_exist=True) for name in names]
        yield [
            guarded(Create(paths.partition(topic.name, number)), may_exist=True) for topic, number, _ in new
        ]
        yield [
            guarded(Create(paths.partition_state(topic.name, number), self._state(after)))
            for topic, number, after in new
        ]

    def _state_changes(self) -> Iterator[Group]:
        """First the elections, then what else changes."""
        elections: Group = []
        others: Group = []
        for topic, number, before, after in self._entries():
            if (
                before is None
                or before.partition_epoch < 0
                or before.partition_epoch == after.partition_epoch
            ):
                continue
            assert after.partition_epoch == before.partition_epoch + 1, "each change is stored on its own"
            path = paths.partition_state(topic.name, number)
            operation = SetData(path, self._state(after), before.partition_epoch)
            is_election = after.leader not in (before.leader, -1)
            (elections if is_election else others).append(self._epoch.guarded(operation))
        yield elections
        yield others

    def _state(self, partition: Partition) -> bytes:
        return PartitionState(
            partition.leader,
            partition.leader_epoch,
            partition.isr,
            self._epoch.number,
            partition.leader_recovery_state,
        ).encode()


def _producer_ids(delta: Delta, stored: Stored, broker_id: int) -> Iterator[Group]:
    next_id = delta.image.next_producer_id
    if next_id != delta.before.next_producer_id and broker_id >= 0:
        block = ProducerIdBlock(broker_id, next_id - BLOCK_SIZE, next_id - 1)
        yield [Transaction((SetData(paths.PRODUCER_IDS, block.encode(), stored.producer_ids_version),))]
        stored.producer_ids_version += 1


def assignment_of(topic: Topic) -> TopicAssignment:
    partitions: Mapping[int, Partition] = topic.partitions
    return TopicAssignment(
        Uuid(topic.id),
        {
            number: Assignment(each.replicas, each.adding_replicas, each.removing_replicas)
            for number, each in sorted(partitions.items())
        },
    )
