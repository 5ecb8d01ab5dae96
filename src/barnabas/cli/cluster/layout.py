"""The folder of a local cluster: its nodes and their files.

cluster.json               the cluster id; the ids, roles and ports of the nodes; options of all nodes
node-1/server.properties   as `server-start` reads it
node-1/data/               the log directory
node-1/server.log
node-1/process.json        the last process of the node
zk-1/                      a ZooKeeper server, in ZooKeeper mode: see `zookeepers`
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TypeAlias

from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.runtime.disk.disk import Disk

CLUSTER_FILE = "cluster.json"
LOCK_FILE = ".lock"
CLUSTER_VARIABLE = "BARNABAS_CLUSTER"
HOST = "127.0.0.1"
FIRST_PORT = 9092
MAX_PORT = 2**16 - 1
# Without separate controllers, this many nodes are also controllers.
MAX_COMBINED = 5
MAX_NODES = 30
BROKER, CONTROLLER = "broker", "controller"
KRAFT, ZOOKEEPER = "kraft", "zookeeper"
# How far from the first port free ones are searched.
_PORT_STEP, _PORT_TRIES = 100, 200


@dataclass(frozen=True, slots=True)
class LocalNode:
    """A node of a local cluster.  A port is None without the role."""

    id: int
    roles: list[str]
    directory_id: str
    broker_port: int | None = None
    controller_port: int | None = None

    @property
    def name(self) -> str:
        return f"node-{self.id}"

    @property
    def ports(self) -> list[int]:
        return [port for port in (self.broker_port, self.controller_port) if port is not None]


@dataclass(frozen=True, slots=True)
class LocalZooKeeper:
    """A ZooKeeper server of a local cluster; `id` is how commands name it."""

    number: int
    client_port: int
    peer_port: int
    election_port: int

    @property
    def id(self) -> str:
        return f"zk-{self.number}"

    @property
    def name(self) -> str:
        return self.id


# What commands start and stop.
Member: TypeAlias = LocalNode | LocalZooKeeper


@dataclass(frozen=True, slots=True)
class Layout:
    """A local cluster, as its file has it."""

    folder: str
    cluster_id: str
    is_formatted: bool = False
    nodes: list[LocalNode] = field(default_factory=list)
    # Options of all nodes, besides those that every local cluster has.
    overrides: dict[str, str] = field(default_factory=dict)
    # Those of ZooKeeper mode; none in KRaft mode.
    zookeepers: list[LocalZooKeeper] = field(default_factory=list)

    @property
    def mode(self) -> str:
        return ZOOKEEPER if self.zookeepers else KRAFT

    @property
    def members(self) -> list[Member]:
        """All processes, in the order in which they start."""
        return [*self.zookeepers, *self.nodes]

    @property
    def zookeeper_connect(self) -> str:
        return ",".join(f"{HOST}:{each.client_port}" for each in self.zookeepers)

    def node_folder(self, node: Member) -> str:
        return os.path.join(self.folder, node.name)

    def properties_file(self, node: LocalNode) -> str:
        return os.path.join(self.node_folder(node), "server.properties")

    def data_folder(self, node: LocalNode) -> str:
        return os.path.join(self.node_folder(node), "data")

    def log_file(self, node: Member) -> str:
        name = "zookeeper.log" if isinstance(node, LocalZooKeeper) else "server.log"
        return os.path.join(self.node_folder(node), name)

    @property
    def brokers(self) -> list[LocalNode]:
        return [node for node in self.nodes if node.broker_port is not None]

    @property
    def controllers(self) -> list[LocalNode]:
        return [node for node in self.nodes if node.controller_port is not None]

    @property
    def quorum(self) -> Sequence[Member]:
        """Those of which a majority is needed: the controllers, or the ZooKeeper servers."""
        return self.zookeepers or self.controllers

    @property
    def majority(self) -> int:
        return len(self.quorum) // 2 + 1

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{HOST}:{node.broker_port}" for node in self.brokers)

    @property
    def bootstrap_controllers(self) -> str:
        return ",".join(f"{HOST}:{node.controller_port}" for node in self.controllers)

    @property
    def initial_controllers(self) -> str:
        """As `storage format --initial-controllers` reads them (KIP-853)."""
        return ",".join(
            f"{node.id}@{HOST}:{node.controller_port}:{node.directory_id}" for node in self.controllers
        )

    def node(self, node_id: int) -> LocalNode:
        for node in self.nodes:
            if node.id == node_id:
                return node
        known = ", ".join(str(node.id) for node in self.nodes)
        raise CommandError(
            f"barnabas: the cluster has no node {node_id}; its nodes are {known}", Exit.NOT_FOUND
        )

    def member(self, member_id: int | str) -> Member:
        for server in self.zookeepers:
            if server.id == member_id:
                return server
        if isinstance(member_id, int):
            return self.node(member_id)
        known = ", ".join(str(member.id) for member in self.members)
        raise CommandError(f"barnabas: the cluster has no {member_id}; its nodes are {known}", Exit.NOT_FOUND)

    def write(self, disk: Disk) -> None:
        fields = asdict(self)
        del fields["folder"]
        content = json.dumps(fields, indent=2) + "\n"
        disk.write_atomically(os.path.join(self.folder, CLUSTER_FILE), content.encode())


def default_folder() -> str:
    """$BARNABAS_CLUSTER, or a folder of this user, the same from every shell."""
    from barnabas.cli.server.running_servers import state_folder

    return os.environ.get(CLUSTER_VARIABLE) or os.path.join(state_folder(), "cluster")


def read_layout(disk: Disk, folder: str) -> Layout | None:
    """None if there is no cluster in the folder; raises CommandError if something else is."""
    path = os.path.join(folder, CLUSTER_FILE)
    if disk.exists(path):
        try:
            fields = json.loads(disk.read_bytes(path))
            nodes = [LocalNode(**node) for node in fields.pop("nodes")]
            zookeepers = [LocalZooKeeper(**server) for server in fields.pop("zookeepers", [])]
            return Layout(folder, nodes=nodes, zookeepers=zookeepers, **fields)
        except (ValueError, TypeError, KeyError) as error:
            raise CommandError(f"barnabas: {path} is not the file of a local cluster ({error})") from error
    if disk.exists(folder) and not disk.is_folder(folder):
        raise CommandError(f"barnabas: {folder} is a file; choose a folder with --dir")
    if disk.is_folder(folder) and [name for name in disk.names(folder) if name != LOCK_FILE]:
        raise CommandError(
            f"barnabas: {folder} has other files and no {CLUSTER_FILE}; choose another folder with --dir"
        )
    return None


def planned_nodes(brokers: int, controllers: int) -> list[LocalNode]:
    """Brokers first, then controllers, with ids in sequence from 1; ports and directory ids follow."""
    if not controllers:
        both = min(brokers, MAX_COMBINED)
        roles = [[BROKER, CONTROLLER]] * both + [[BROKER]] * (brokers - both)
    else:
        roles = [[BROKER]] * brokers + [[CONTROLLER]] * controllers
    return [LocalNode(node_id, node_roles, "") for node_id, node_roles in enumerate(roles, 1)]


def planned_zookeepers(count: int, ports: Sequence[int]) -> list[LocalZooKeeper]:
    """The first ports are those of the clients; a server alone needs no others."""
    others = iter(ports[count:])
    return [
        LocalZooKeeper(number, ports[number - 1], next(others, 0), next(others, 0))
        for number in range(1, count + 1)
    ]


def with_ports(nodes: list[LocalNode], ports: list[int]) -> list[LocalNode]:
    """The first ports are those of the brokers, in the order of their ids."""
    remaining = iter(ports)
    broker_ports = {node.id: next(remaining) for node in nodes if BROKER in node.roles}
    controller_ports = {node.id: next(remaining) for node in nodes if CONTROLLER in node.roles}
    return [
        replace(node, broker_port=broker_ports.get(node.id), controller_port=controller_ports.get(node.id))
        for node in nodes
    ]


def choose_ports(count: int, first: int | None) -> list[int]:
    """Consecutive ports: from the given one, which must be free, or wherever all of them are."""
    from barnabas.runtime.network.free_port import is_port_free

    if first is not None:
        ports = list(range(first, first + count))
        if ports[-1] > MAX_PORT:
            raise CommandError(f"barnabas: {count} ports from --port {first} on go beyond {MAX_PORT}")
        for port in ports:
            if not is_port_free(HOST, port):
                raise CommandError(
                    f"barnabas: port {port} is taken; {count} ports are needed from --port {first} on"
                )
        return ports
    for start in _first_ports():
        ports = list(range(start, start + count))
        if all(is_port_free(HOST, port) for port in ports):
            return ports
    raise CommandError(f"barnabas: no {count} free ports in a row; give the first one with --port")


def _first_ports() -> Iterator[int]:
    """Two commands at once must not choose the same ports: after the usual one, each starts elsewhere."""
    yield FIRST_PORT
    spread = os.getpid() % _PORT_TRIES
    for attempt in range(_PORT_TRIES):
        yield 10_000 + (spread + attempt) % _PORT_TRIES * _PORT_STEP
