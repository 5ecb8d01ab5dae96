"""`barnabas topics --describe`: a line per topic, and one per partition."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.base.java_order import buckets_for, hash_map_order
from barnabas.cli.framework.exits import CommandError, Exit, UsageError
from barnabas.cli.topics.command import FAILED, existing_topics
from barnabas.client.admin.configs import ConfigEntry, ConfigResource, ConfigResourceType
from barnabas.client.admin.reassignments import Reassignment
from barnabas.client.admin.topics import PARTITIONS_PER_RESPONSE, PartitionDescription, TopicDescription
from barnabas.client.model import TopicPartition
from barnabas.client.sync import Admin

Configs = Mapping[str, ConfigEntry]


def describe(admin: Admin, options: Namespace) -> None:
    """Prints the selected topics, in the order of Apache Kafka's tool."""
    topics = described_topics(admin, options)
    resources = {topic.name: ConfigResource(ConfigResourceType.TOPIC, topic.name) for topic in topics}
    configs = admin.describe_configs(resources.values())
    printer = _Printer(options, {node.id for node in admin.describe_cluster().nodes}, moves_of(admin, topics))
    for topic in topics:
        printer.show(topic, configs[resources[topic.name]])


def described_topics(admin: Admin, options: Namespace) -> list[TopicDescription]:
    topic_id = _topic_id(options.topic_id)
    if topic_id != ZERO_UUID:
        return _by_id(admin, topic_id, options)
    names = existing_topics(admin, options)
    limit = options.partition_size_limit_per_response or PARTITIONS_PER_RESPONSE
    described = admin.describe_topics(names, partition_size_limit_per_response=limit).raise_first()
    # Apache Kafka's client returns them in a hash map of this capacity.
    return [described[name] for name in hash_map_order(names, buckets_for(len(names)))]


def _topic_id(text: str | None) -> Uuid:
    if text is None:
        return ZERO_UUID
    try:
        return Uuid.parse(text)
    except ValueError as error:
        raise UsageError(f"{FAILED}{error}") from error


def _by_id(admin: Admin, topic_id: Uuid, options: Namespace) -> list[TopicDescription]:
    known = {topic.id for topic in admin.list_topics(include_internal=not options.exclude_internal).values()}
    if topic_id in known:
        return [admin.describe_topics([topic_id])[topic_id]]
    if not options.if_exists:
        raise CommandError(f"{FAILED}TopicId '{topic_id}' does not exist as expected", Exit.NOT_FOUND)
    return []


def moves_of(admin: Admin, topics: list[TopicDescription]) -> Mapping[TopicPartition, Reassignment]:
    """The active reassignments; empty if this user is not allowed to list them."""
    partitions = [TopicPartition(topic.name, info.partition) for topic in topics for info in topic.partitions]
    if not partitions:
        return {}
    try:
        return admin.list_partition_reassignments(partitions)
    except KafkaError as error:
        if error.code in (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
            return {}
        raise


def replication_factor(partition: PartitionDescription, move: Reassignment | None) -> int:
    """The target replication factor; if a reassignment has just ended, the number of replicas."""
    if move is not None and {*move.adding_replicas, *move.removing_replicas} & set(partition.replicas):
        return len(move.replicas) - len(move.adding_replicas)
    return len(partition.replicas)


class _Printer:
    """Selects the lines and prints them."""

    def __init__(
        self, options: Namespace, alive: set[int], moves: Mapping[TopicPartition, Reassignment]
    ) -> None:
        self._options = options
        self._alive = alive
        self._moves = moves
        self._all_partitions = not (
            options.unavailable_partitions
            or options.under_replicated_partitions
            or options.under_min_isr_partitions
            or options.at_min_isr_partitions
        )

    def show(self, topic: TopicDescription, configs: Configs) -> None:
        own = [name for name in hash_map_order(configs) if not configs[name].is_default]
        if self._all_partitions and (own or not self._options.topics_with_overrides):
            first = topic.partitions[0]
            factor = replication_factor(first, self._moves.get(TopicPartition(topic.name, first.partition)))
            topic_id = f"\tTopicId: {topic.id}" if topic.id != ZERO_UUID else ""
            print(
                f"Topic: {topic.name}{topic_id}\tPartitionCount: {len(topic.partitions)}"
                f"\tReplicationFactor: {factor}"
                f"\tConfigs: {','.join(f'{name}={configs[name].value}' for name in own)}"
            )
        if self._options.topics_with_overrides:
            return
        min_isr = int(configs["min.insync.replicas"].value or 1)
        for partition in topic.partitions:
            move = self._moves.get(TopicPartition(topic.name, partition.partition))
            if self._all_partitions or self._is_selected(partition, move, min_isr):
                print(partition_line(topic.name, partition, move))

    def _is_selected(self, partition: PartitionDescription, move: Reassignment | None, min_isr: int) -> bool:
        options, leader, in_sync = self._options, partition.leader, len(partition.isr)
        return bool(
            (options.under_replicated_partitions and replication_factor(partition, move) > in_sync)
            or (options.unavailable_partitions and leader not in self._alive)
            or (options.under_min_isr_partitions and (leader is None or in_sync < min_isr))
            or (options.at_min_isr_partitions and in_sync == min_isr)
        )


def partition_line(topic: str, partition: PartitionDescription, move: Reassignment | None) -> str:
    leader = "none" if partition.leader is None else partition.leader
    moving = ""
    if move is not None:
        moving = f"\tAdding Replicas: {_ids(move.adding_replicas)}"
        moving += f"\tRemoving Replicas: {_ids(move.removing_replicas)}"
    return (
        f"\tTopic: {topic}\tPartition: {partition.partition}\tLeader: {leader}"
        f"\tReplicas: {_ids(partition.replicas)}\tIsr: {_ids(partition.isr)}{moving}"
        f"\tElr: {_ids(partition.elr)}\tLastKnownElr: {_ids(partition.last_known_elr)}"
    )


def _ids(brokers: tuple[int, ...] | None) -> str:
    return "N/A" if brokers is None else ",".join(map(str, brokers))
