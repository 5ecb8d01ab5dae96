"""Other people's clients on SSL and SASL_SSL listeners: by certificate and by password, and who is kept out."""

from __future__ import annotations

import itertools
import os
import socket
import ssl
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trustme
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.client import TopicPartition as OwnTopicPartition
from barnabas.client.errors import AuthenticationError, SaslAuthenticationFailedError
from barnabas.client.sync import Consumer as OwnConsumer
from barnabas.client.sync import Producer as OwnProducer
from tools.ports import free_ports

with warnings.catch_warnings():
    # It loads its own files in a way that Python does not like any more.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaProducer

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

PATIENCE_S = 120
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PASSWORD = "alice-secret"
PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{plain},CONTROLLER://127.0.0.1:{controller},SSL://127.0.0.1:{tls},\
SASL_SSL://127.0.0.1:{sasl}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL
inter.broker.listener.name=PLAINTEXT
ssl.keystore.type=PEM
ssl.keystore.location={folder}/node.pem
ssl.truststore.type=PEM
ssl.truststore.location={folder}/ca.pem
ssl.principal.mapping.rules=RULE:^CN=([a-z]+),.*$/$1/,DEFAULT
listener.name.ssl.ssl.client.auth=required
ssl.allow.dn.changes=true
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
user_alice="alice-secret" user_bob="bob-secret";
listener.name.sasl_ssl.scram-sha-256.connections.max.reauth.ms=1000
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:alice
connection.failed.authentication.delay.ms=1
offsets.topic.replication.factor=1
log.dirs={folder}/data
"""


class TlsBroker(NamedTuple):
    tls_port: int
    sasl_port: int
    folder: Path
    authority: trustme.CA

    def by_certificate(self, user: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": f"127.0.0.1:{self.tls_port}",
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.folder / "ca.pem"),
            "ssl.certificate.location": str(self.folder / f"{user}.pem"),
            "ssl.key.location": str(self.folder / f"{user}.pem"),
        }

    def by_password(self, mechanism: str, user: str = "alice") -> dict[str, Any]:
        return {
            "bootstrap.servers": f"127.0.0.1:{self.sasl_port}",
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.folder / "ca.pem"),
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": f"{user}-secret",
        }


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    for name, leaf in (
        ("node", authority.issue_cert("127.0.0.1")),
        ("alice", authority.issue_cert("alice.example", common_name="alice")),
        ("bob", authority.issue_cert("bob.example", common_name="bob")),
        ("stranger", trustme.CA().issue_cert("alice.example", common_name="alice")),
    ):
        leaf.private_key_and_cert_chain_pem.write_to_path(folder / f"{name}.pem")
    plain, controller, tls, sasl = free_ports(4)
    properties = folder / "server.properties"
    text = PROPERTIES.format(plain=plain, controller=controller, tls=tls, sasl=sasl, folder=folder)
    properties.write_text(text, "utf-8")
    barnabas = [sys.executable, "-m", "barnabas"]
    environment = {**os.environ, "BARNABAS_STATE": str(folder / "state")}
    scram = [f"--add-scram={each}=[name=alice,password={PASSWORD}]" for each in MECHANISMS[1:]]
    cluster_id = ["-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", str(properties)]
    subprocess.run([*barnabas, "storage", "format", *cluster_id, *scram], check=True, env=environment)
    log = folder / "log.txt"
    with log.open("wb") as output:
        command = [*barnabas, "server-start", str(properties)]
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
    broker = TlsBroker(tls, sasl, folder, authority)
    AdminClient(broker.by_password("PLAIN")).list_topics(timeout=PATIENCE_S)
    yield broker
    process.terminate()
    assert process.wait(PATIENCE_S) == 0
    written = log.read_text("utf-8")
    assert " ERROR " not in written
    assert PASSWORD not in written
    assert "PRIVATE" not in written


def round_trip(options: dict[str, Any], topic: str) -> None:
    """Records up to a megabyte, written and read again by confluent-kafka."""
    records = [b"x" * size for size in (1, 100, 20_000, 900_000)]
    producer = Producer({**options, "message.max.bytes": 1_000_000, "enable.idempotence": True})
    for record in records:
        producer.produce(topic, record, partition=0)
    assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer({**options, "group.id": topic, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    read: list[bytes | None] = []
    while len(read) < len(records):
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        assert message.error() is None
        read.append(message.value())
    consumer.close()
    assert [len(each or b"") for each in read] == [len(each) for each in records]
    assert read == records


def test_a_certificate_is_a_login(broker: TlsBroker) -> None:
    round_trip(broker.by_certificate("alice"), "by-certificate")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_passwords_over_tls(broker: TlsBroker, mechanism: str) -> None:
    round_trip(broker.by_password(mechanism), f"by-{mechanism}")


@pytest.mark.parametrize("how", ["certificate", "password"])
def test_the_authorizer_sees_who_it_is(broker: TlsBroker, how: str) -> None:
    options = broker.by_certificate("bob") if how == "certificate" else broker.by_password("PLAIN", "bob")
    client = AdminClient(options)
    (created,) = client.create_topics([NewTopic(f"bobs-{how}", 1)]).values()
    with pytest.raises(KafkaException, match=r"TOPIC_AUTHORIZATION_FAILED|CLUSTER_AUTHORIZATION_FAILED"):
        created.result(PATIENCE_S)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_writes_a_record(broker: TlsBroker, mechanism: str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=f"127.0.0.1:{broker.sasl_port}",
        security_protocol="SASL_SSL",
        ssl_cafile=str(broker.folder / "ca.pem"),
        sasl_mechanism=mechanism,
        sasl_plain_username="alice",
        sasl_plain_password=PASSWORD,
        bootstrap_timeout_ms=1000 * PATIENCE_S,
    )
    try:
        assert producer.send("kafka-python", b"x").get(PATIENCE_S).topic == "kafka-python"
    finally:
        producer.close()


def handshake(broker: TlsBroker, user: str | None) -> None:
    """One TLS connection to the listener that requires certificates, and the end that the broker sets it."""
    context = ssl.create_default_context(cafile=str(broker.folder / "ca.pem"))
    if user is not None:
        context.load_cert_chain(broker.folder / f"{user}.pem")
    with (
        socket.create_connection(("127.0.0.1", broker.tls_port), PATIENCE_S) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as sock,
    ):
        sock.settimeout(PATIENCE_S)
        sock.sendall(bytes.fromhex("0000000a0012000000000001ffff"))
        assert sock.recv(4)


def test_only_certificates_of_the_authority_are_accepted(broker: TlsBroker) -> None:
    handshake(broker, "alice")
    for user in (None, "stranger"):
        with pytest.raises(ssl.SSLError, match=r"(?i)certificate.required|unknown.ca"):
            handshake(broker, user)


def test_plain_requests_to_a_tls_port_are_cut_off(broker: TlsBroker) -> None:
    for port in (broker.tls_port, broker.sasl_port):
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as sock:
            sock.sendall(bytes.fromhex("0000000a0012000000000001ffff"))
            assert sock.recv(1) == b""


# ----------------------------------------------------------------------------------- our own client and tools


def own_options(broker: TlsBroker, how: str) -> dict[str, Any]:
    """Options of our client, by Apache Kafka's names."""
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(broker.folder / "ca.pem")}
    if how == "SSL":
        return {
            "bootstrap.servers": f"127.0.0.1:{broker.tls_port}",
            "security.protocol": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(broker.folder / "alice.pem"),
            **trust,
        }
    module = "plain.PlainLoginModule" if how == "PLAIN" else "scram.ScramLoginModule"
    return {
        "bootstrap.servers": f"127.0.0.1:{broker.sasl_port}",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": how,
        "sasl.jaas.config": f'org.apache.kafka.common.security.{module} required username="alice" '
        f'password="{PASSWORD}";',
        **trust,
    }


@pytest.mark.parametrize("how", ["SSL", *MECHANISMS])
def test_our_client_writes_and_reads(broker: TlsBroker, how: str) -> None:
    options = own_options(broker, how)
    topic = f"ours-{how}"
    records = [b"x" * size for size in (1, 20_000, 900_000)]
    with OwnProducer(options) as producer:
        for record in records:
            producer.send(topic, record, partition=0)
        producer.flush()
    with OwnConsumer({**options, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([OwnTopicPartition(topic, 0)])
        read = [record.value for record in itertools.islice(consumer, len(records))]
    assert read == records


def test_clients_outlive_their_sessions(broker: TlsBroker) -> None:
    """KIP-368: librdkafka logs in again on the same connection, our client on another one."""
    failed: list[Any] = []
    theirs = Producer(broker.by_password("SCRAM-SHA-256"))
    with OwnProducer(own_options(broker, "SCRAM-SHA-256")) as ours:
        end = time.monotonic() + 3
        while time.monotonic() < end:
            theirs.produce(
                "sessions", b"theirs", on_delivery=lambda error, _: failed.append(error) if error else None
            )
            theirs.poll(0.1)
            assert ours.send("sessions", b"ours").result(PATIENCE_S).topic == "sessions"
    assert theirs.flush(PATIENCE_S) == 0
    assert failed == []


def test_our_client_refuses_a_server_that_it_does_not_trust(broker: TlsBroker) -> None:
    options = own_options(broker, "PLAIN")
    stranger = broker.folder / "stranger-ca.pem"
    trustme.CA().cert_pem.write_to_path(stranger)
    with (
        OwnProducer({**options, "ssl.truststore.location": str(stranger)}) as producer,
        pytest.raises(AuthenticationError, match="certificate verify failed"),
    ):
        producer.send("any", b"x").result(PATIENCE_S)


def test_our_client_says_that_a_password_is_wrong(broker: TlsBroker) -> None:
    options = own_options(broker, "SCRAM-SHA-512")
    wrong = {"sasl.jaas.config": options["sasl.jaas.config"].replace(PASSWORD, "wrong")}
    with (
        OwnProducer(options | wrong) as producer,
        pytest.raises(
            SaslAuthenticationFailedError, match="invalid credentials with SASL mechanism SCRAM-SHA-512"
        ),
    ):
        producer.send("any", b"x").result(PATIENCE_S)


@pytest.mark.parametrize("how", ["SSL", *MECHANISMS])
def test_tools_take_the_options_from_a_file(broker: TlsBroker, how: str) -> None:
    run_tool(broker, "topics", "--list", how=how)


def test_renewed_certificates_are_used_without_a_restart(broker: TlsBroker) -> None:
    """KIP-226: altering the location, even to the same one, loads the file again."""
    pem = broker.folder / "node.pem"
    before = certificate_of(broker)
    broker.authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(pem)
    alter = ["configs", "--alter", "--entity-type", "brokers", "--entity-name", "1", "--add-config"]
    run_tool(broker, *alter, f"listener.name.sasl_ssl.ssl.keystore.location={pem}")
    assert certificate_of(broker) != before
    before = certificate_of(broker)
    broker.authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(pem)
    run_tool(broker, *alter, f"listener.name.sasl_ssl.ssl.keystore.location={pem}")
    assert certificate_of(broker) != before
    before = certificate_of(broker)
    pem.write_text("nothing", "utf-8")
    failed = run_tool(broker, *alter, f"listener.name.sasl_ssl.ssl.keystore.location={pem}", code=1)
    assert "one private key, and has 0" in failed
    assert certificate_of(broker) == before


def certificate_of(broker: TlsBroker) -> bytes | None:
    context = ssl.create_default_context(cafile=str(broker.folder / "ca.pem"))
    with (
        socket.create_connection(("127.0.0.1", broker.sasl_port), PATIENCE_S) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as sock,
    ):
        return sock.getpeercert(binary_form=True)


def run_tool(broker: TlsBroker, name: str, *arguments: str, code: int = 0, how: str = "PLAIN") -> str:
    options = own_options(broker, how)
    servers = options.pop("bootstrap.servers")
    file = broker.folder / "tool.properties"
    file.write_text("".join(f"{option}={value}\n" for option, value in options.items()), "utf-8")
    connection = ["--bootstrap-server", servers, "--command-config", str(file)]
    command = [sys.executable, "-m", "barnabas", name, *connection, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr
