"""Clusters in ZooKeeper mode to compare: brokers of barnabas and of Apache Kafka on one ensemble of three.

Each cluster has a path of its own in it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from shutil import rmtree

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from barnabas.cli.zookeeper.java_server import command_line
from barnabas.runtime.zookeeper.four_letter_words import server_state
from bench.apache import ORACLE
from bench.clusters import BROKERS, HOST, PATIENCE_S, RETRY_S, Cluster, Node, call_oracle, free_oracle_base
from bench.registry import OURS
from bench.servers import HOUSEKEEPING
from tools.ports import free_ports
from tools.raw_broker import RawConnection

# The last release with ZooKeeper.
VERSION = "3.9.1"
APACHE = f"Apache Kafka {VERSION}"
SERVERS = (1, 2, 3)
_ZOO_CFG = "tickTime=2000\ninitLimit=20\nsyncLimit=5\nmaxClientCnxns=0\n"


class Ensemble:
    """Three servers of ZooKeeper."""

    def __init__(self, folder: Path) -> None:
        ports = {number: free_ports(3) for number in SERVERS}
        lines = "".join(f"server.{n}={HOST}:{peer}:{vote}\n" for n, (_, peer, vote) in ports.items())
        self.servers: dict[int, Node] = {}
        for number, (client_port, _, _) in ports.items():
            home = folder / f"zookeeper-{number}"
            data = home / "data"
            data.mkdir(parents=True)
            (data / "myid").write_text(f"{number}\n", "utf-8")
            config = home / "zoo.cfg"
            config.write_text(f"{_ZOO_CFG}dataDir={data}\nclientPort={client_port}\n{lines}", "utf-8")
            self.servers[number] = Node(number, home, command_line(config), client_port, os.environ)

    @property
    def connect(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in (node.address for node in self.servers.values()))

    def start(self) -> None:
        for server in self.servers.values():
            if not server.is_running:
                server.launch()
        self.leader()

    def leader(self) -> Node:
        """The server that leads, once all three serve."""
        until = time.monotonic() + PATIENCE_S
        while True:
            states = {number: server_state(*server.address) for number, server in self.servers.items()}
            leaders = [n for n, state in states.items() if state is not None and state.mode == "leader"]
            if leaders and all(states.values()):
                return self.servers[leaders[0]]
            assert time.monotonic() < until, "ZooKeeper does not serve"
            time.sleep(RETRY_S)

    def end(self) -> None:
        for server in self.servers.values():
            server.end()


class ZooKeeperCluster(Cluster):
    """Three brokers, each of which may be the controller."""

    def __init__(self, brokers: list[Node], ensemble: Ensemble, path: str) -> None:
        super().__init__(brokers, brokers)
        self.ensemble = ensemble
        self._path = path
        self._client: KazooClient | None = None

    def connect(self, broker_id: int | None = None) -> RawConnection:
        """To the controller, if it need not be this broker: no other takes administrators' requests."""
        return super().connect(self.active_controller().id if broker_id is None else broker_id)

    def active_controller(self) -> Node:
        until = time.monotonic() + PATIENCE_S
        while True:
            node = self.brokers.get(self._controller_id())
            if node is not None and node.is_running:
                return node
            assert time.monotonic() < until, "there is no controller"
            time.sleep(RETRY_S)

    def _controller_id(self) -> int:
        if self._client is None:
            self._client = KazooClient(self.ensemble.connect)
            self._client.start(timeout=PATIENCE_S)
        try:
            data, _ = self._client.retry(self._client.get, f"{self._path}/controller")
        except NoNodeError:
            return -1
        return int(json.loads(data)["brokerid"])

    def is_caught_up(self) -> bool:
        """There is nothing to catch up with: the next controller reads everything."""
        self.ensemble.start()
        return True

    def end(self) -> None:
        if self._client is not None:
            self._client.stop()
            self._client.close()
        super().end()


def make_zookeeper_clusters(
    folder: Path, stack: ExitStack, settings: Mapping[str, str]
) -> dict[str, ZooKeeperCluster]:
    """barnabas and, if the oracle is available, Apache Kafka; started.  The stack stops them."""
    ensemble = Ensemble(folder)
    stack.callback(ensemble.end)
    ensemble.start()
    all_settings = {**HOUSEKEEPING, **settings}
    clusters = {OURS: _our_cluster(folder / "ours", all_settings, ensemble)}
    if ORACLE.exists():
        clusters[APACHE] = _apache_cluster(folder / "theirs", all_settings, ensemble)
    for cluster in clusters.values():
        stack.callback(cluster.end)
        cluster.start()
    return clusters


def _our_cluster(folder: Path, settings: Mapping[str, str], ensemble: Ensemble) -> ZooKeeperCluster:
    environment = {**os.environ, "BARNABAS_STATE": str(folder / "state")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    brokers = []
    for broker_id, port in zip(BROKERS, free_ports(len(BROKERS)), strict=True):
        home = folder / f"broker-{broker_id}"
        home.mkdir(parents=True)
        # As the oracle sets them.
        options = {
            "broker.id": str(broker_id),
            "listeners": f"PLAINTEXT://{HOST}:{port}",
            "zookeeper.connect": f"{ensemble.connect}/ours",
            "log.dirs": str(home / "data"),
            "offsets.topic.replication.factor": "3",
            "transaction.state.log.replication.factor": "3",
            "transaction.state.log.min.isr": "2",
            "group.initial.rebalance.delay.ms": "0",
            **settings,
        }
        file = home / "server.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in options.items()), "utf-8")
        command = [sys.executable, "-m", "barnabas", "server-start", str(file)]
        brokers.append(Node(broker_id, home, command, port, environment))
    return ZooKeeperCluster(brokers, ensemble, "/ours")


def _apache_cluster(folder: Path, settings: Mapping[str, str], ensemble: Ensemble) -> ZooKeeperCluster:
    """Made by the oracle with the settings of Apache Kafka's start script, and then led to this ensemble."""
    base = free_oracle_base()
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    layout = ["--mode", "zk", "--zookeepers", "1", "--brokers", str(len(BROKERS)), "--port", str(base)]
    call_oracle("up", "--dir", str(folder), *layout, "--as-shipped", *words, version=VERSION)
    brokers = []
    for broker_id in BROKERS:
        home = folder / f"broker-{broker_id}"
        pid = int((home / "pid").read_text("utf-8").split()[0])
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
        command = [os.fsdecode(word) for word in line.split(b"\0") if word]
        brokers.append(Node(broker_id, home, command, base + broker_id, os.environ))
    # From now on they are processes of this one, whose start and end it sees at once.
    call_oracle("down", "--dir", str(folder), version=VERSION)
    for broker in brokers:
        # A new cluster: these folders belong to the one in the oracle's own ZooKeeper.
        rmtree(broker.data)
        file = broker.home / "server.properties"
        lines = [
            line for line in file.read_text("utf-8").splitlines() if not line.startswith("zookeeper.connect=")
        ]
        file.write_text("\n".join([*lines, f"zookeeper.connect={ensemble.connect}/theirs", ""]), "utf-8")
    return ZooKeeperCluster(brokers, ensemble, "/theirs")
