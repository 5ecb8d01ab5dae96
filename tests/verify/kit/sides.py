"""The two sides of a comparison: a cluster of the kit with its faults, and Apache Kafka, whose processes are killed
and stopped, whose disks are filled and slowed, and whose connections pass relays."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import Consumer

from barnabas.client import TopicPartition
from barnabas.client.admin.reassignments import ElectionType
from barnabas.client.admin.security.quotas import QuotaAlteration, quota_entity
from barnabas.testing import Cluster, wait_for
from barnabas.testing.kit.topics.topics import ElsewhereTopics, Topics
from tests.verify.conftest import ORACLE
from tests.verify.kit.relay import Relay, Rule
from tools.nemesis.shim import Control, build_shim
from tools.ports import free_oracle_base

VERSION = "4.1.0"
TIMEOUT_S = 90.0
BROKERS = (1, 2, 3)
DISK_BYTES = 96 << 20
BALLAST = "ballast"
REPLICATION_PORTS = 20
SESSION_MS = 3_000
# A follower leaves the ISR, and a transaction times out, within seconds.
OPTIONS = {
    "replica.lag.time.max.ms": 1_500,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "group.consumer.min.session.timeout.ms": 1_000,
    "group.consumer.min.heartbeat.interval.ms": 200,
    "group.consumer.session.timeout.ms": SESSION_MS,
    "group.consumer.heartbeat.interval.ms": 500,
}


class Side(Protocol):
    """A cluster of three brokers and its faults."""

    topics: Topics

    def port(self, node: int) -> int: ...

    def killed(self, node: int) -> Any: ...

    def shut_down(self, node: int) -> Any: ...

    def paused(self, node: int) -> Any: ...

    def out_of_isr(self, topic: str, node: int) -> Any: ...

    def cut_off(self, node: int) -> Any: ...

    def client_cut_off(self, client_id: str) -> Any: ...

    def full_disk(self, node: int) -> Any: ...

    def slow_disk(self, node: int, seconds: float) -> Any: ...

    def struck(self, client_id: str, api: str, **what: Any) -> Any: ...

    def unconfirmed(self, client_id: str, leader: int) -> Any: ...

    def throttled(self, client_id: str) -> Any: ...

    def elect(self, topic: str, leader: int) -> None: ...

    def rebalance(self, group: str, client_id: str, protocol: str) -> None: ...

    def expire(self, transactional_id: str) -> None: ...


def state_of(topics: Topics, topic: str) -> Any:
    """Its first partition, once the broker that is asked knows the topic."""

    def look() -> Any:
        described = topics.admin.describe_topics([topic])
        return described[topic].partitions if described.error_of(topic) is None else None

    return wait_for(look, TIMEOUT_S)[0]


class Kit:
    """Ours."""

    def __init__(self, cluster: Cluster) -> None:
        self.topics: Topics = cluster
        self._cluster = cluster

    def port(self, node: int) -> int:
        return int(self.topics.bootstrap_servers.split(",")[node - 1].rpartition(":")[2])

    def killed(self, node: int) -> Any:
        return self._cluster.kill(node)

    def shut_down(self, node: int) -> Any:
        return self._cluster.shut_down(node)

    def paused(self, node: int) -> Any:
        return self._cluster.pause(node)

    def out_of_isr(self, topic: str, node: int) -> Any:
        return self._cluster.faults.shrink_isr(topic, 0, node, timeout=TIMEOUT_S)

    def cut_off(self, node: int) -> Any:
        return self._cluster.faults.partition(node, *(other for other in BROKERS if other != node))

    def client_cut_off(self, client_id: str) -> Any:
        return self._cluster.faults.partition(client_id)

    def full_disk(self, node: int) -> Any:
        return self._cluster.faults.full_disk(node)

    def slow_disk(self, node: int, seconds: float) -> Any:
        return self._cluster.faults.slow_disk(node, seconds)

    def struck(self, client_id: str, api: str, **what: Any) -> Any:
        return self._cluster.faults.add(api, client_id=client_id, **what)

    def unconfirmed(self, client_id: str, leader: int) -> Any:
        return self.struck(client_id, "Produce", error="REQUEST_TIMED_OUT", after=True, node=leader)

    def throttled(self, client_id: str) -> Any:
        return self._cluster.faults.add("Produce", client_id=client_id, throttle=0.2)

    def elect(self, topic: str, leader: int) -> None:
        self._cluster.elect(topic, leader=leader)

    def rebalance(self, group: str, client_id: str, protocol: str) -> None:
        self._cluster.faults.rebalance(group)

    def expire(self, transactional_id: str) -> None:
        self._cluster.faults.expire_transaction(transactional_id)


class Apache:
    """Apache Kafka: a process for each node, with a small disk of its own; clients and followers pass relays."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._stack = stack
        self._base = free_oracle_base(len(BROKERS))
        self._controls = {node: Control(folder / f"control-{node}") for node in BROKERS}
        self._shim = build_shim(folder)
        self._home = folder / "cluster"
        self._relays: dict[int, Relay] = {}
        self._followers: dict[int, Relay] = {}
        settings = [part for name, value in OPTIONS.items() for part in ("--set", f"{name}={value}")]
        size = ("--brokers", str(len(BROKERS)), "--controllers", "1", "--port", str(self._base))
        stack.callback(self._call, "down", "--dir", str(self._home), "--kill")
        self._call("up", "--mode", "kraft", "--dir", str(self._home), *size, *settings)
        for node in BROKERS:
            self._stop(node, "--kill")
            self._configure(node, stack)
            self._mount(node, stack)
        for node in BROKERS:
            self._start(node)
        servers = ",".join(f"localhost:{self.port(node)}" for node in BROKERS)
        elsewhere = ElsewhereTopics(servers)
        stack.callback(elsewhere.close_clients)
        self.topics: Topics = elsewhere
        wait_for(self._is_up, TIMEOUT_S)

    def port(self, node: int) -> int:
        return self._base + node

    def _is_up(self) -> bool:
        return len(self.topics.admin.describe_cluster().nodes) == len(BROKERS)

    def _call(self, *args: str, environment: Mapping[str, str] | None = None) -> None:
        done = subprocess.run(
            [str(ORACLE), "-k", VERSION, *args],
            capture_output=True,
            text=True,
            env={**os.environ, **(environment or {})},
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _configure(self, node: int, stack: ExitStack) -> None:
        """Clients and followers are told the addresses of relays."""
        port = self.port(node)
        clients, followers = Relay(port), Relay(port + REPLICATION_PORTS)
        self._relays[node], self._followers[node] = clients, followers
        for relay in (clients, followers):
            stack.callback(relay.close)
        path = self._home / f"broker-{node}" / "server.properties"
        text = re.sub(
            r"(?m)^((advertised\.)?listeners|listener\.security.*)=.*\n", "", path.read_text("utf-8")
        )
        path.write_text(
            f"{text}\n"
            f"listeners=PLAINTEXT://localhost:{port},REPLICATION://localhost:{port + REPLICATION_PORTS}\n"
            f"advertised.listeners=PLAINTEXT://localhost:{clients.port},REPLICATION://localhost:{followers.port}\n"
            "inter.broker.listener.name=REPLICATION\n"
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,REPLICATION:PLAINTEXT\n",
            "utf-8",
        )

    def _mount(self, node: int, stack: ExitStack) -> None:
        data, aside = self._home / f"broker-{node}" / "data", self._home / f"data-{node}"
        shutil.move(data, aside)
        data.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", str(data)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"a disk of its own for each broker needs root: {done.stderr}"
        stack.callback(subprocess.run, ["umount", "-l", str(data)], check=False)
        shutil.copytree(aside, data, dirs_exist_ok=True)

    def _stop(self, node: int, *options: str) -> None:
        self._call("stop", "--dir", str(self._home), f"broker-{node}", *options)

    def _start(self, node: int) -> None:
        assert self._shim is not None, "slow disks need a C compiler"
        environment = {
            "LD_PRELOAD": str(self._shim),
            "NEMESIS_CONTROL": str(self._controls[node].path),
        }
        self._call("start", "--dir", str(self._home), f"broker-{node}", environment=environment)

    @contextmanager
    def killed(self, node: int) -> Iterator[None]:
        self._stop(node, "--kill")
        yield
        self._start(node)

    @contextmanager
    def shut_down(self, node: int) -> Iterator[None]:
        self._stop(node)
        yield
        self._start(node)

    @contextmanager
    def paused(self, node: int) -> Iterator[None]:
        pid = int((self._home / f"broker-{node}" / "pid").read_text("utf-8").split()[0])
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    @contextmanager
    def out_of_isr(self, topic: str, node: int) -> Iterator[None]:
        with self.paused(node):
            wait_for(lambda: node not in state_of(self.topics, topic).isr, TIMEOUT_S)
            yield

    @contextmanager
    def cut_off(self, node: int) -> Iterator[None]:
        with ExitStack() as stack:
            for other in BROKERS:
                if other != node:
                    stack.enter_context(self._followers[node].apply(Rule(f"broker-{other}-", hold=True)))
                    stack.enter_context(self._followers[other].apply(Rule(f"broker-{node}-", hold=True)))
            yield

    @contextmanager
    def client_cut_off(self, client_id: str) -> Iterator[None]:
        with ExitStack() as stack:
            for relay in self._relays.values():
                stack.enter_context(relay.apply(Rule(client_id, hold=True)))
            yield

    @contextmanager
    def full_disk(self, node: int) -> Iterator[None]:
        """Apache Kafka's broker ends when its only directory is offline: it is started again, with room."""
        data = self._home / f"broker-{node}" / "data"
        with (data / BALLAST).open("wb", buffering=0) as ballast:
            step = 1 << 20
            while step:
                try:
                    written = ballast.write(bytes(step))
                except OSError:
                    written = 0
                if written < step:
                    step //= 2
        yield
        (data / BALLAST).unlink()
        # It may have ended by itself, or not have noticed.
        self._call("stop", "--dir", str(self._home), f"broker-{node}", "--kill")
        self._start(node)

    @contextmanager
    def slow_disk(self, node: int, seconds: float) -> Iterator[None]:
        self._controls[node].delay_syncs(seconds)
        try:
            yield
        finally:
            self._controls[node].delay_syncs(0)

    @contextmanager
    def struck(self, client_id: str, api: str, **what: Any) -> Iterator[Rule]:
        """An error is set in the response: the request has been served."""
        assert what.pop("after", "error" not in what), "an error in place of the work has no relay"
        rule = Rule(client_id, api, what.pop("drop", None), what.pop("delay", 0.0), **what)
        with ExitStack() as stack:
            for relay in self._relays.values():
                stack.enter_context(relay.apply(rule))
            yield rule

    def unconfirmed(self, client_id: str, leader: int) -> Any:
        """Its followers do not fetch."""
        return self.cut_off(leader)

    @contextmanager
    def throttled(self, client_id: str) -> Iterator[None]:
        """By a quota that any record exceeds."""

        def alter(value: float | None) -> None:
            entity = quota_entity(client_id=client_id)
            change = QuotaAlteration(entity, {"producer_byte_rate": value})
            self.topics.admin.alter_client_quotas([change]).raise_first()

        alter(10.0)
        try:
            yield
        finally:
            alter(None)

    def elect(self, topic: str, leader: int) -> None:
        place = TopicPartition(topic, 0)
        replicas = state_of(self.topics, topic).replicas
        order = [leader, *(broker for broker in replicas if broker != leader)]
        self.topics.admin.alter_partition_reassignments({place: order}).raise_first()
        self.topics.admin.elect_leaders(ElectionType.PREFERRED, [place])
        wait_for(lambda: state_of(self.topics, topic).leader == leader, TIMEOUT_S)

    def rebalance(self, group: str, client_id: str, protocol: str) -> None:
        """A classic group rebalances as a member comes that wants nothing of the others'; a member of the consumer
        protocol is fenced when its session expires."""
        if protocol == "classic":
            self._visit(group)
            return
        with ExitStack() as stack:
            for relay in self._relays.values():
                stack.enter_context(relay.apply(Rule(client_id, "ConsumerGroupHeartbeat", hold=True)))
            wait_for(lambda: not self.topics.group(group).assignment, TIMEOUT_S)

    def _visit(self, group: str) -> None:
        """A member of another topic, which stays until the end."""
        name, is_over = f"{group}-visitor", threading.Event()
        self.topics.topic(name)
        options = {
            "bootstrap.servers": self.topics.bootstrap_servers,
            "group.id": group,
            "client.id": "visitor",
        }
        visitor = Consumer(options)
        visitor.subscribe([name])

        def poll() -> None:
            while not is_over.is_set():
                visitor.poll(0.1)
            visitor.close()

        thread = threading.Thread(target=poll)
        thread.start()
        self._stack.callback(thread.join)
        self._stack.callback(is_over.set)

    def expire(self, transactional_id: str) -> None:
        admin = self.topics.admin
        wait_for(
            lambda: admin.describe_transactions([transactional_id])[transactional_id].state != "Ongoing",
            TIMEOUT_S,
        )
