"""ZooKeeper with a login and ACLs on znodes: the same as Apache Kafka 3.9.1 sets, and brokers of both kinds together.

Servers and brokers log in by DIGEST-MD5; the file of their logins is the one that Apache Kafka's scripts take.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from barnabas.runtime.clock import SystemClock
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.reactor_thread import ReactorThread
from barnabas.runtime.zookeeper.client import Acl
from barnabas.runtime.zookeeper.kazoo_client import KazooZooKeeperClient
from barnabas.runtime.zookeeper.options import ZooKeeperOptions
from barnabas.runtime.zookeeper.security import DigestLogin, ZooKeeperSecurity
from tests.verify.zookeeper.both_kinds import PATIENCE_S, VERSION, ZOOKEEPER_PORT, wait_for
from tools.ports import free_oracle_base

MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"
JAAS = f"""
Server {{ {MODULE} required user_kafka="kafka-secret"; }};
Client {{ {MODULE} required username="kafka" password="kafka-secret"; }};
"""
PROVIDER = "-Dzookeeper.authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
OPTIONS = {
    "zookeeper.set.acl": "true",
    "zookeeper.session.timeout.ms": "6000",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
}
OURS_ALONE, OURS_BESIDE = 7, 8
APACHE = 1
# What has numbers of its own, or depends on time.
_NOT_COMPARED = ("/brokers/ids/", "/config/changes/", "/isr_change", "/log_dir", "/kafka-acl-changes/")


class SecuredZooKeeper:
    """One server, a broker of Apache Kafka on it, and brokers of ours: one alone below another path."""

    def __init__(self, oracle: Callable[..., Any], home: Path, options: str) -> None:
        self.home = home
        self.port = free_oracle_base(ZOOKEEPER_PORT)
        self._oracle = oracle
        self._options = options
        self._ours: list[subprocess.Popen[bytes]] = []

    def connect(self, chroot: str) -> str:
        return f"localhost:{self.port + ZOOKEEPER_PORT}{chroot}"

    def bootstrap(self, number: int) -> str:
        return f"localhost:{self.port + number}"

    def up(self) -> None:
        given = {**OPTIONS, "zookeeper.connect": self.connect("/apache")}
        words = [word for name, value in given.items() for word in ("--set", f"{name}={value}")]
        counts = ["--brokers", "1", "--zookeepers", "1", "--port", str(self.port)]
        self._call("up", "--dir", str(self.home), "--mode", "zk", *counts, *words)

    def start_ours(self, number: int, chroot: str) -> None:
        folder = self.home / f"ours-{number}"
        folder.mkdir()
        given = {
            **OPTIONS,
            "broker.id": number,
            "listeners": f"PLAINTEXT://localhost:{self.port + number}",
            "log.dirs": folder / "data",
            "zookeeper.connect": self.connect(chroot),
        }
        properties = folder / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in given.items()), "utf-8")
        environment = {**os.environ, "BARNABAS_STATE": str(self.home / "state"), "KAFKA_OPTS": self._options}
        with (folder / "server.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "barnabas", "server-start", str(properties)],
                stdout=log,
                stderr=log,
                env=environment,
            )
        self._ours.append(process)
        wait_for(f"broker {number}", lambda: "serves" in (folder / "server.log").read_text("utf-8"))

    def tool(self, name: str, number: int, *args: str) -> str:
        return self._call("tool", name, "--bootstrap-server", self.bootstrap(number), *args)

    def _call(self, *args: str) -> str:
        done = self._oracle(VERSION, *args)
        assert done.returncode == 0, f"{args}: {done.stdout}{done.stderr}"
        output: str = done.stdout
        return output

    def down(self) -> None:
        for process in self._ours:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_S)
        self._oracle(VERSION, "down", "--dir", str(self.home), "--kill")

    def acls(self, chroot: str) -> dict[str, list[Acl]]:
        """Of all znodes below a path, as their owner reads them."""
        thread = ReactorThread("zookeeper-loop")
        security = ZooKeeperSecurity(DigestLogin("kafka", "kafka-secret"))
        client = KazooZooKeeperClient(
            ZooKeeperOptions(self.connect(chroot), security=security),
            post=thread.reactor.post,
            timers=thread.reactor.timers,
            clock=SystemClock(),
        )
        found: dict[str, list[Acl]] = {}

        def run(call: Callable[[], Promise[Any]]) -> Any:
            return thread.finish(call, PATIENCE_S)

        try:
            run(client.start)
            left = ["/"]
            while left:
                path = left.pop()
                children = run(lambda path=path: client.children(path))  # type: ignore[misc]
                if children is None:
                    continue
                found[path] = run(lambda path=path: client.get_acl(path))  # type: ignore[misc]
                left += [f"{path.rstrip('/')}/{name}" for name in children]
        finally:
            thread.finish(client.close, PATIENCE_S)
            thread.end()
        return found


@contextmanager
def java_options(options: str) -> Iterator[None]:
    before = os.environ.get("KAFKA_OPTS")
    os.environ["KAFKA_OPTS"] = options
    try:
        yield
    finally:
        if before is None:
            del os.environ["KAFKA_OPTS"]
        else:
            os.environ["KAFKA_OPTS"] = before


@pytest.fixture(scope="module")
def secured(
    oracle: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecuredZooKeeper]:
    folder = tmp_path_factory.mktemp("zookeeper-security")
    jaas = folder / "jaas.conf"
    jaas.write_text(JAAS, "utf-8")
    options = f"-Djava.security.auth.login.config={jaas}"
    one = SecuredZooKeeper(oracle, folder / "cluster", options)
    try:
        # Tools do not talk to ZooKeeper, so they are run without.
        with java_options(f"{options} {PROVIDER}"):
            one.up()
        one.start_ours(OURS_ALONE, "/ours")
        yield one
    finally:
        one.down()


def administer(secured: SecuredZooKeeper, number: int) -> None:
    """A bit of everything that is in znodes."""
    secured.tool(
        "topics", number, "--create", "--topic", "orders", "--partitions", "2", "--replication-factor", "1"
    )
    alter = ("--alter", "--add-config")
    secured.tool(
        "configs", number, *alter, "retention.ms=5000", "--entity-type", "topics", "--entity-name", "orders"
    )
    password = "SCRAM-SHA-256=[password=alice-secret]"
    secured.tool("configs", number, *alter, password, "--entity-type", "users", "--entity-name", "alice")
    secured.tool(
        "configs",
        number,
        *alter,
        "producer_byte_rate=1000000",
        "--entity-type",
        "clients",
        "--entity-name",
        "c",
    )
    secured.tool(
        "configs", number, *alter, "log.cleaner.threads=2", "--entity-type", "brokers", "--entity-default"
    )
    allow = ("--add", "--allow-principal", "User:alice", "--operation", "Read")
    secured.tool("acls", number, *allow, "--topic", "orders")
    secured.tool("acls", number, *allow, "--topic", "or", "--resource-pattern-type", "prefixed")
    producer = Producer({"bootstrap.servers": secured.bootstrap(number), "enable.idempotence": True})
    producer.produce("orders", b"x")
    assert producer.flush(PATIENCE_S) == 0


def compared(acls: dict[str, list[Acl]]) -> dict[str, list[Acl]]:
    return {
        path: sorted(acl)
        for path, acl in acls.items()
        if not path.startswith(_NOT_COMPARED) and "changes/" not in path
    }


def test_znodes_have_the_acls_that_apache_kafka_sets(secured: SecuredZooKeeper) -> None:
    administer(secured, APACHE)
    administer(secured, OURS_ALONE)
    theirs, ours = compared(secured.acls("/apache")), compared(secured.acls("/ours"))
    assert set(ours) == set(theirs)
    assert {path: (theirs[path], acl) for path, acl in ours.items() if acl != theirs[path]} == {}
    assert theirs["/config/users/alice"] == [Acl(31, "sasl", "kafka")]
    assert len(theirs) > 40


def test_nobody_else_reads_credentials_or_changes_anything(secured: SecuredZooKeeper) -> None:
    stranger: Any = KazooClient(secured.connect("/ours"))
    stranger.start(timeout=PATIENCE_S)
    try:
        assert stranger.get("/brokers/topics/orders")[0]
        for name, *given in (
            ("get", "/config/users/alice"),
            ("get_children", "/config/users"),
            ("set", "/brokers/topics/orders", b"{}"),
            ("create", "/admin/delete_topics/orders"),
            ("delete", "/controller"),
        ):
            with pytest.raises(NoAuthError):
                getattr(stranger, name)(*given)
    finally:
        stranger.stop()
        stranger.close()


def test_brokers_of_both_kinds_share_secured_znodes(secured: SecuredZooKeeper) -> None:
    """Each writes what the other has created."""
    secured.start_ours(OURS_BESIDE, "/apache")
    both = ("--partitions", "2", "--replication-factor", "2")
    secured.tool("topics", OURS_BESIDE, "--create", "--topic", "shared", *both)
    producer = Producer({"bootstrap.servers": secured.bootstrap(OURS_BESIDE)})
    for number in range(100):
        producer.produce("shared", b"%d" % number, partition=number % 2)
    assert producer.flush(PATIENCE_S) == 0
    for number in (APACHE, OURS_BESIDE):
        alter = ("--alter", "--add-config", f"retention.ms={number}000000", "--entity-type", "topics")
        secured.tool("configs", number, *alter, "--entity-name", "shared")
    secured.tool("topics", APACHE, "--alter", "--topic", "shared", "--partitions", "3")
    consumer = Consumer({"bootstrap.servers": secured.bootstrap(APACHE), "group.id": "g"})
    consumer.assign([TopicPartition("shared", number, 0) for number in range(2)])
    read: list[bytes] = []

    def look() -> bool:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            read.append(message.value() or b"")
        return len(read) == 100

    wait_for("all records", look)
    consumer.close()
    secured.tool("topics", OURS_BESIDE, "--delete", "--topic", "shared")
