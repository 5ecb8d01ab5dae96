"""Replication throttles: which brokers and topics get them, and how they are removed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from barnabas.base.java_order import hash_map_order
from barnabas.cli.reassign_partitions.plan import Plan
from barnabas.client.admin.configs import AlterConfig, AlterOperation, ConfigResource, ConfigResourceType
from barnabas.client.admin.reassignments import Reassignment
from barnabas.client.model import TopicPartition
from barnabas.client.sync import Admin

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
FOLDER_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"

Moving = Mapping[TopicPartition, Reassignment]
Present = Mapping[TopicPartition, tuple[int, ...]]
# The brokers that send, and those that receive.
Routes = dict[TopicPartition, tuple[set[int], set[int]]]


def routes_of(moving: Moving, plan: Plan, present: Present) -> Routes:
    """The senders and receivers of every partition that is or will be reassigned."""
    routes: Routes = {}
    for partition, move in moving.items():
        adding = set(move.adding_replicas)
        routes[partition] = (set(move.replicas) - adding, adding)
    for partition, replicas in plan.targets.items():
        sources = routes[partition][0] if partition in routes else set(present[partition])
        routes[partition] = (sources, set(replicas) - sources)
    return routes


def throttle_topics(admin: Admin, moving: Moving, plan: Plan, present: Present) -> None:
    """Sets the throttled replicas of the topics."""
    routes = routes_of(moving, plan, present)
    changes = {}
    for topic in sorted({partition.topic for partition in routes}):
        own = {partition.partition: route for partition, route in routes.items() if partition.topic == topic}
        changes[ConfigResource(ConfigResourceType.TOPIC, topic)] = [
            AlterConfig(
                LEADER_REPLICAS, _replicas((n, broker) for n, route in own.items() for broker in route[0])
            ),
            AlterConfig(
                FOLLOWER_REPLICAS, _replicas((n, broker) for n, route in own.items() for broker in route[1])
            ),
        ]
    admin.incremental_alter_configs(changes).raise_first()


def _replicas(pairs: Iterable[tuple[int, int]]) -> str:
    return ",".join(sorted(f"{partition}:{broker}" for partition, broker in pairs))


def throttle_brokers(admin: Admin, moving: Moving, plan: Plan, present: Present, rate: int) -> None:
    brokers = {
        broker for route in routes_of(moving, plan, present).values() for side in route for broker in side
    }
    changes = [AlterConfig(LEADER_RATE, str(rate)), AlterConfig(FOLLOWER_RATE, str(rate))]
    _alter_brokers(admin, brokers, changes)
    print(f"The inter-broker throttle limit was set to {rate} B/s")


def throttle_folders(admin: Admin, plan: Plan, rate: int) -> None:
    brokers = {replica.broker_id for replica in plan.folders}
    _alter_brokers(admin, brokers, [AlterConfig(FOLDER_RATE, str(rate))])
    print(f"The replica-alter-dir throttle limit was set to {rate} B/s")


def _alter_brokers(admin: Admin, brokers: Iterable[int], changes: list[AlterConfig]) -> None:
    resources = [ConfigResource(ConfigResourceType.BROKER, str(broker)) for broker in sorted(brokers)]
    if resources:
        admin.incremental_alter_configs(dict.fromkeys(resources, changes)).raise_first()


def clear_throttles(admin: Admin, plan: Plan) -> None:
    """Clears the throttles of all brokers: which of them took part is no longer known."""
    brokers = sorted(
        {node.id for node in admin.describe_cluster().nodes}
        | {broker for replicas in plan.targets.values() for broker in replicas}
    )
    print(f"Clearing broker-level throttles on broker{_plural(brokers)} {','.join(map(str, brokers))}")
    _alter_brokers(
        admin,
        brokers,
        [
            AlterConfig(name, None, AlterOperation.DELETE)
            for name in (LEADER_RATE, FOLLOWER_RATE, FOLDER_RATE)
        ],
    )
    topics = hash_map_order(plan.topics)
    print(f"Clearing topic-level throttles on topic{_plural(topics)} {','.join(topics)}")
    changes = [
        AlterConfig(name, None, AlterOperation.DELETE) for name in (LEADER_REPLICAS, FOLLOWER_REPLICAS)
    ]
    resources = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in topics]
    if resources:
        admin.incremental_alter_configs(dict.fromkeys(resources, changes)).raise_first()


def _plural(of: list[int] | list[str]) -> str:
    return "" if len(of) == 1 else "s"
