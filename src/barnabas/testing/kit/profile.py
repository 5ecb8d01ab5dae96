"""The configuration of the kit's nodes: Apache Kafka's defaults, but for what makes tests wait."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas.config.node.node import Node
from barnabas.config.option import Mode
from barnabas.metadata.bootstrap import BOOTSTRAP_FILE, bootstrap_checkpoint, choose_levels, first_records
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.random import Random, random_uuid
from barnabas.storage.directories.meta_properties import V1, MetaProperties, write_meta_properties
from barnabas.testing.kit.node.ensemble import CONNECT

if TYPE_CHECKING:
    from barnabas.testing.kit.node.node import KitNode

HOST = "127.0.0.1"
CLIENT_LISTENER = "PLAINTEXT"
CONTROLLER_LISTENER = "CONTROLLER"
# Controllers are nodes of their own: any broker may be killed, and somebody is
# left to elect.
FIRST_CONTROLLER_ID = 3000
MAX_REPLICAS = 3

# What differs from Apache Kafka's defaults, and why.
PROFILE: Mapping[str, object] = {
    # A consumer that starts need not wait for others.
    "group.initial.rebalance.delay.ms": 0,
    # Short sessions are allowed, so that a test may watch one expire.
    "group.min.session.timeout.ms": 100,
    "group.consumer.min.session.timeout.ms": 100,
    "group.consumer.min.heartbeat.interval.ms": 50,
    # Members learn of changes soon.
    "group.consumer.heartbeat.interval.ms": 200,
    # An election of controllers takes no seconds.
    "controller.quorum.election.timeout.ms": 200,
    "controller.quorum.election.backoff.max.ms": 100,
    # Files of deleted topics go soon.
    "log.segment.delete.delay.ms": 1_000,
}


# In ZooKeeper mode there is no such quorum.
_KRAFT_ONLY = "controller.quorum."


def options_for(brokers: int, given: Mapping[str, object], mode: Mode = Mode.KRAFT) -> dict[str, str]:
    """The options of every node of a cluster of this size; those that are given win."""
    replicas = min(brokers, MAX_REPLICAS)
    sized = {
        # Few, as each has a log and a coordinator; spread over the brokers.
        "offsets.topic.num.partitions": replicas,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.num.partitions": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": min(2, replicas),
        "default.replication.factor": replicas,
    }
    profile = {
        name: value
        for name, value in PROFILE.items()
        if mode is Mode.KRAFT or not name.startswith(_KRAFT_ONLY)
    }
    return {name: _text(value) for name, value in {**profile, **sized, **given}.items()}


def _text(value: object) -> str:
    """As in a .properties file."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def node_settings(node: KitNode, voters: str) -> dict[str, str]:
    """What a node is.  The metadata have a directory of their own, so that a full disk leaves them alone."""
    listener = f"{CLIENT_LISTENER}://{HOST}:{node.port}"
    serving = {"listeners": listener, "advertised.listeners": listener, "log.dirs": node.log_dir}
    if node.around.ensemble is not None:
        return {**serving, "broker.id": str(node.id), "zookeeper.connect": CONNECT}
    settings = {
        "process.roles": node.roles,
        "node.id": str(node.id),
        "controller.listener.names": CONTROLLER_LISTENER,
        "controller.quorum.voters": voters,
        "log.dirs": node.log_dir,
    }
    if not node.is_broker:
        return {**settings, "listeners": f"{CONTROLLER_LISTENER}://{HOST}:{node.port}"}
    return {**serving, **settings, "metadata.log.dir": f"{node.log_dir}-metadata"}


def format_folders(disk: Disk, node: Node, cluster_id: str, random: Random, now_ms: int) -> None:
    """What `barnabas storage format` writes, for a quorum of static voters."""
    version, levels = choose_levels({}, None, dynamic_quorum=False, unstable=False)
    for folder in dict.fromkeys([*node.log_dirs, node.metadata_log_dir]):
        disk.make_folder(folder)
        properties = MetaProperties(V1, cluster_id, node.node_id, random_uuid(random))
        write_meta_properties(disk, folder, properties, now_ms)
    content = bootstrap_checkpoint(first_records(version, levels), now_ms)
    disk.write_atomically(f"{node.metadata_log_dir}/{BOOTSTRAP_FILE}", content)
