"""`barnabas cluster status`: the nodes of a local cluster and its active controller."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from barnabas.cli.cluster.layout import HOST, KRAFT, ZOOKEEPER, Layout, LocalNode, LocalZooKeeper
from barnabas.cli.cluster.local import existing_layout
from barnabas.cli.cluster.processes import RUNNING, State, read_process
from barnabas.cli.cluster.zookeepers import mode_of
from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.cli.friendly.output import Column, Printer
from barnabas.runtime.disk.folder_disk import FolderDisk

TIMEOUT_MS = 1_000
ZOOKEEPER_TIMEOUT_MS = 5_000
DESCRIBE_VERSION = 1
COLUMNS = (
    Column("node", is_number=True),
    Column("roles"),
    Column("state"),
    Column("pid", is_number=True),
    Column("broker"),
    Column("controller"),
    Column("zookeeper"),
    Column("mode"),
    Column("epoch", title="ACTIVE IN EPOCH", is_number=True),
    Column("log", is_wide=True),
)
_COMMON = {"node", "roles", "state", "pid", "broker", "epoch", "log"}
_COLUMNS_OF = {KRAFT: {*_COMMON, "controller"}, ZOOKEEPER: {*_COMMON, "zookeeper", "mode"}}


class Active(NamedTuple):
    """The active controller."""

    node_id: int
    epoch: int


def status(parser: ArgumentParser, options: Namespace) -> int:
    layout = existing_layout(options)
    active = active_controller(layout)
    rows = [_zookeeper_row(layout, server) for server in layout.zookeepers]
    rows += [_row(layout, node, None if _has_ended(layout, active) else active) for node in layout.nodes]
    columns = [column for column in COLUMNS if column.field in _COLUMNS_OF[layout.mode]]
    Printer(options.output, columns, name=_row_name).all(rows)
    if options.output in ("table", "wide"):
        print(_controller_line(layout, active))
    return Exit.OK


def _row_name(row: Mapping[str, object]) -> str:
    return str(row["node"]) if str(row["node"]).startswith("zk-") else f"node-{row['node']}"


def _zookeeper_row(layout: Layout, server: LocalZooKeeper) -> dict[str, object]:
    process = read_process(FolderDisk(), layout.node_folder(server))
    state = State.NEW if process is None else process.state
    is_running = process is not None and state in RUNNING
    row: dict[str, object] = {
        "node": server.id,
        "roles": [ZOOKEEPER],
        "state": state.value,
        "pid": process.pid if process is not None and is_running else None,
        "zookeeper": f"{HOST}:{server.client_port}",
        "mode": mode_of(server) if is_running else None,
        "log": layout.log_file(server),
    }
    if process is not None and state is State.FAILED:
        row["reason"] = process.reason
    return row


def _row(layout: Layout, node: LocalNode, active: Active | None) -> dict[str, object]:
    process = read_process(FolderDisk(), layout.node_folder(node))
    state = State.NEW if process is None else process.state
    row: dict[str, object] = {
        "node": node.id,
        "roles": node.roles,
        "state": state.value,
        "pid": process.pid if process is not None and state in RUNNING else None,
        "broker": None if node.broker_port is None else f"{HOST}:{node.broker_port}",
        "controller": None if node.controller_port is None else f"{HOST}:{node.controller_port}",
        "epoch": active.epoch if active is not None and active.node_id == node.id else None,
        "log": layout.log_file(node),
    }
    if process is not None and state is State.FAILED:
        row["reason"] = process.reason
    return row


def _has_ended(layout: Layout, active: Active | None) -> bool:
    """Whether it is a node of this cluster that does not run: ZooKeeper has it until its session ends."""
    for node in layout.nodes:
        if active is not None and node.id == active.node_id:
            process = read_process(FolderDisk(), layout.node_folder(node))
            return process is None or process.state not in RUNNING
    return False


def _controller_line(layout: Layout, active: Active | None) -> str:
    if active is not None and _has_ended(layout, active):
        return (
            f"no active controller: node {active.node_id}, of epoch {active.epoch}, does not run; another "
            "follows when its session ends"
        )
    if active is not None:
        return f"active controller: node {active.node_id}, epoch {active.epoch}"
    running = sum(
        process is not None and process.state in RUNNING
        for process in (read_process(FolderDisk(), layout.node_folder(node)) for node in layout.quorum)
    )
    kind = "ZooKeeper servers" if layout.zookeepers else "controllers"
    needed = f"{running} of {len(layout.quorum)} {kind} run, {layout.majority} are needed"
    return f"no active controller: {needed}"


def active_controller(layout: Layout) -> Active | None:
    """Asks every controller that runs; only the active one describes the quorum."""
    if layout.zookeepers:
        return _controller_in_zookeeper(layout)
    leaders = []
    for node in layout.controllers:
        process = read_process(FolderDisk(), layout.node_folder(node))
        if process is not None and process.state in RUNNING:
            leader = _leader_at(node)
            leaders += [leader] if leader is not None else []
    # One that was cut off may not know yet that it was replaced.
    return max(leaders, key=lambda leader: leader.epoch, default=None)


def _controller_in_zookeeper(layout: Layout) -> Active | None:
    """What /controller and /controller_epoch say; None without a controller, or without ZooKeeper."""
    from barnabas.runtime.zookeeper.blocking import BlockingZooKeeper
    from barnabas.runtime.zookeeper.client import ConnectionTimeout

    running = [server for server in layout.zookeepers if mode_of(server) is not None]
    if not running:
        return None
    connect = ",".join(f"{HOST}:{server.client_port}" for server in running)
    try:
        with BlockingZooKeeper(connect, ZOOKEEPER_TIMEOUT_MS) as zookeeper:
            found = zookeeper.run(partial(zookeeper.client.get_many, ["/controller", "/controller_epoch"]))
    except ConnectionTimeout:
        return None
    controller, epoch = (None if znode is None else znode.data for znode in found)
    if controller is None or epoch is None:
        return None
    return Active(json.loads(controller)["brokerid"], int(epoch))


def _leader_at(node: LocalNode) -> Active | None:
    from barnabas.base.topic_names import CLUSTER_METADATA
    from barnabas.cli.framework.single_request import send_request
    from barnabas.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
    from barnabas.runtime.network.network import Address

    partition = DescribeQuorumRequest.PartitionData(partition_index=0)
    topic = DescribeQuorumRequest.TopicData(topic_name=CLUSTER_METADATA, partitions=[partition])
    assert node.controller_port is not None
    try:
        response = send_request(
            Address(HOST, node.controller_port),
            DescribeQuorumRequest(topics=[topic]),
            DESCRIBE_VERSION,
            DescribeQuorumResponse,
            TIMEOUT_MS,
        )
    except CommandError:
        return None  # It is starting, or has just ended.
    if response.error_code or not response.topics:
        return None
    described = response.topics[0].partitions[0]
    return None if described.error_code else Active(described.leader_id, described.leader_epoch)
