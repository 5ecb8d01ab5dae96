"""`barnabas topics --zookeeper`: topics by their znodes, as the tool of Apache Kafka 2 read and wrote them.

No broker is asked: the controller acts on what is written.  Lines and order of writes are those of that tool:
options before the topic, and all partitions in one znode.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from barnabas.base.topic_names import collision_key, fault_of, is_internal
from barnabas.broker.modes.zookeeper.znodes import paths
from barnabas.broker.modes.zookeeper.znodes.broker_ids import decode_broker
from barnabas.broker.modes.zookeeper.znodes.configs import decode_configs, encode_change, encode_configs
from barnabas.broker.modes.zookeeper.znodes.json_data import MalformedZnodeError
from barnabas.broker.modes.zookeeper.znodes.topics import (
    Assignment,
    PartitionState,
    TopicAssignment,
    decode_state,
    decode_topic,
)
from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.cli.framework.flag_rules import FlagRules
from barnabas.cli.framework.topic_filter import matching_topics
from barnabas.cli.topics.command import FAILED, checked_topic_options
from barnabas.controller.topics.placement import UsableBroker, place
from barnabas.runtime.network.free_port import accepts_connections
from barnabas.runtime.random import SystemRandom
from barnabas.runtime.zookeeper.blocking import BlockingZooKeeper
from barnabas.runtime.zookeeper.client import ConnectionTimeout, ZooKeeperCode, ZooKeeperError
from barnabas.runtime.zookeeper.options import parse_connect

TIMEOUT_MS = 30_000
NOTICE = (
    "barnabas topics: --zookeeper reads and writes znodes, as older releases did; "
    "--bootstrap-server asks the brokers"
)
NO_LEADER = -1


def is_zookeeper_there(connect: str) -> bool:
    """Whether something listens at one of the addresses; if not, their hosts are taken for brokers."""
    servers, _ = parse_connect(connect)
    return any(accepts_connections(host, port) for host, port in servers)


def check_flags_of_zookeeper(rules: FlagRules, options: Namespace) -> None:
    """What that tool demanded, and what only brokers can tell."""
    if options.create:
        if options.replica_assignment is None:
            rules.require("--partitions", "--replication-factor")
    elif options.alter and not (options.partitions or options.config or options.delete_config):
        rules.require("--partitions")
    for flag in ("--topic-id", "--under-min-isr-partitions", "--at-min-isr-partitions"):
        if rules.has(flag):
            rules.refuse(f"{flag} needs --bootstrap-server: only brokers can tell")


def run(options: Namespace) -> int:
    print(NOTICE, file=sys.stderr)
    try:
        with BlockingZooKeeper(options.old_zookeeper, TIMEOUT_MS) as zookeeper:
            _Topics(zookeeper, options).run()
    except ConnectionTimeout as error:
        raise CommandError(f"barnabas: {error}", Exit.UNREACHABLE) from error
    except MalformedZnodeError as error:
        raise CommandError(f"{FAILED}{error}; it was left alone") from error
    except ZooKeeperError as error:
        if error.code is ZooKeeperCode.NO_AUTH:
            raise CommandError(f"{FAILED}no permission for the znode {error.path}", Exit.DENIED) from error
        raise CommandError(f"{FAILED}ZooKeeper answers {error}") from error
    return Exit.OK


@dataclass(frozen=True, slots=True)
class _Topic:
    """What the znodes of a topic say."""

    name: str
    assignment: TopicAssignment
    configs: Mapping[str, str]
    states: Mapping[int, PartitionState]
    is_deleted: bool


class _Topics:
    """One action on one connection."""

    def __init__(self, zookeeper: BlockingZooKeeper, options: Namespace) -> None:
        self._zookeeper = zookeeper
        self._client = zookeeper.client
        self._options = options

    def run(self) -> None:
        options = self._options
        if options.create:
            self._create()
        elif options.alter:
            self._alter()
        elif options.delete:
            self._delete()
        elif options.list:
            self._list()
        else:
            self._describe()

    # ---------------------------------------------------------------------------------------------- actions

    def _create(self) -> None:
        options, name = self._options, self._options.topic
        configs, given = checked_topic_options(options)
        fault = fault_of(name)
        if fault is not None:
            raise CommandError(f"{FAILED}Topic name is invalid: {fault}")
        names = self._children(paths.TOPICS)
        if name in names:
            if options.if_not_exists:
                return
            raise CommandError(f"{FAILED}Topic '{name}' already exists.")
        collides = [other for other in names if collision_key(other) == collision_key(name)]
        if collides:
            others = ", ".join(collides)
            raise CommandError(f"{FAILED}Topic '{name}' collides with existing topics: {others}")
        replicas = given or self._place(options.partitions, options.replication_factor)
        assignment = TopicAssignment(
            None, {number: Assignment(tuple(each)) for number, each in enumerate(replicas)}
        )
        self._write_configs(name, configs)
        create = partial(self._client.create, paths.topic(name), assignment.encode(), make_parents=True)
        self._zookeeper.run(create)
        print(f"Created topic {name}.")

    def _alter(self) -> None:
        for topic in self._existing():
            if self._options.config or self._options.delete_config:
                self._alter_configs(topic)
            if self._options.partitions:
                self._add_partitions(topic)

    def _alter_configs(self, topic: _Topic) -> None:
        added, _ = checked_topic_options(self._options)
        removed = set(self._options.delete_config or ())
        configs = {name: value for name, value in topic.configs.items() if name not in removed}
        self._write_configs(topic.name, {**configs, **added})
        change = f"{paths.CONFIG_CHANGES}/{paths.CONFIG_CHANGE}"
        data = encode_change(f"topics/{topic.name}")
        self._zookeeper.run(partial(self._client.create, change, data, sequential=True, make_parents=True))
        print(f"Updated config for topic {topic.name}.")

    def _add_partitions(self, topic: _Topic) -> None:
        present, wanted = topic.assignment.partitions, self._options.partitions
        if wanted <= len(present):
            raise CommandError(
                f"{FAILED}The number of partitions for a topic can only be increased. Topic {topic.name} "
                f"currently has {len(present)} partitions, {wanted} would not be an increase."
            )
        print(
            "WARNING: If partitions are increased for a topic that has a key, the partition logic or "
            "ordering of the messages will be affected",
            file=sys.stderr,
        )
        _, given = checked_topic_options(self._options)
        factor = len(present[min(present)].replicas)
        added = given[len(present) :] or self._place(wanted - len(present), factor)
        first = max(present) + 1
        partitions = {
            **present,
            **{number: Assignment(tuple(each)) for number, each in enumerate(added, first)},
        }
        path = paths.topic(topic.name)
        data = TopicAssignment(topic.assignment.topic_id, partitions).encode()
        self._zookeeper.run(partial(self._client.set_data, path, data))
        print("Adding partitions succeeded!")

    def _delete(self) -> None:
        for topic in self._existing():
            if is_internal(topic.name):
                raise CommandError(
                    f"{FAILED}Topic {topic.name} is a kafka internal topic and is not allowed to be marked "
                    "for deletion."
                )
            if topic.is_deleted:
                print(f"Topic {topic.name} is already marked for deletion.")
                continue
            path = paths.delete_topic(topic.name)
            self._zookeeper.run(partial(self._client.create, path, make_parents=True))
            print(f"Topic {topic.name} is marked for deletion.")
            print("Note: This will have no impact if delete.topic.enable is not set to true.")

    def _list(self) -> None:
        deleted = set(self._children(paths.DELETE_TOPICS))
        for name in self._selected():
            print(f"{name} - marked for deletion" if name in deleted else name)

    def _describe(self) -> None:
        alive = set(map(int, self._children(paths.BROKER_IDS)))
        options = self._options
        all_partitions = not (options.under_replicated_partitions or options.unavailable_partitions)
        for topic in self._existing():
            if all_partitions and (topic.configs or not options.topics_with_overrides):
                print(_topic_line(topic))
            if options.topics_with_overrides:
                continue
            for number, assigned in sorted(topic.assignment.partitions.items()):
                state = topic.states.get(number)
                isr = () if state is None else state.isr
                leader = NO_LEADER if state is None else state.leader
                if (
                    all_partitions
                    or (options.under_replicated_partitions and len(isr) < len(assigned.replicas))
                    or (options.unavailable_partitions and leader not in alive)
                ):
                    print(
                        f"\tTopic: {topic.name}\tPartition: {number}"
                        f"\tLeader: {'none' if leader == NO_LEADER else leader}"
                        f"\tReplicas: {_ids(assigned.replicas)}\tIsr: {_ids(isr)}"
                    )

    # ----------------------------------------------------------------------------------------------- znodes

    def _children(self, path: str) -> list[str]:
        return self._zookeeper.run(partial(self._client.children, path)) or []

    def _selected(self) -> list[str]:
        names = self._children(paths.TOPICS)
        options = self._options
        return matching_topics(names, options.topic, exclude_internal=options.exclude_internal)

    def _existing(self) -> list[_Topic]:
        names = self._selected()
        if not names and self._options.topic and not self._options.if_exists:
            raise CommandError(
                f"{FAILED}Topic '{self._options.topic}' does not exist as expected", Exit.NOT_FOUND
            )
        deleted = set(self._children(paths.DELETE_TOPICS))
        return [topic for name in names if (topic := self._read(name, name in deleted)) is not None]

    def _read(self, name: str, is_deleted: bool) -> _Topic | None:
        wanted = [paths.topic(name), paths.topic_config(name)]
        topic, config = self._zookeeper.run(partial(self._client.get_many, wanted))
        if topic is None:
            return None  # It has just been deleted.
        assignment = decode_topic(wanted[0], topic.data)
        numbers = sorted(assignment.partitions)
        of_states = [paths.partition_state(name, number) for number in numbers]
        states = self._zookeeper.run(partial(self._client.get_many, of_states))
        return _Topic(
            name,
            assignment,
            {} if config is None else decode_configs(wanted[1], config.data),
            {
                number: decode_state(path, state.data)
                for number, path, state in zip(numbers, of_states, states, strict=True)
                if state is not None
            },
            is_deleted,
        )

    def _place(self, partitions: int, replication_factor: int) -> list[list[int]]:
        ids = self._children(paths.BROKER_IDS)
        registered = self._zookeeper.run(
            partial(self._client.get_many, [paths.broker(int(broker_id)) for broker_id in ids])
        )
        brokers = [
            UsableBroker(int(broker_id), decode_broker(paths.broker(int(broker_id)), znode.data).rack, False)
            for broker_id, znode in zip(ids, registered, strict=True)
            if znode is not None
        ]
        if replication_factor > len(brokers):
            raise CommandError(
                f"{FAILED}Replication factor: {replication_factor} larger than available brokers: "
                f"{len(brokers)}."
            )
        return place(brokers, partitions, replication_factor, SystemRandom())

    def _write_configs(self, name: str, configs: Mapping[str, str]) -> None:
        path, data = paths.topic_config(name), encode_configs(configs)
        try:
            self._zookeeper.run(partial(self._client.set_data, path, data))
        except ZooKeeperError as error:
            if error.code is not ZooKeeperCode.NO_NODE:
                raise
            self._zookeeper.run(partial(self._client.create, path, data, make_parents=True))


def _topic_line(topic: _Topic) -> str:
    topic_id = "" if topic.assignment.topic_id is None else f"\tTopicId: {topic.assignment.topic_id}"
    partitions = topic.assignment.partitions
    configs = ",".join(f"{name}={value}" for name, value in sorted(topic.configs.items()))
    deleted = "\tMarkedForDeletion: true" if topic.is_deleted else ""
    return (
        f"Topic: {topic.name}{topic_id}\tPartitionCount: {len(partitions)}"
        f"\tReplicationFactor: {len(partitions[min(partitions)].replicas)}\tConfigs: {configs}{deleted}"
    )


def _ids(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers))
