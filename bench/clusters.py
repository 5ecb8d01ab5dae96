"""Clusters to compare: nodes of barnabas and of Apache Kafka in processes, laid out and configured alike."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from barnabas.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from bench.apache import APACHE, ORACLE, VERSION
from bench.processes import cpu_seconds, rss_bytes
from bench.registry import OURS
from bench.servers import CLUSTER_ID, HOUSEKEEPING, await_listening
from tools.ports import free_ports, is_free
from tools.raw_broker import RawConnection

HOST = "127.0.0.1"
BROKERS = (1, 2, 3)
CONTROLLERS = (101, 102, 103)
PATIENCE_S = 300
RETRY_S = 0.02
METADATA_VERSION = 12
QUORUM_VERSION = 1
QUORUM_TOPIC = "__cluster_metadata"
# A voter that has all but so many records is caught up: the quorum writes one every half second when idle.
CATCH_UP_RECORDS = 10
# Ports of the oracle's nodes lie at fixed distances from its base.
ORACLE_BASES = range(23_000, 32_400, 211)
ORACLE_PORTS = (1, 2, 3, 101, 102, 103, 201)


class Node:
    """One process: a broker, a controller, or both."""

    def __init__(
        self, node_id: int, home: Path, command: Sequence[str], port: int, env: Mapping[str, str]
    ) -> None:
        self.id = node_id
        self.home = home
        self.data = home / "data"
        self.address = (HOST, port)
        self._command = command
        self._env = env
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None

    @property
    def pid(self) -> int:
        assert self._process is not None, f"node {self.id} does not run"
        return self._process.pid

    def launch(self) -> None:
        """Starts the process without waiting."""
        assert self._process is None, f"node {self.id} runs already"
        with (self.home / "server.log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, env=self._env)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def end(self) -> None:
        """Stops it in any state."""
        if self._process is not None:
            self.kill()

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        assert process is not None, f"node {self.id} does not run"
        process.send_signal(number)
        process.wait(PATIENCE_S)


class Cluster:
    """Three brokers, with three controllers apart or in the same processes."""

    def __init__(self, brokers: Sequence[Node], controllers: Sequence[Node]) -> None:
        self.brokers = {node.id: node for node in brokers}
        self.controllers = {node.id: node for node in controllers}
        self.nodes = {**self.controllers, **self.brokers}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in (node.address for node in self.brokers.values()))

    @property
    def cpu_seconds(self) -> float:
        return sum(cpu_seconds(node.pid) for node in self.nodes.values() if node.is_running)

    @property
    def rss_bytes(self) -> int:
        return sum(rss_bytes(node.pid) for node in self.nodes.values() if node.is_running)

    def start(self) -> None:
        """Controllers first: brokers give up if none answers for long."""
        for nodes in (self.controllers, self.brokers):
            for node in nodes.values():
                if not node.is_running:
                    node.launch()
            for node in nodes.values():
                await_listening(node.address)
        self.await_brokers(BROKERS)

    def end(self) -> None:
        for node in self.nodes.values():
            node.end()

    def await_brokers(self, wanted: Sequence[int]) -> None:
        """Waits until each of these brokers knows all of them."""
        for broker_id in wanted:
            await_listening(self.brokers[broker_id].address)
            until = time.monotonic() + PATIENCE_S
            while {one.node_id for one in self.metadata([], broker_id).brokers} < set(wanted):
                assert time.monotonic() < until, f"broker {broker_id} does not know all of {wanted}"
                time.sleep(RETRY_S)

    def connect(self, broker_id: int | None = None) -> RawConnection:
        """A connection to this broker, or to any that runs."""
        if broker_id is None:
            broker_id = next(node.id for node in self.brokers.values() if node.is_running)
        return RawConnection(self.brokers[broker_id].address, PATIENCE_S)

    def metadata(self, topics: Sequence[str] | None, broker_id: int | None = None) -> MetadataResponse:
        """What a broker says of these topics; None for all."""
        topic = MetadataRequest.Topic
        request = MetadataRequest(
            topics=None if topics is None else [topic(name=name) for name in topics],
            allow_auto_topic_creation=False,
        )
        with self.connect(broker_id) as connection:
            return connection.ask(request, METADATA_VERSION, MetadataResponse)

    def active_controller(self) -> Node:
        until = time.monotonic() + PATIENCE_S
        while True:
            quorum = self.quorum()
            node = None if quorum is None else self.controllers.get(quorum.leader_id)
            if node is not None and node.is_running:
                return node
            assert time.monotonic() < until, "there is no active controller"
            time.sleep(RETRY_S)

    def is_caught_up(self) -> bool:
        """Whether every controller could take over at once."""
        quorum = self.quorum()
        if quorum is None:
            return False
        ends = [voter.log_end_offset for voter in quorum.current_voters]
        return (
            len(ends) == len(self.controllers) and min(ends) > 0 and max(ends) - min(ends) < CATCH_UP_RECORDS
        )

    def quorum(self) -> DescribeQuorumResponse.PartitionData | None:
        """None while no controller answers."""
        partition = DescribeQuorumRequest.PartitionData(partition_index=0)
        topic = DescribeQuorumRequest.TopicData(topic_name=QUORUM_TOPIC, partitions=[partition])
        with self.connect() as connection:
            response = connection.ask(
                DescribeQuorumRequest(topics=[topic]), QUORUM_VERSION, DescribeQuorumResponse
            )
        if response.error_code or not response.topics:
            return None
        return response.topics[0].partitions[0]


def our_cluster(folder: Path, settings: Mapping[str, str], *, apart: bool) -> Cluster:
    """Formatted, and not started."""
    environment = {**os.environ, "BARNABAS_STATE": str(folder / "state")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    voter_ids = CONTROLLERS if apart else BROKERS
    voter_ports = dict(zip(voter_ids, free_ports(len(voter_ids)), strict=True))
    ports = dict(zip(BROKERS, free_ports(len(BROKERS)), strict=True))
    voters = ",".join(f"{node_id}@{HOST}:{port}" for node_id, port in voter_ports.items())

    def make(node_id: int, kind: str) -> Node:
        home = folder / f"{kind}-{node_id}"
        home.mkdir(parents=True)
        listeners = []
        if node_id in ports:
            listeners.append(f"PLAINTEXT://{HOST}:{ports[node_id]}")
        if node_id in voter_ports:
            listeners.append(f"CONTROLLER://{HOST}:{voter_ports[node_id]}")
        roles = ["broker"] * (node_id in ports) + ["controller"] * (node_id in voter_ports)
        # As the oracle sets them.
        options = {
            "process.roles": ",".join(roles),
            "node.id": str(node_id),
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "controller.quorum.voters": voters,
            "log.dirs": str(home / "data"),
            "offsets.topic.replication.factor": "3",
            "transaction.state.log.replication.factor": "3",
            "transaction.state.log.min.isr": "2",
            "group.initial.rebalance.delay.ms": "0",
            **settings,
        }
        if node_id in ports:
            options["advertised.listeners"] = listeners[0]
        file = home / "server.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in options.items()), "utf-8")
        barnabas = [sys.executable, "-m", "barnabas"]
        subprocess.run(
            [*barnabas, "storage", "format", "-t", CLUSTER_ID, "-c", str(file)],
            check=True,
            capture_output=True,
            env=environment,
        )
        port = ports.get(node_id) or voter_ports[node_id]
        return Node(node_id, home, [*barnabas, "server-start", str(file)], port, environment)

    brokers = [make(node_id, "broker") for node_id in BROKERS]
    return Cluster(brokers, [make(node_id, "controller") for node_id in CONTROLLERS] if apart else brokers)


def apache_cluster(
    folder: Path, settings: Mapping[str, str], *, apart: bool, controllers: Sequence[int] = CONTROLLERS
) -> Cluster:
    """Made by the oracle with the settings of Apache Kafka's own start script, and not started."""
    base = free_oracle_base()
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    layout = ["--mode", "kraft", "--brokers", str(len(BROKERS)), "--port", str(base)]
    if apart:
        layout += ["--controllers", str(len(controllers))]
    call_oracle("up", "--dir", str(folder), *layout, "--as-shipped", *words)

    def make(node_id: int, kind: str) -> Node:
        home = folder / f"{kind}-{node_id}"
        pid = int((home / "pid").read_text("utf-8").split()[0])
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
        command = [os.fsdecode(word) for word in line.split(b"\0") if word]
        return Node(node_id, home, command, base + node_id, os.environ)

    brokers = [make(node_id, "broker") for node_id in BROKERS]
    voters = [make(node_id, "controller") for node_id in controllers] if apart else brokers
    # From now on they are processes of this one, whose start and end it sees at once.
    call_oracle("down", "--dir", str(folder))
    return Cluster(brokers, voters)


def make_clusters(
    folder: Path, stack: ExitStack, settings: Mapping[str, str] | None = None, *, apart: bool = False
) -> dict[str, Cluster]:
    """barnabas and, if the oracle is available, Apache Kafka; started.  The stack stops them."""
    all_settings = {**HOUSEKEEPING, **(settings or {})}
    clusters = {OURS: our_cluster(folder / "ours", all_settings, apart=apart)}
    if ORACLE.exists():
        clusters[APACHE] = apache_cluster(folder / "theirs", all_settings, apart=apart)
    for cluster in clusters.values():
        stack.callback(cluster.end)
        cluster.start()
    return clusters


def free_oracle_base() -> int:
    """With it all ports of the oracle's nodes are free."""
    first = os.getpid() % len(ORACLE_BASES)
    bases: list[int] = [*ORACLE_BASES[first:], *ORACLE_BASES[:first]]
    for base in bases:
        if all(is_free(base + offset) for offset in ORACLE_PORTS):
            return base
    raise RuntimeError("no free ports")


def call_oracle(*arguments: str, version: str = VERSION) -> None:
    done = subprocess.run([ORACLE, "-k", version, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(
            f"{arguments[0]} of Apache Kafka {version} failed: {done.stdout[-500:]}{done.stderr[-2000:]}"
        )
