"""What the active controller makes of changes that others have written into znodes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import Uuid
from barnabas.broker.modes.kraft.controller_driver import ControllerDriver
from barnabas.broker.modes.zookeeper.controller.deletions import Deletions
from barnabas.broker.modes.zookeeper.controller.follow_ups import FollowUps
from barnabas.broker.modes.zookeeper.controller.loading import (
    TopicZnode,
    config_records,
    partition_record,
    topic_records,
)
from barnabas.broker.modes.zookeeper.controller.outbound.queues import Outbound
from barnabas.broker.modes.zookeeper.controller.store import ZooKeeperStore
from barnabas.broker.modes.zookeeper.znodes import admin, paths
from barnabas.broker.modes.zookeeper.znodes.topics import TopicAssignment
from barnabas.config import Settings
from barnabas.controller.replication.reassignment import in_progress
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import ConfigResource, Image
from barnabas.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest
from barnabas.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from barnabas.protocol.records.metadata import RegisterBrokerRecord
from barnabas.protocol.schema import Message
from barnabas.runtime.zookeeper.client import SetData

logger = logging.getLogger(__name__)

PREFERRED = 0
# Of requests that no client has made.
NO_PRINCIPAL = "User:ANONYMOUS"
ELECT_LEADERS_VERSION = 2
REASSIGNMENTS_VERSION = 1


class WatchedChanges:
    """See `watching.Watcher`."""

    def __init__(
        self,
        driver: ControllerDriver,
        store: ZooKeeperStore,
        follow_ups: FollowUps,
        deletions: Deletions,
        *,
        outbound: Outbound,
        settings: Settings,
        committed: Callable[[], Image],
        new_id: Callable[[], Uuid],
        remove_znode: Callable[[str], None],
        unsure: Callable[[BaseException], None],
    ) -> None:
        self._driver = driver
        self._store = store
        self._follow_ups = follow_ups
        self._deletions = deletions
        self._outbound = outbound
        self._settings = settings
        self._committed = committed
        self._new_id = new_id
        self.remove_znode = remove_znode
        self.failed = unsure
        # The partitions of /admin/reassign_partitions that are being moved.
        self._reassigned: dict[admin.TopicPartition, tuple[int, ...]] = {}

    @property
    def _image(self) -> Image:
        return self._driver.controller.image

    def clear(self) -> None:
        self._reassigned.clear()

    # Brokers

    def brokers_found(self, brokers: list[RegisterBrokerRecord], present: set[int]) -> None:
        """A broker with another epoch has been away, even if nobody saw it."""
        known = self._image.brokers
        found = {broker.broker_id: broker for broker in brokers}
        gone = [
            id_
            for id_, broker in sorted(known.items())
            if id_ not in present or (id_ in found and found[id_].broker_epoch != broker.epoch)
        ]
        new = [
            broker
            for broker in brokers
            if broker.broker_id not in known or known[broker.broker_id].epoch != broker.broker_epoch
        ]
        if gone:
            logger.info("brokers %s are gone", gone)
            self._follow_ups.brokers_gone(gone)
        if new:
            logger.info("brokers %s have registered", [broker.broker_id for broker in new])
            self._follow_ups.brokers_appeared(new)

    def broker_changed(self, broker: RegisterBrokerRecord) -> None:
        """Other listeners, or other features, of the same broker."""
        known = self._image.brokers.get(broker.broker_id)
        if known is not None and known.epoch == broker.broker_epoch:
            broker.in_controlled_shutdown = known.in_controlled_shutdown
            broker.fenced = known.fenced
            self._follow_ups.adopt([broker])

    # Topics

    def topics_found(self, names: list[str]) -> list[str]:
        """Those that are not known are to be read; if one was removed by hand, everything is read again."""
        stored, image = self._committed().topic_ids, self._image.topic_ids
        present = set(names)
        removed = [name for name in stored if name in image and name not in present]
        if removed:
            self.failed(RuntimeError(f"the znodes of topics {sorted(removed)[:10]} were removed by hand"))
            return []
        return [name for name in names if name not in image and name not in stored]

    def topics_added(self, topics: list[TopicZnode]) -> None:
        """Topics that an administrator, or a broker that creates topics automatically, has written."""
        without_id = []
        for topic in topics:
            if topic.name in self._image.topic_ids:
                continue
            self._store.stored.topics[topic.name] = (topic.assignment, topic.version)
            if topic.assignment.topic_id is None:
                topic.assignment = TopicAssignment(self._new_id(), topic.assignment.partitions)
                without_id.append(topic)
            self._follow_ups.adopt(topic_records(topic))
        for topic in without_id:
            record = partition_record(topic, 0)
            self._follow_ups.decide(lambda record=record: [record])  # type: ignore[misc]
        if topics:
            self._follow_ups.elect_leaderless()

    def topic_changed(self, topic: TopicZnode) -> None:
        """Only more partitions count; whatever else was changed by hand is what the znode says."""
        known = self._store.stored.topics.get(topic.name)
        if known is None or topic.version <= known[1] or topic.name in self._deletions.names:
            return
        before, after = known[0].partitions, topic.assignment.partitions
        is_growth = all(after.get(number) == assigned for number, assigned in before.items())
        if not is_growth or topic.assignment.topic_id != known[0].topic_id:
            self.failed(RuntimeError(f"the assignment of topic {topic.name} was changed by hand"))
            return
        self._store.stored.topics[topic.name] = (topic.assignment, topic.version)
        added = [partition_record(topic, number) for number in after if number not in before]
        self._follow_ups.adopt(added)
        self._follow_ups.elect_leaderless()

    def deletions_found(self, names: list[str]) -> None:
        if not self._settings["delete.topic.enable"]:
            for name in names:
                self.remove_znode(paths.delete_topic(name))
            return
        removed = {name for name in self._committed().topic_ids if name not in self._image.topic_ids}
        self._deletions.add([name for name in names if name not in removed])

    def isr_changed(self, topics: list[TopicZnode]) -> None:
        """Brokers of before 2.7 write the ISR themselves."""
        records: list[Message] = []
        for topic in topics:
            known = self._image.topic_named(topic.name)
            if known is None or known.id != topic.assignment.topic_id:
                continue
            for number, (_, version) in topic.states.items():
                partition = known.partitions.get(number)
                if partition is not None and version > partition.partition_epoch:
                    records.append(partition_record(topic, number))
        self._follow_ups.adopt(records)

    def configs_changed(self, kind: ConfigResource, name: str, configs: dict[str, str]) -> None:
        if kind is ConfigResource.TOPIC and name not in self._image.topic_ids:
            return
        before = dict(self._image.configs_of(kind, name))
        if before != configs:
            self._follow_ups.adopt(config_records(kind, name, configs, before))
            # An unclean election may be allowed from now on.
            self._follow_ups.elect_leaderless()

    # Log directories

    def log_dir_failed(self, broker_id: int) -> None:
        """The broker's answer to all its partitions tells which of them are out of reach."""
        self._outbound.tell_everything(broker_id)

    def replicas_answered(
        self, broker_id: int, request: LeaderAndIsrRequest, answer: LeaderAndIsrResponse
    ) -> None:
        codes = {
            (Uuid(topic.topic_id), error.partition_index): error.error_code
            for topic in answer.topics
            for error in topic.partition_errors
        }
        if answer.error_code:
            return
        asked = [
            (Uuid(topic.topic_id), state.partition_index)
            for topic in request.topic_states
            for state in topic.partition_states
        ]
        lost = [key for key in asked if codes.get(key) == ErrorCode.KAFKA_STORAGE_ERROR]
        back = [key for key in asked if codes.get(key, 0) == 0]
        if lost:
            self._follow_ups.replicas_lost(broker_id, lost)
        self._follow_ups.replicas_back(broker_id, back)

    # Requests of administrators

    def reassignment_found(self, targets: dict[admin.TopicPartition, tuple[int, ...]]) -> None:
        new = {key: replicas for key, replicas in targets.items() if self._reassigned.get(key) != replicas}
        self._reassigned.update(targets)
        if not new:
            self._shorten_reassignment()
            return
        topics: dict[str, AlterPartitionReassignmentsRequest.ReassignableTopic] = {}
        for (name, number), replicas in new.items():
            topic = topics.setdefault(
                name, AlterPartitionReassignmentsRequest.ReassignableTopic(name=name, partitions=[])
            )
            topic.partitions.append(
                AlterPartitionReassignmentsRequest.ReassignablePartition(
                    partition_index=number, replicas=list(replicas)
                )
            )
        request = AlterPartitionReassignmentsRequest(timeout_ms=0, topics=list(topics.values()))
        self._driver.ask(request, REASSIGNMENTS_VERSION, NO_PRINCIPAL).then(
            lambda _: self._shorten_reassignment(),
            partial(logger.warning, "a reassignment written by hand could not be started: %s"),
        )

    def published(self, delta: Delta) -> None:
        if self._reassigned and delta.partitions:
            self._shorten_reassignment()

    def _shorten_reassignment(self) -> None:
        """What is done, or cannot be done, leaves the znode; with the last one it is removed."""
        if not self._reassigned or self._driver.active_epoch is None:
            return
        left = {key: replicas for key, replicas in self._reassigned.items() if self._is_moving(*key)}
        if left == self._reassigned:
            return
        self._reassigned = left
        if not left:
            self.remove_znode(paths.REASSIGN_PARTITIONS)
        else:
            data = admin.encode_reassignment(left)
            sent = self._store.transact(SetData(paths.REASSIGN_PARTITIONS, data))
            sent.then(lambda _: None, self.failed)

    def _is_moving(self, name: str, number: int) -> bool:
        topic = self._committed().topic_named(name)
        partition = None if topic is None else topic.partitions.get(number)
        return partition is not None and in_progress(partition)

    def election_found(self, partitions: list[admin.TopicPartition]) -> None:
        topics: dict[str, list[int]] = {}
        for name, number in partitions:
            topics.setdefault(name, []).append(number)
        request = ElectLeadersRequest(
            election_type=PREFERRED,
            topic_partitions=[
                ElectLeadersRequest.TopicPartitions(topic=name, partitions=numbers)
                for name, numbers in topics.items()
                if name not in self._deletions.names
            ],
            timeout_ms=0,
        )

        def done(_: object) -> None:
            self.remove_znode(paths.PREFERRED_ELECTION)

        self._driver.ask(request, ELECT_LEADERS_VERSION, NO_PRINCIPAL).then(
            done, partial(logger.warning, "an election asked for by hand failed: %s")
        )
