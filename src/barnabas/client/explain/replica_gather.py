"""Collects the facts about replicas from the cluster, with an admin client; reads only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.client.admin.admin import Admin
from barnabas.client.admin.configs import ConfigResource, ConfigResourceType
from barnabas.client.admin.log_dirs import LogDirDescription
from barnabas.client.admin.reassignments import Reassignment
from barnabas.client.admin.topics import PartitionDescription, TopicDescription
from barnabas.client.errors.base import ClientError
from barnabas.client.explain.queries import min_isr_of
from barnabas.client.explain.replica_rules import PartitionReplicas, ReplicaFacts
from barnabas.client.model import TopicPartition

TIMEOUT_MS = 5_000
THROTTLE = "follower.replication.throttled.rate"


async def gather_replicas(admin: Admin, topics: Iterable[str] = ()) -> list[PartitionReplicas]:
    """The partitions of these topics, or of all."""
    names = sorted(topics) or sorted(await admin.list_topics(include_internal=True, timeout_ms=TIMEOUT_MS))
    if not names:
        return []
    described = await admin.describe_topics(names, timeout_ms=TIMEOUT_MS)
    for error in described.errors.values():
        raise error
    alive = [node.id for node in (await admin.describe_cluster(timeout_ms=TIMEOUT_MS)).nodes]
    moves = await _moves(admin)
    directories = await admin.describe_log_dirs(alive, timeout_ms=TIMEOUT_MS)
    throttles = await _throttles(admin, alive) if moves else {}
    min_isrs = await min_isr_of(admin, names, TIMEOUT_MS)
    return [
        _facts(topic, info, alive, directories.values_by_key, min_isrs.get(topic.name, 1), moves, throttles)
        for topic in described.values_by_key.values()
        for info in topic.partitions
    ]


async def _moves(admin: Admin) -> Mapping[TopicPartition, Reassignment]:
    """Empty if this user is not allowed to list them."""
    try:
        return await admin.list_partition_reassignments(timeout_ms=TIMEOUT_MS)
    except KafkaError as error:
        if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return {}
        raise


async def _throttles(admin: Admin, brokers: Iterable[int]) -> dict[int, int]:
    resources = {broker: ConfigResource(ConfigResourceType.BROKER, str(broker)) for broker in brokers}
    try:
        configs = (await admin.describe_configs(resources.values(), timeout_ms=TIMEOUT_MS)).values_by_key
    except ClientError:
        return {}
    entries = {
        broker: configs[resource].get(THROTTLE)
        for broker, resource in resources.items()
        if resource in configs
    }
    return {
        broker: int(entry.value)
        for broker, entry in entries.items()
        if entry is not None and entry.value is not None and not entry.is_default
    }


def _facts(
    topic: TopicDescription,
    info: PartitionDescription,
    alive: Iterable[int],
    directories: Mapping[int, Mapping[str, LogDirDescription]],
    min_isr: int,
    moves: Mapping[TopicPartition, Reassignment],
    throttles: Mapping[int, int],
) -> PartitionReplicas:
    partition = TopicPartition(topic.name, info.partition)
    move = moves.get(partition)
    adding = () if move is None else move.adding_replicas
    rates = [throttles[broker] for broker in adding if broker in throttles]
    last_known = info.last_known_elr or ()
    return PartitionReplicas(
        partition,
        info.leader,
        tuple(
            _replica(broker, partition, is_alive=broker in alive, directories=directories.get(broker, {}))
            for broker in info.replicas
        ),
        info.isr,
        info.elr or (),
        last_known[0] if last_known else None,
        min_isr,
        adding,
        () if move is None else move.removing_replicas,
        min(rates) if rates else None,
    )


def _replica(
    broker: int, partition: TopicPartition, *, is_alive: bool, directories: Mapping[str, LogDirDescription]
) -> ReplicaFacts:
    for directory in directories.values():
        replica = directory.replicas.get(partition)
        if replica is not None and not replica.is_future:
            full = directory.path if directory.is_full else None
            return ReplicaFacts(broker, is_alive, lag=replica.offset_lag, full=full)
    offline = [path for path, directory in directories.items() if directory.error is not None]
    return ReplicaFacts(broker, is_alive, offline=", ".join(offline) or None)
