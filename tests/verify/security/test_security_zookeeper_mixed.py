"""Apache Kafka 3.9.1 and ours in one cluster on ZooKeeper, SASL_SSL throughout: killed and renewed, nothing lost."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.verify.security.secured_cluster import APACHE, OURS, PLAIN_MODULE, issue, key_options, password_of
from tests.verify.zookeeper.both_kinds import PATIENCE_S, VERSION, ZOOKEEPER_PORT, wait_for
from tools.ports import free_oracle_base

KINDS = {1: APACHE, 2: OURS, 3: OURS}
PARTITIONS = 6
RECORDS_A_STEP = 200
SETTINGS = {
    "zookeeper.session.timeout.ms": "6000",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "3",
    "auto.create.topics.enable": "false",
    "listener.security.protocol.map": "SAFE:SASL_SSL",
    "inter.broker.listener.name": "SAFE",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.safe.plain.sasl.jaas.config": (
        f'{PLAIN_MODULE} required username="admin" password="{password_of("admin")}"'
        f' user_admin="{password_of("admin")}";'
    ),
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:admin",
}


class SecuredOnZooKeeper:
    """The nodes, and what is done to them."""

    def __init__(self, oracle: Callable[..., Any], home: Path) -> None:
        home.mkdir(parents=True)
        self.home = home / "cluster"
        self._keys = home
        self._oracle = oracle
        self._ours: dict[int, subprocess.Popen[bytes]] = {}
        self._authority = trustme.CA()
        self._authority.cert_pem.write_to_path(home / "ca.pem")
        self.port = free_oracle_base(ZOOKEEPER_PORT)
        for number in KINDS:
            issue(self._authority, home, f"node-{number}", f"node-{number}")

    def options(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": ",".join(f"localhost:{self.port + number}" for number in KINDS),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "admin",
            "sasl.password": password_of("admin"),
            "ssl.ca.location": str(self._keys / "ca.pem"),
        }

    def _settings(self, number: int) -> dict[str, str]:
        keys = key_options(self._keys, f"node-{number}", KINDS[number])
        return {**SETTINGS, **keys, "listeners": f"SAFE://localhost:{self.port + number}"}

    def up(self) -> None:
        words = [word for name, value in self._settings(1).items() for word in ("--set", f"{name}={value}")]
        counts = ["--brokers", "1", "--zookeepers", "1", "--port", str(self.port)]
        self._call("up", "--dir", str(self.home), "--mode", "zk", *counts, *words)
        for number, kind in KINDS.items():
            if kind == OURS:
                self.start(number)

    def start(self, number: int) -> None:
        if KINDS[number] == APACHE:
            self._call("start", "--dir", str(self.home), f"broker-{number}")
            return
        folder = self._keys / f"ours-{number}"
        folder.mkdir(exist_ok=True)
        given = {
            **self._settings(number),
            "broker.id": str(number),
            "log.dirs": str(folder / "data"),
            "zookeeper.connect": f"localhost:{self.port + ZOOKEEPER_PORT}",
        }
        properties = folder / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in given.items()), "utf-8")
        with (folder / "server.log").open("ab") as log:
            self._ours[number] = subprocess.Popen(
                [sys.executable, "-m", "barnabas", "server-start", str(properties)],
                stdout=log,
                stderr=log,
                env={**os.environ, "BARNABAS_STATE": str(self._keys / "state")},
            )

    def kill(self, number: int) -> None:
        if KINDS[number] == APACHE:
            self._call("stop", "--dir", str(self.home), f"broker-{number}", "--kill")
            return
        process = self._ours.pop(number)
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)

    def renew(self, number: int) -> None:
        issue(self._authority, self._keys, f"renewed-{number}", f"node-{number}")
        ending = "pem" if KINDS[number] == OURS else "p12"
        change = f"listener.name.safe.ssl.keystore.location={self._keys / f'renewed-{number}.{ending}'}"
        entity = ("--entity-type", "brokers", "--entity-name", str(number))
        where = (
            "--bootstrap-server",
            f"localhost:{self.port + number}",
            "--command-config",
            self._client_file(),
        )
        self._call("tool", "configs", *where, "--alter", *entity, "--add-config", change)

    def _client_file(self) -> str:
        path = self._keys / "client.properties"
        path.write_text(
            "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
            f'sasl.jaas.config={PLAIN_MODULE} required username="admin" password="{password_of("admin")}";\n'
            f"ssl.truststore.type=PEM\nssl.truststore.location={self._keys / 'ca.pem'}\n",
            "utf-8",
        )
        return str(path)

    def certificate_of(self, number: int) -> str:
        return ssl.get_server_certificate(("localhost", self.port + number))

    def faults(self) -> list[str]:
        logs = [
            self._keys / f"ours-{number}" / "server.log" for number, kind in KINDS.items() if kind == OURS
        ]
        lines = [line for log in logs for line in log.read_text("utf-8").splitlines()]
        return [line for line in lines if " ERROR " in line or "Traceback" in line]

    def down(self) -> None:
        for number in list(self._ours):
            self.kill(number)
        self._oracle(VERSION, "down", "--dir", str(self.home), "--kill")

    def _call(self, *args: str) -> None:
        done = self._oracle(VERSION, *args)
        assert done.returncode == 0, f"{args}: {done.stdout}{done.stderr}"


@pytest.fixture
def cluster(oracle: Callable[..., Any], tmp_path: Path) -> Iterator[SecuredOnZooKeeper]:
    one = SecuredOnZooKeeper(oracle, tmp_path / "secured")
    try:
        one.up()
        yield one
    finally:
        one.down()


class Load:
    """Records that were acknowledged."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._producer = Producer({**options, "enable.idempotence": True})
        self.acknowledged: list[bytes] = []
        self._next = 0

    def step(self, between: Callable[[], object] = lambda: None) -> None:
        for number in range(RECORDS_A_STEP):
            if number == RECORDS_A_STEP // 2:
                between()
            value = b"%d" % self._next
            partition = self._next % PARTITIONS
            self._producer.produce("orders", value, partition=partition, on_delivery=self._delivered)
            self._next += 1
        assert self._producer.flush(PATIENCE_S) == 0

    def _delivered(self, error: Any, message: Any) -> None:
        assert error is None, error
        self.acknowledged.append(message.value())


def read_all(options: dict[str, Any], count: int) -> list[bytes]:
    consumer = Consumer({**options, "group.id": "g"})
    consumer.assign([TopicPartition("orders", number, 0) for number in range(PARTITIONS)])
    read: list[bytes] = []

    def look() -> bool:
        read.extend(
            message.value() or b"" for message in consumer.consume(1000, 1) if message.error() is None
        )
        return len(read) >= count

    wait_for("all records", look)
    assert consumer.poll(1) is None
    consumer.close()
    return read


def test_nothing_is_lost_while_brokers_are_renewed_and_killed(cluster: SecuredOnZooKeeper) -> None:
    options = cluster.options()
    admin = AdminClient(options)
    everybody = sorted(KINDS)
    wait_for("all brokers", lambda: sorted(admin.list_topics(timeout=PATIENCE_S).brokers) == everybody)
    admin.create_topics([NewTopic("orders", PARTITIONS, len(KINDS))])["orders"].result(PATIENCE_S)

    def is_whole() -> bool:
        topic = admin.list_topics("orders", timeout=PATIENCE_S).topics["orders"]
        return all(sorted(each.isrs) == everybody for each in topic.partitions.values())

    load = Load(options)
    load.step()
    for number in KINDS:
        before = cluster.certificate_of(number)
        load.step(lambda number=number: cluster.renew(number))  # type: ignore[misc]
        wait_for(
            f"the new certificate of {number}",
            lambda number=number, before=before: cluster.certificate_of(number) != before,  # type: ignore[misc]
        )
        load.step(lambda number=number: cluster.kill(number))  # type: ignore[misc]
        cluster.start(number)
        wait_for(f"the ISRs are whole after {number}", is_whole)
    load.step()
    assert sorted(read_all(options, len(load.acknowledged))) == sorted(load.acknowledged)
    assert cluster.faults() == []
