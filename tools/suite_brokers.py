"""The brokers that the clients' test suites run against: one node or a cluster of three, of barnabas or of
Apache Kafka, with the same settings on both sides."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from barnabas.client.sync import Admin
from tools.ports import free_oracle_base, free_ports, free_run
from tools.suite_record import ZOOKEEPER, Site

PROJECT = Path(__file__).resolve().parents[1]
BARNABAS = PROJECT / ".venv" / "bin" / "barnabas"
START_PATIENCE_S = 120
STOP_PATIENCE_S = 120
# What the suites ask for: see their README.
WANTED = {
    "num.partitions": "4",
    "auto.create.topics.enable": "true",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "allow.everyone.if.no.acl.found": "true",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "group.initial.rebalance.delay.ms": "0",
}
ALONE = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
ZOOKEEPER_AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"
# The oracle's servers of ZooKeeper listen this far above its brokers.
ORACLE_ZOOKEEPERS = 200
# Topics made on demand have a replica on every broker, and acks=all waits for two of them.
REPLICATED = {"default.replication.factor": "3", "min.insync.replicas": "2"}


@dataclass(frozen=True)
class Brokers:
    """What a suite is told: the addresses, and the process of the first broker."""

    addresses: str
    first_pid: int
    count: int

    @property
    def variables(self) -> dict[str, str]:
        variables = {"BROKER_PID": str(self.first_pid)}
        if self.count > 1:
            variables |= {"BROKERS_COUNT": str(self.count), "REPLICATION": str(self.count)}
        return variables


@contextmanager
def barnabas_node(folder: Path) -> Iterator[Brokers]:
    """A single node, as `with-kafka` makes one of Apache Kafka."""
    port, controller_port = free_ports(2)
    config = folder / "server.properties"
    config.write_text(_node_properties(folder, port, controller_port), "utf-8")
    cluster = subprocess.run([BARNABAS, "storage", "random-uuid"], capture_output=True, text=True, check=True)
    formatting = [str(BARNABAS), "storage", "format", "-t", cluster.stdout.strip(), "-c", str(config)]
    subprocess.run(formatting, check=True, stdout=subprocess.DEVNULL)
    environment = os.environ | {"BARNABAS_STATE": str(folder / "state")}
    with (folder / "broker.log").open("wb") as log:
        broker = subprocess.Popen(
            [BARNABAS, "server-start", config], stdout=log, stderr=subprocess.STDOUT, env=environment
        )
    try:
        _wait_until_listening(broker, port, folder / "broker.log")
        yield Brokers(f"127.0.0.1:{port}", broker.pid, 1)
    finally:
        broker.terminate()
        try:
            broker.wait(STOP_PATIENCE_S)
        except subprocess.TimeoutExpired:
            broker.kill()


def _node_properties(folder: Path, port: int, controller_port: int) -> str:
    given = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@localhost:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://localhost:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": f"{folder}/data",
        **WANTED,
        **ALONE,
    }
    return "".join(f"{name}={value}\n" for name, value in given.items())


def _wait_until_listening(broker: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_PATIENCE_S
    while time.monotonic() < deadline and broker.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit(f"the broker did not start:\n{log.read_text('utf-8')[-2000:]}")


def _cluster_settings(site: Site) -> dict[str, str]:
    settings = {**WANTED, **REPLICATED}
    if site.mode == ZOOKEEPER:
        return settings | {"authorizer.class.name": ZOOKEEPER_AUTHORIZER}
    return settings


@contextmanager
def barnabas_cluster(folder: Path, site: Site) -> Iterator[Brokers]:
    """A cluster as `barnabas cluster up` makes it."""
    home = folder / "cluster"
    count = site.nodes
    settings = _cluster_settings(site)
    overrides = [word for name, value in settings.items() for word in ("--override", f"{name}={value}")]
    environment = os.environ | {"BARNABAS_STATE": str(folder / "state"), "BARNABAS_CLUSTER": str(home)}
    # A broker and a controller each, or a broker and a server of ZooKeeper with three ports.
    first = str(free_run(4 * count)[0])
    make = ["up", "--brokers", str(count), "--port", first, "--timeout", str(START_PATIENCE_S), *overrides]
    if site.mode == ZOOKEEPER:
        make += ["--mode", "zookeeper", "--zookeepers", str(count)]
    try:
        _barnabas_cluster(environment, *make)
        nodes = json.loads((home / "cluster.json").read_text("utf-8"))["nodes"]
        ports = {node["id"]: node["broker_port"] for node in nodes if node.get("broker_port")}
        order = _controller_first(ports, site)
        process = json.loads((home / f"node-{order[0]}" / "process.json").read_text("utf-8"))
        addresses = ",".join(f"127.0.0.1:{ports[number]}" for number in order)
        yield Brokers(addresses, process["pid"], count)
    finally:
        _barnabas_cluster(environment, "down", "--timeout", str(STOP_PATIENCE_S))


def _controller_first(ports: Mapping[int, int], site: Site) -> list[int]:
    """The brokers: in ZooKeeper mode only the controller creates topics, and `hostile` asks the first one."""
    if site.mode != ZOOKEEPER:
        return sorted(ports)
    servers = ",".join(f"127.0.0.1:{port}" for port in ports.values())
    with Admin({"bootstrap.servers": servers}) as admin:
        controller = admin.describe_cluster().controller
    return sorted(ports, key=lambda number: (controller is None or number != controller.id, number))


def _barnabas_cluster(environment: dict[str, str], *arguments: str) -> None:
    done = subprocess.run(
        [str(BARNABAS), "cluster", *arguments], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"barnabas cluster {arguments[0]} failed:\n{done.stdout}{done.stderr}")


@contextmanager
def apache_cluster(oracle: Path, folder: Path, site: Site) -> Iterator[Brokers]:
    """A cluster of Apache Kafka, started by the oracle."""
    home = folder / "kafka"
    count = site.nodes
    settings = _cluster_settings(site)
    command = [str(oracle), "-k", site.apache_version]
    if site.mode == ZOOKEEPER:
        port = free_oracle_base(ORACLE_ZOOKEEPERS + count)
        make = ["up", "--mode", "zk", "--zookeepers", str(count)]
    else:
        port = free_oracle_base(count)
        make = ["up"]
        settings["share.coordinator.state.topic.num.partitions"] = "5"
    make += ["--dir", str(home), "--port", str(port), "--brokers", str(count)]
    make += [f"--set={name}={value}" for name, value in settings.items()]
    try:
        # The oracle may take a broker for dead while its `java` is being executed: then a second time.
        if subprocess.run(command + make, capture_output=True, check=False).returncode:
            subprocess.run(command + make, check=True, stdout=subprocess.DEVNULL)
        order = _controller_first({number: port + number for number in range(1, count + 1)}, site)
        addresses = ",".join(f"localhost:{port + number}" for number in order)
        yield Brokers(addresses, int((home / f"broker-{order[0]}" / "pid").read_text("utf-8")), count)
    finally:
        subprocess.run([*command, "down", "--dir", str(home), "--kill"], capture_output=True, check=False)
