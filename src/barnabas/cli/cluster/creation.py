"""Creates the folder of a local cluster: ids, ports, server.properties, formatted data folders."""

from __future__ import annotations

import contextlib
import io
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from barnabas.cli.cluster.layout import (
    BROKER,
    HOST,
    Layout,
    LocalNode,
    choose_ports,
    planned_nodes,
    planned_zookeepers,
    with_ports,
)
from barnabas.cli.cluster.zookeepers import write_files
from barnabas.cli.storage.format import format_all, make_plan
from barnabas.config.node.node import read_node
from barnabas.config.values.properties import dumps
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.random import SystemRandom, random_uuid

# The nodes share a machine: they need not be as patient as over a network, and whoever watches a failure
# waits less for it.
QUICK_TIMEOUTS = {
    "controller.quorum.election.timeout.ms": "150",
    "controller.quorum.election.backoff.max.ms": "150",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
}
ZOOKEEPER_SESSION_MS = 6_000
# As Apache Kafka has them by default, if there are as many brokers.
INTERNAL_REPLICAS, INTERNAL_MIN_ISR = 3, 2
# Which nodes there are, and where: these options differ from node to node.
OWN_OPTIONS = (
    "process.roles",
    "node.id",
    "broker.id",
    "listeners",
    "advertised.listeners",
    "controller.listener.names",
    "controller.quorum.bootstrap.servers",
    "controller.quorum.voters",
    "log.dirs",
    "log.dir",
    "metadata.log.dir",
    "zookeeper.connect",
)
NO_OVERRIDES: Mapping[str, str] = MappingProxyType({})


def create(
    disk: Disk,
    folder: str,
    brokers: int,
    controllers: int,
    port: int | None,
    overrides: Mapping[str, str] = NO_OVERRIDES,
) -> Layout:
    """Chooses ids and ports, and writes the file of the cluster; nothing is formatted yet.  Raises
    ConfigError for options that no node could have."""
    random = SystemRandom()
    nodes = planned_nodes(brokers, controllers)
    ports = choose_ports(sum(len(node.roles) for node in nodes), port)
    nodes = [replace(node, directory_id=str(random_uuid(random))) for node in with_ports(nodes, ports)]
    layout = Layout(folder, str(random_uuid(random)), nodes=nodes, overrides=dict(overrides))
    for node in layout.nodes:
        read_node(properties(layout, node))
    disk.make_folder(folder)
    layout.write(disk)
    return layout


def create_with_zookeeper(
    disk: Disk,
    folder: str,
    brokers: int,
    zookeepers: int,
    port: int | None,
    overrides: Mapping[str, str] = NO_OVERRIDES,
) -> Layout:
    """The same in ZooKeeper mode.  Brokers have the first ports; the cluster's id comes from the first of
    them, which writes it into ZooKeeper."""
    peers = 0 if zookeepers == 1 else 2 * zookeepers
    ports = choose_ports(brokers + zookeepers + peers, port)
    nodes = [
        LocalNode(node_id, [BROKER], "", broker_port=ports[node_id - 1]) for node_id in range(1, brokers + 1)
    ]
    servers = planned_zookeepers(zookeepers, ports[brokers:])
    layout = Layout(folder, "", nodes=nodes, overrides=dict(overrides), zookeepers=servers)
    for node in layout.nodes:
        read_node(properties(layout, node))
    disk.make_folder(folder)
    layout.write(disk)
    return layout


def format_nodes(disk: Disk, layout: Layout) -> Layout:
    """Writes the configuration of each node and formats its folder; continues where it was interrupted."""
    if layout.zookeepers:
        write_files(disk, layout)
    for node in layout.nodes:
        disk.make_folder(layout.node_folder(node))
        given = properties(layout, node)
        disk.write_atomically(layout.properties_file(node), dumps(given))
        # In ZooKeeper mode a broker writes meta.properties at its first start.
        if not layout.zookeepers:
            _format(disk, layout, node, given)
    layout = replace(layout, is_formatted=True)
    layout.write(disk)
    return layout


def properties(layout: Layout, node: LocalNode) -> dict[str, str]:
    """The server.properties of a node."""
    listeners = {"PLAINTEXT": node.broker_port, "CONTROLLER": node.controller_port}
    replicas = min(INTERNAL_REPLICAS, max(1, len(layout.brokers)))
    ends = [f"{name}://{HOST}:{port}" for name, port in listeners.items() if port is not None]
    return {
        **(_zookeeper_mode(layout, node) if layout.zookeepers else _kraft_mode(layout, node)),
        "listeners": ",".join(ends),
        "advertised.listeners": ",".join(ends),
        "log.dirs": layout.data_folder(node),
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        # With two brokers, one of them may be away.
        "transaction.state.log.min.isr": str(min(INTERNAL_MIN_ISR, max(1, replicas - 1))),
        "group.initial.rebalance.delay.ms": "0",
        **layout.overrides,
    }


def _kraft_mode(layout: Layout, node: LocalNode) -> dict[str, str]:
    return {
        "process.roles": ",".join(node.roles),
        "node.id": str(node.id),
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": layout.bootstrap_controllers,
        **QUICK_TIMEOUTS,
    }


def _zookeeper_mode(layout: Layout, node: LocalNode) -> dict[str, str]:
    return {
        "broker.id": str(node.id),
        "zookeeper.connect": layout.zookeeper_connect,
        "zookeeper.session.timeout.ms": str(ZOOKEEPER_SESSION_MS),
    }


def _format(disk: Disk, layout: Layout, node: LocalNode, given: dict[str, str]) -> None:
    """As `storage format` does it, with a dynamic quorum (KIP-853)."""
    is_controller = node.controller_port is not None
    options = Namespace(
        cluster_id=layout.cluster_id,
        release_version=None,
        feature=[],
        add_scram=[],
        standalone=False,
        no_initial_controllers=not is_controller,
        initial_controllers=layout.initial_controllers if is_controller else None,
    )
    random = SystemRandom()
    with contextlib.redirect_stdout(io.StringIO()):
        plan = make_plan(options, read_node(given), random)
        format_all(plan, disk, random, SystemClock(), ignore_formatted=True)
