"""The nodes: processes of barnabas, of Apache Kafka, or some of each, with the same settings."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.nemesis.ensemble import Ensemble
from tools.nemesis.hosts import Host, Hosts
from tools.nemesis.process import Process
from tools.nemesis.shim import Control, build_shim

PROJECT = Path(__file__).resolve().parents[2]
ORACLE = Path(os.environ.get("BARNABAS_ORACLE", PROJECT.parent / "shared" / "oracle" / "kafka"))
CLUSTER_ID = "IbvkabpoSYqtPFrap8D0hg"
LAST_STOP_S = 10
# How long a node may need to start, on a machine that has other work.
START_S = 120

# Shorter than the defaults, so that a run sees many elections, shrunken ISRs and aborted transactions.  Syncs
# are frequent, so that those of the data can fail too.
SETTINGS: Mapping[str, str] = {
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "2000",
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "4000",
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "auto.create.topics.enable": "false",
    "unclean.leader.election.enable": "false",
    "log.retention.ms": "-1",
    "log.retention.bytes": "-1",
    "log.segment.bytes": "4194304",
    "log.flush.interval.ms": "1000",
    "log.index.size.max.bytes": "65536",
    "log.cleaner.dedupe.buffer.size": "4194304",
}
# What ZooKeeper mode has in their place.
_OF_KRAFT = ("controller.", "broker.", "listener.")
ZOOKEEPER_SETTINGS = {
    **{name: value for name, value in SETTINGS.items() if not name.startswith(_OF_KRAFT)},
    "zookeeper.session.timeout.ms": "4000",
    # A broker that starts while the ensemble has no leader waits for one; by default for a session only.
    "zookeeper.connection.timeout.ms": "60000",
}


class System:
    """What the nodes run, and in which mode."""

    def __init__(self, kafka: str | None = None, *, on_zookeeper: bool = False) -> None:
        self.kafka = kafka
        self.on_zookeeper = on_zookeeper

    def __str__(self) -> str:
        name = "barnabas" if self.kafka is None else f"Apache Kafka {self.kafka}"
        return f"{name} on ZooKeeper" if self.on_zookeeper else name

    def command(self, tool: str, *arguments: str) -> list[str]:
        if self.kafka is None:
            return [sys.executable, "-m", "barnabas", tool, *arguments]
        return [str(ORACLE), "-k", self.kafka, "tool", tool, *arguments]


class Node(Process):
    """A broker, which is a controller too."""

    def __init__(self, system: System, host: Host, control: Control, shim: Path | None) -> None:
        preloaded = {} if shim is None else {"LD_PRELOAD": str(shim), "NEMESIS_CONTROL": str(control.path)}
        super().__init__(host.prefix, host.folder.parent / f"node-{host.id}.log", preloaded)
        self.id = host.id
        self.host = host
        self.control = control
        self.data = host.folder / "data"
        self._config = host.folder.parent / f"node-{host.id}.properties"
        self.become(system)

    def become(self, system: System) -> None:
        """What runs from the next start on, with the same folder and the same configuration."""
        self.system = system
        self.command = system.command("server-start", str(self._config))

    def format(self, voters: str, *options: str) -> None:
        """As a node of a quorum."""
        host = self.host
        listeners = f"PLAINTEXT://{host.address}:{host.broker_port},CONTROLLER://{host.address}:{host.controller_port}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(self.id),
            "listeners": listeners,
            "controller.quorum.voters": voters,
            "log.dirs": str(self.data),
            **SETTINGS,
        }
        self._configure(settings)
        command = self.system.command(
            "storage", "format", "-t", CLUSTER_ID, "-c", str(self._config), *options
        )
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"node {self.id} could not be formatted: {done.stdout}{done.stderr}")

    def join(self, zookeeper: str) -> None:
        """As a broker in ZooKeeper mode, whose folders need no formatting."""
        settings = {
            "broker.id": str(self.id),
            "listeners": f"PLAINTEXT://{self.host.address}:{self.host.broker_port}",
            "zookeeper.connect": zookeeper,
            "log.dirs": str(self.data),
            **ZOOKEEPER_SETTINGS,
        }
        self._configure(settings)

    def _configure(self, settings: Mapping[str, str]) -> None:
        self._config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), "utf-8")


class Cluster:
    """All nodes.  Those of both kinds need a release that each knows."""

    def __init__(
        self, systems: Mapping[int, System], hosts: Hosts, folder: Path, release: str | None = None
    ) -> None:
        self.hosts = hosts
        self._release = release
        shim = build_shim(folder)
        if shim is None:
            hosts.lacking["shim"] = "there is no C compiler to build the preloaded library"
        self.nodes = {
            number: Node(systems[number], host, Control(folder / f"node-{number}.control"), shim)
            for number, host in hosts.hosts.items()
        }
        on_zookeeper = any(system.on_zookeeper for system in systems.values())
        self.ensemble = Ensemble(hosts.hosts) if on_zookeeper else None

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{host.address}:{host.broker_port}" for host in self.hosts.hosts.values())

    def up(self) -> None:
        if self.ensemble is None:
            self._format()
        else:
            self.ensemble.up()
            for node in self.nodes.values():
                node.join(self.ensemble.connect)
        for node in self.nodes.values():
            node.start()

    def _format(self) -> None:
        voters = ",".join(
            f"{host.id}@{host.address}:{host.controller_port}" for host in self.hosts.hosts.values()
        )
        options = () if self._release is None else ("--release-version", self._release)
        for node in self.nodes.values():
            node.format(voters, *options)

    def addresses(self, numbers: Sequence[int]) -> list[str]:
        return [self.hosts.hosts[number].address for number in numbers]

    def down(self, *, graceful: bool = False) -> None:
        if graceful:
            # All at once.  The last has no quorum to hand its leaderships to, and would wait for minutes, as
            # Apache Kafka does.
            for node in self.nodes.values():
                node.send_signal(signal.SIGTERM)
            deadline = time.monotonic() + LAST_STOP_S
            while time.monotonic() < deadline and any(node.is_up for node in self.nodes.values()):
                time.sleep(0.1)
        for node in self.nodes.values():
            node.kill()
        if self.ensemble is not None:
            self.ensemble.down()
