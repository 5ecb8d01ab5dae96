"""Three nodes that know each other by password over TLS, with ACLs: no listener is open to strangers.

Controllers log in by PLAIN and brokers by SCRAM, whose users are part of the metadata; only `admin` is a super
user.  Acknowledged records are there after the node that led them has been killed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trustme
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tools.ports import free_ports

PATIENCE_S = 120
NODES = (1, 2, 3)
PROPERTIES = """
process.roles=broker,controller
node.id={node}
controller.quorum.voters={voters}
controller.listener.names=CONTROLLER
listeners=SASL_SSL://127.0.0.1:{clients},CONTROLLER://127.0.0.1:{controller}
listener.security.protocol.map=SASL_SSL:SASL_SSL,CONTROLLER:SASL_SSL
security.inter.broker.protocol=SASL_SSL
sasl.enabled.mechanisms=SCRAM-SHA-512
sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512
listener.name.controller.sasl.enabled.mechanisms=PLAIN
sasl.mechanism.controller.protocol=PLAIN
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule \
required username="admin" password="admin-secret";
listener.name.controller.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule \
required username="admin" password="controller-secret" user_admin="controller-secret";
ssl.keystore.type=PEM
ssl.keystore.location={folder}/node-{node}.pem
ssl.truststore.type=PEM
ssl.truststore.location={folder}/ca.pem
ssl.client.auth=required
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:admin
min.insync.replicas=2
default.replication.factor=3
offsets.topic.replication.factor=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
replica.lag.time.max.ms=10000
log.dirs={folder}/data-{node}
"""


class Cluster(NamedTuple):
    folder: Path
    ports: dict[int, int]
    processes: dict[int, subprocess.Popen[bytes]]

    def options(self, user: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in self.ports.values()),
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.folder / "ca.pem"),
            "ssl.certificate.location": str(self.folder / "client.pem"),
            "ssl.key.location": str(self.folder / "client.pem"),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": f"{user}-secret",
        }

    def start(self, node: int) -> None:
        command = [sys.executable, "-m", "barnabas", "server-start", str(self.folder / f"{node}.properties")]
        with (self.folder / f"log-{node}.txt").open("ab") as output:
            environment = {**os.environ, "BARNABAS_STATE": str(self.folder / f"state-{node}")}
            self.processes[node] = subprocess.Popen(command, stdout=output, stderr=output, env=environment)

    def kill(self, node: int) -> None:
        self.processes[node].kill()
        self.processes[node].wait(PATIENCE_S)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("secured")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    for name in ("client", *(f"node-{node}" for node in NODES)):
        leaf = authority.issue_cert("127.0.0.1", common_name=name)
        leaf.private_key_and_cert_chain_pem.write_to_path(folder / f"{name}.pem")
    ports = free_ports(2 * len(NODES))
    clients, controllers = dict(zip(NODES, ports[: len(NODES)], strict=True)), ports[len(NODES) :]
    voters = ",".join(f"{node}@127.0.0.1:{port}" for node, port in zip(NODES, controllers, strict=True))
    cluster = Cluster(folder, clients, {})
    scram = [f"--add-scram=SCRAM-SHA-512=[name={user},password={user}-secret]" for user in ("admin", "alice")]
    for node, controller in zip(NODES, controllers, strict=True):
        properties = folder / f"{node}.properties"
        text = PROPERTIES.format(
            node=node, voters=voters, clients=clients[node], controller=controller, folder=folder
        )
        properties.write_text(text, "utf-8")
        command = [sys.executable, "-m", "barnabas", "storage", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg"]
        subprocess.run([*command, "-c", str(properties), *scram], check=True)
        cluster.start(node)
    try:
        yield cluster
    finally:
        for node in NODES:
            cluster.kill(node)
    for node in NODES:
        assert "-secret" not in (folder / f"log-{node}.txt").read_text("utf-8")


def test_records_survive_the_death_of_their_leader(cluster: Cluster) -> None:
    admin = AdminClient(cluster.options("admin"))
    deadline = time.monotonic() + PATIENCE_S
    while set(admin.list_topics(timeout=PATIENCE_S).brokers) != set(NODES):
        assert time.monotonic() < deadline, "not every broker is there"
        admin.poll(0.1)
    admin.create_topics([NewTopic("orders", 6, 3)])["orders"].result(PATIENCE_S)
    acknowledged: list[bytes] = []

    def delivered(error: Any, message: Any) -> None:
        assert error is None, error
        acknowledged.append(message.value())

    producer = Producer({**cluster.options("admin"), "enable.idempotence": True})
    sent = [b"%d" % number for number in range(600)]
    for number, value in enumerate(sent):
        if number == 200:
            assert producer.flush(PATIENCE_S) == 0
            cluster.kill(2)
        if number == 400:
            assert producer.flush(PATIENCE_S) == 0
            cluster.start(2)
        producer.produce("orders", value, partition=number % 6, on_delivery=delivered)
    assert producer.flush(PATIENCE_S) == 0
    assert sorted(acknowledged) == sorted(sent)
    consumer = Consumer({**cluster.options("admin"), "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    read: list[bytes] = []
    while len(read) < len(sent):
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        assert message.error() is None
        read.append(message.value() or b"")
    consumer.close()
    assert sorted(read) == sorted(sent)


def test_a_user_without_acls_may_do_nothing_through_any_node(cluster: Cluster) -> None:
    """Changes reach the active controller in an envelope that names the user (KIP-590)."""
    for node, port in cluster.ports.items():
        admin = AdminClient({**cluster.options("alice"), "bootstrap.servers": f"127.0.0.1:{port}"})
        (created,) = admin.create_topics([NewTopic(f"alices-{node}", 1, 1)]).values()
        with pytest.raises(KafkaException, match=r"TOPIC_AUTHORIZATION_FAILED|CLUSTER_AUTHORIZATION_FAILED"):
            created.result(PATIENCE_S)
