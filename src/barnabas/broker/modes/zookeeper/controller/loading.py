"""The whole state of a cluster, read from its znodes: what a new controller starts from.

A topic that cannot be read is reported and left out, and left alone: it is neither led nor deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from barnabas.base.ids import Uuid
from barnabas.broker.modes.zookeeper.controller.gathering import gather
from barnabas.broker.modes.zookeeper.controller.transactions import Stored
from barnabas.broker.modes.zookeeper.znodes import paths
from barnabas.broker.modes.zookeeper.znodes.broker_ids import BrokerRegistration, decode_broker
from barnabas.broker.modes.zookeeper.znodes.cluster import decode_producer_ids
from barnabas.broker.modes.zookeeper.znodes.configs import decode_configs
from barnabas.broker.modes.zookeeper.znodes.json_data import MalformedZnodeError
from barnabas.broker.modes.zookeeper.znodes.topics import (
    PartitionState,
    TopicAssignment,
    decode_state,
    decode_topic,
)
from barnabas.controller.brokers.producer_ids import LAST_PRODUCER_ID
from barnabas.metadata.image import ConfigResource
from barnabas.metadata.topics import NEVER_STORED
from barnabas.protocol.records.metadata import (
    ConfigRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.zookeeper.client import Stat, Watch, Znode, ZooKeeperClient

logger = logging.getLogger(__name__)

# Of a partition that has never had a leader.
NO_STATE = PartitionState(-1, -1, (), -1)


@dataclass(slots=True)
class TopicZnode:
    """What was read of a topic."""

    name: str
    assignment: TopicAssignment
    version: int
    states: dict[int, tuple[PartitionState, int]] = field(default_factory=dict)
    configs: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Loaded:
    """The records of everything that was read."""

    records: list[Message]
    stored: Stored
    # Written by tools that know no ids: they get one (KIP-516).
    without_id: list[str] = field(default_factory=list)
    # Names under /admin/delete_topics.
    deleted: list[str] = field(default_factory=list)


def broker_record(broker_id: int, registration: BrokerRegistration, stat: Stat) -> RegisterBrokerRecord:
    """The epoch of a broker is the transaction that created its znode (KIP-380)."""
    return RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=Uuid(),
        broker_epoch=stat.czxid,
        end_points=[
            RegisterBrokerRecord.BrokerEndpoint(
                name=end.name, host=end.host, port=end.port, security_protocol=end.security_protocol
            )
            for end in registration.endpoints
        ],
        features=[
            RegisterBrokerRecord.BrokerFeature(
                name=name, min_supported_version=lowest, max_supported_version=highest
            )
            for name, (lowest, highest) in registration.features.items()
        ],
        rack=registration.rack,
        fenced=False,
    )


def read_broker(broker_id: int, znode: Znode | None) -> RegisterBrokerRecord | None:
    """The registration of a broker; None, and a line in the log, if there is none that can be read."""
    if znode is None or not znode.data:
        return None
    try:
        return broker_record(broker_id, decode_broker(paths.broker(broker_id), znode.data), znode.stat)
    except MalformedZnodeError as error:
        logger.error("%s; this broker is ignored", error)
        return None


def broker_ids(names: Iterable[str] | None) -> list[int]:
    return sorted(int(name) for name in names or () if name.isdecimal())


def topic_records(topic: TopicZnode) -> list[Message]:
    """A topic as it is in its znodes, which has an id."""
    topic_id = topic.assignment.topic_id
    assert topic_id is not None, "a topic without an id gets one first"
    return [
        TopicRecord(name=topic.name, topic_id=topic_id),
        *config_records(ConfigResource.TOPIC, topic.name, topic.configs, {}),
        *(partition_record(topic, number) for number in topic.assignment.partitions),
    ]


def partition_record(topic: TopicZnode, number: int) -> PartitionRecord:
    assert topic.assignment.topic_id is not None
    assigned = topic.assignment.partitions[number]
    state, version = topic.states.get(number, (NO_STATE, NEVER_STORED))
    return PartitionRecord(
        partition_id=number,
        topic_id=topic.assignment.topic_id,
        replicas=list(assigned.replicas),
        isr=list(state.isr),
        removing_replicas=list(assigned.removing),
        adding_replicas=list(assigned.adding),
        leader=state.leader,
        leader_recovery_state=state.leader_recovery_state,
        leader_epoch=state.leader_epoch,
        partition_epoch=version,
    )


def config_records(
    kind: ConfigResource, name: str, configs: Mapping[str, str], before: Mapping[str, str]
) -> list[ConfigRecord]:
    """The options of an entity, and which of those before are no longer set."""
    values: dict[str, str | None] = {**dict.fromkeys(before), **configs}
    return [
        ConfigRecord(resource_type=kind, resource_name=name, name=option, value=value)
        for option, value in values.items()
    ]


def read_topics(
    client: ZooKeeperClient, names: Sequence[str], watch: Watch | None
) -> Promise[list[TopicZnode]]:
    """These topics with their states and options; without those that cannot be read or do not exist."""
    found: Promise[list[TopicZnode]] = Promise()

    def assigned(znodes: list[Znode | None]) -> None:
        topics = []
        for name, znode in zip(names, znodes, strict=True):
            topic = None if znode is None else _topic(name, znode)
            if topic is not None:
                topics.append(topic)
        read_states(client, topics).then(lambda _: found.set(topics), found.fail)

    gather([client.get(paths.topic(name), watch) for name in names]).then(assigned, found.fail)
    return found


def _topic(name: str, znode: Znode) -> TopicZnode | None:
    path = paths.topic(name)
    try:
        assignment = decode_topic(path, znode.data)
        if sorted(assignment.partitions) != list(range(len(assignment.partitions))):
            raise MalformedZnodeError(path, "its partitions are not numbered from 0 on")
        if not all(each.replicas for each in assignment.partitions.values()):
            raise MalformedZnodeError(path, "a partition has no replicas")
    except MalformedZnodeError as error:
        logger.error("%s; this topic is left alone", error)
        return None
    return TopicZnode(name, assignment, znode.stat.version)


def read_states(client: ZooKeeperClient, topics: list[TopicZnode]) -> Promise[None]:
    """Completes these topics; those that cannot be read are taken out of the list."""
    done: Promise[None] = Promise()
    keys = [(topic, number) for topic in topics for number in topic.assignment.partitions]
    states = client.get_many([paths.partition_state(topic.name, number) for topic, number in keys])

    def read(znodes: list[Znode | None]) -> None:
        unreadable: set[str] = set()
        for (topic, number), znode in zip(keys, znodes, strict=True):
            if znode is None:
                continue
            path = paths.partition_state(topic.name, number)
            try:
                topic.states[number] = (decode_state(path, znode.data), znode.stat.version)
            except MalformedZnodeError as error:
                logger.error("%s; this topic is left alone", error)
                unreadable.add(topic.name)
        topics[:] = [topic for topic in topics if topic.name not in unreadable]
        client.get_many([paths.topic_config(topic.name) for topic in topics]).then(options, done.fail)

    def options(znodes: list[Znode | None]) -> None:
        for topic, znode in zip(topics, znodes, strict=True):
            topic.configs = read_configs(paths.topic_config(topic.name), znode)
        done.set(None)

    states.then(read, done.fail)
    return done


def read_configs(path: str, znode: Znode | None) -> dict[str, str]:
    """Options that cannot be read count as not set."""
    if znode is None:
        return {}
    try:
        return decode_configs(path, znode.data)
    except MalformedZnodeError as error:
        logger.error("%s; its options are not applied", error)
        return {}


class Loading:
    """Reads everything; each znode that may change afterwards is watched from its reading on."""

    def __init__(
        self, client: ZooKeeperClient, broker_id: int, watch: Watch, new_id: Callable[[], Uuid]
    ) -> None:
        self._client = client
        self._broker_id = broker_id
        self._watch = watch
        self._new_id = new_id
        self._records: list[Message] = []
        self._stored = Stored()
        self._without_id: list[str] = []
        self._loaded: Promise[Loaded] = Promise()

    def start(self) -> Promise[Loaded]:
        self._client.children(paths.BROKER_IDS, self._watch).then(self._brokers, self._loaded.fail)
        return self._loaded

    def _brokers(self, names: list[str] | None) -> None:
        ids = broker_ids(names)
        read = gather([self._client.get(paths.broker(id_), self._watch) for id_ in ids])

        def registered(znodes: list[Znode | None]) -> None:
            found = (read_broker(id_, znode) for id_, znode in zip(ids, znodes, strict=True))
            self._records += [record for record in found if record is not None]
            self._client.children(paths.TOPICS, self._watch).then(self._topics, self._loaded.fail)

        read.then(registered, self._loaded.fail)

    def _topics(self, names: list[str] | None) -> None:
        read_topics(self._client, names or [], self._watch).then(self._topics_read, self._loaded.fail)

    def _topics_read(self, topics: list[TopicZnode]) -> None:
        for topic in topics:
            self._stored.topics[topic.name] = (topic.assignment, topic.version)
            if topic.assignment.topic_id is None:
                # Stored with the first change of the controller, which sees that it is not there.
                topic.assignment = TopicAssignment(self._new_id(), topic.assignment.partitions)
                self._without_id.append(topic.name)
            self._records += topic_records(topic)
        own = [paths.broker_config(None), paths.broker_config(self._broker_id)]
        self._client.get_many(own).then(self._options, self._loaded.fail)

    def _options(self, znodes: list[Znode | None]) -> None:
        names = ("", str(self._broker_id))
        own = (paths.broker_config(None), paths.broker_config(self._broker_id))
        for name, path, znode in zip(names, own, znodes, strict=True):
            configs = read_configs(path, znode)
            self._records += config_records(ConfigResource.BROKER, name, configs, {})
        self._client.get(paths.PRODUCER_IDS).then(self._producer_ids, self._loaded.fail)

    def _producer_ids(self, znode: Znode | None) -> None:
        next_id = 0
        if znode is not None:
            self._stored.producer_ids_version = znode.stat.version
            if znode.data:
                try:
                    next_id = decode_producer_ids(paths.PRODUCER_IDS, znode.data).last + 1
                except MalformedZnodeError as error:
                    # Ids that may have been given out must not be given out again.
                    logger.error("%s; no producer ids are given out", error)
                    next_id = LAST_PRODUCER_ID
        self._records.append(ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=next_id))
        self._client.children(paths.DELETE_TOPICS, self._watch).then(self._deletions, self._loaded.fail)

    def _deletions(self, names: list[str] | None) -> None:
        self._loaded.set(Loaded(self._records, self._stored, self._without_id, names or []))
