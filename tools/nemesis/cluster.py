"""The nodes: processes of barnabas, of Apache Kafka, or some of each, with the same settings."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.nemesis.hosts import Host, Hosts
from tools.nemesis.shim import Control, build_shim

PROJECT = Path(__file__).resolve().parents[2]
ORACLE = Path(os.environ.get("BARNABAS_ORACLE", PROJECT.parent / "shared" / "oracle" / "kafka"))
CLUSTER_ID = "IbvkabpoSYqtPFrap8D0hg"
STOP_S = 60
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


class System:
    """What the nodes run."""

    def __init__(self, kafka: str | None = None) -> None:
        self.kafka = kafka

    def __str__(self) -> str:
        return "barnabas" if self.kafka is None else f"Apache Kafka {self.kafka}"

    def command(self, tool: str, *arguments: str) -> list[str]:
        if self.kafka is None:
            return [sys.executable, "-m", "barnabas", tool, *arguments]
        return [str(ORACLE), "-k", self.kafka, "tool", tool, *arguments]


class Node:
    """One process: broker and controller."""

    def __init__(self, system: System, host: Host, control: Control, shim: Path | None) -> None:
        self.id = host.id
        self.host = host
        self.control = control
        self.log = host.folder.parent / f"node-{host.id}.log"
        self.data = host.folder / "data"
        self.is_paused = False
        self.process: subprocess.Popen[bytes] | None = None
        self.system = system
        self._config = host.folder.parent / f"node-{host.id}.properties"
        self._environment = dict(os.environ)
        if shim is not None:
            self._environment |= {"LD_PRELOAD": str(shim), "NEMESIS_CONTROL": str(control.path)}

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def exit_code(self) -> int | None:
        return None if self.process is None else self.process.poll()

    def format(self, voters: str, *options: str) -> None:
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
        self._config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), "utf-8")
        command = self.system.command(
            "storage", "format", "-t", CLUSTER_ID, "-c", str(self._config), *options
        )
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"node {self.id} could not be formatted: {done.stdout}{done.stderr}")

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self.host.prefix, *self.system.command("server-start", str(self._config))],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=self._environment,
                start_new_session=True,
            )

    def kill(self) -> None:
        """kill -9."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(STOP_S)
            self.is_paused = False

    def pause(self) -> None:
        self.send_signal(signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        self.send_signal(signal.SIGCONT)
        self.is_paused = False

    def stop(self) -> None:
        """As by Ctrl+C; by kill -9 if that takes too long."""
        self.send_signal(signal.SIGTERM)
        if self.process is not None:
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.kill()

    def send_signal(self, number: signal.Signals) -> None:
        if self.process is not None and self.is_up:
            self.process.send_signal(number)


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

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{host.address}:{host.broker_port}" for host in self.hosts.hosts.values())

    def up(self) -> None:
        voters = ",".join(
            f"{host.id}@{host.address}:{host.controller_port}" for host in self.hosts.hosts.values()
        )
        options = () if self._release is None else ("--release-version", self._release)
        for node in self.nodes.values():
            node.format(voters, *options)
        for node in self.nodes.values():
            node.start()

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
