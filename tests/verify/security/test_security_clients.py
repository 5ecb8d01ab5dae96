"""Other people's clients log in by each mechanism that they have, over TLS and without, and by a certificate.

Each writes a record and reads it again as alice, whom alone an ACL lets do so.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trustme
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer

from barnabas.client.admin import NewTopic
from barnabas.client.sync import Admin
from tests.verify.conftest import PROJECT
from tests.verify.quorum.mixed_cluster import wait_for
from tests.verify.security.secured_cluster import PLAIN_MODULE, SCRAM_MODULE
from tools.ports import free_ports

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

PROGRAMS = Path(__file__).parent / "programs"
CACHE = Path(os.environ.get("SUITE_CACHE", Path.home() / ".cache" / "barnabas-suites"))
SUITES = Path(os.environ.get("BARNABAS_SUITES", PROJECT.parent / "shared" / "suites"))
PATIENCE_S = 120
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
# Protocol and mechanism; with SSL alone it is the certificate.
LOGINS = [("SSL", "certificate")] + [
    (protocol, mechanism) for protocol in ("SASL_PLAINTEXT", "SASL_SSL") for mechanism in MECHANISMS
]
PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@localhost:{CONTROLLER}
controller.listener.names=CONTROLLER
listeners=CONTROLLER://localhost:{CONTROLLER},PLAINTEXT://localhost:{PLAINTEXT},SSL://localhost:{SSL},SASL_SSL://localhost:{SASL_SSL},SASL_PLAINTEXT://localhost:{SASL_PLAINTEXT}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
inter.broker.listener.name=PLAINTEXT
ssl.keystore.type=PEM
ssl.keystore.location={folder}/node.pem
ssl.truststore.type=PEM
ssl.truststore.location={folder}/ca.pem
listener.name.ssl.ssl.client.auth=required
ssl.principal.mapping.rules=RULE:^.*CN=([^,]+).*$/$1/
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.sasl_ssl.plain.sasl.jaas.config={plain} required user_alice="alice-secret";
listener.name.sasl_plaintext.plain.sasl.jaas.config={plain} required user_alice="alice-secret";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
offsets.topic.replication.factor=1
group.initial.rebalance.delay.ms=0
log.dirs={folder}/data
"""


class Node(NamedTuple):
    ports: dict[str, int]
    folder: Path

    def bootstrap(self, protocol: str) -> str:
        return f"localhost:{self.ports[protocol]}"

    def context(self, protocol: str) -> ssl.SSLContext | None:
        if not protocol.endswith("SSL"):
            return None
        context = ssl.create_default_context(cafile=str(self.folder / "ca.pem"))
        if protocol == "SSL":
            context.load_cert_chain(self.folder / "alice.crt", self.folder / "alice.key")
        return context


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    folder = tmp_path_factory.mktemp("clients")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(folder / "node.pem")
    alice = authority.issue_cert("alice.example", common_name="alice")
    alice.private_key_pem.write_to_path(folder / "alice.key")
    alice.private_key_and_cert_chain_pem.write_to_path(folder / "alice.pem")
    (folder / "alice.crt").write_bytes(b"".join(each.bytes() for each in alice.cert_chain_pems))
    names = ("CONTROLLER", "PLAINTEXT", "SSL", "SASL_SSL", "SASL_PLAINTEXT")
    one = Node(dict(zip(names, free_ports(len(names)), strict=True)), folder)
    properties = folder / "server.properties"
    text = PROPERTIES.format(folder=folder, plain=PLAIN_MODULE, **one.ports)
    properties.write_text(text, "utf-8")
    environment = {**os.environ, "BARNABAS_STATE": str(folder / "state")}
    barnabas = [sys.executable, "-m", "barnabas"]
    scram = [
        word
        for name in MECHANISMS[1:]
        for word in ("--add-scram", f"{name}=[name=alice,password=alice-secret]")
    ]
    subprocess.run(
        [*barnabas, "storage", "format", "-t", CLUSTER_ID, "-c", str(properties), *scram],
        check=True,
        env=environment,
    )
    with (folder / "log.txt").open("wb") as output:
        process = subprocess.Popen(
            [*barnabas, "server-start", str(properties)], stdout=output, stderr=output, env=environment
        )
    try:
        wait_for("the node", lambda: " serves " in (folder / "log.txt").read_text("utf-8"))
        subprocess.run(
            [
                *barnabas,
                "acls",
                "--bootstrap-server",
                one.bootstrap("PLAINTEXT"),
                "--add",
                "--allow-principal",
                "User:alice",
                "--operation",
                "All",
                "--topic",
                "*",
                "--group",
                "*",
            ],
            check=True,
            env=environment,
        )
        yield one
    finally:
        process.terminate()
        assert process.wait(PATIENCE_S) == 0


@pytest.fixture
def topic(node: Node, request: pytest.FixtureRequest) -> str:
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    with Admin({"bootstrap.servers": node.bootstrap("PLAINTEXT")}) as admin:
        admin.create_topics([NewTopic(name, 1, 1)])
    return name


logins = pytest.mark.parametrize(("protocol", "mechanism"), LOGINS)


@logins
def test_confluent_kafka(node: Node, topic: str, protocol: str, mechanism: str) -> None:
    options: dict[str, Any] = {
        "bootstrap.servers": node.bootstrap(protocol),
        "security.protocol": protocol,
        "ssl.ca.location": str(node.folder / "ca.pem"),
    }
    if protocol == "SSL":
        options["ssl.certificate.location"] = str(node.folder / "alice.crt")
        options["ssl.key.location"] = str(node.folder / "alice.key")
    else:
        options |= {"sasl.mechanism": mechanism, "sasl.username": "alice", "sasl.password": "alice-secret"}
    producer = Producer(options)
    producer.produce(topic, b"x")
    assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer({**options, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    message = wait_for("a record", lambda: consumer.poll(1))
    consumer.close()
    assert (message.error(), message.value()) == (None, b"x")


def python_options(node: Node, protocol: str, mechanism: str) -> dict[str, Any]:
    options: dict[str, Any] = {
        "bootstrap_servers": node.bootstrap(protocol),
        "security_protocol": protocol,
        "ssl_context": node.context(protocol),
    }
    if protocol != "SSL":
        options |= {
            "sasl_mechanism": mechanism,
            "sasl_plain_username": "alice",
            "sasl_plain_password": "alice-secret",
        }
    return options


@logins
def test_kafka_python(node: Node, topic: str, protocol: str, mechanism: str) -> None:
    options = python_options(node, protocol, mechanism)
    producer = KafkaProducer(**options)
    producer.send(topic, b"x").get(PATIENCE_S)
    producer.close()
    consumer = KafkaConsumer(topic, group_id=topic, auto_offset_reset="earliest", **options)
    assert next(consumer).value == b"x"
    consumer.close()


@logins
def test_aiokafka(node: Node, topic: str, protocol: str, mechanism: str) -> None:
    async def write_and_read() -> bytes | None:
        options = python_options(node, protocol, mechanism)
        async with AIOKafkaProducer(**options) as producer:
            await producer.send_and_wait(topic, b"x")
        async with AIOKafkaConsumer(
            topic, group_id=topic, auto_offset_reset="earliest", **options
        ) as consumer:
            value: bytes | None = (await consumer.getone()).value
            return value

    assert asyncio.run(asyncio.wait_for(write_and_read(), PATIENCE_S)) == b"x"


@pytest.fixture(scope="module")
def kafkajs() -> dict[str, str]:
    subprocess.run([str(SUITES / "kafkajs"), "--fetch"], check=True, capture_output=True)
    modules = str(CACHE / "kafkajs" / "node_modules")
    return {**os.environ, "NODE_PATH": modules, "KAFKAJS_NO_PARTITIONER_WARNING": "1"}


@logins
def test_kafkajs(node: Node, topic: str, kafkajs: dict[str, str], protocol: str, mechanism: str) -> None:
    command = ["node", str(PROGRAMS / "kafkajs_login.js")]
    assert run_program(command, node, topic, protocol, mechanism, kafkajs) == "from kafkajs"


@pytest.fixture(scope="module")
def franz_go(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, built with the module that the suite has fetched."""
    subprocess.run([str(SUITES / "franz-go"), "--fetch"], check=True, capture_output=True)
    folder = tmp_path_factory.mktemp("franz-go")
    for name in ("go.mod", "go.sum"):
        (folder / name).write_bytes((CACHE / "go" / "franz-go" / name).read_bytes())
    (folder / "main.go").write_bytes((PROGRAMS / "franz_login.go").read_bytes())
    environment = {
        **os.environ,
        "GOPATH": str(CACHE / "go" / "path"),
        "GOCACHE": str(CACHE / "go" / "build"),
        "GOFLAGS": "-mod=mod -modcacherw",
    }
    done = subprocess.run(
        ["go", "build", "-o", "login", "."],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "login"


@logins
def test_franz_go(node: Node, topic: str, franz_go: Path, protocol: str, mechanism: str) -> None:
    assert run_program([str(franz_go)], node, topic, protocol, mechanism, dict(os.environ)) == "from franz-go"


def run_program(
    command: list[str], node: Node, topic: str, protocol: str, mechanism: str, environment: dict[str, str]
) -> str:
    done = subprocess.run(
        [*command, node.bootstrap(protocol), protocol, mechanism, str(node.folder), topic],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@logins
def test_apache_kafkas_client(
    oracle: Callable[..., Any], node: Node, topic: str, protocol: str, mechanism: str
) -> None:
    lines = [f"security.protocol={protocol}"]
    if protocol.endswith("SSL"):
        lines += ["ssl.truststore.type=PEM", f"ssl.truststore.location={node.folder / 'ca.pem'}"]
    if protocol == "SSL":
        lines += ["ssl.keystore.type=PEM", f"ssl.keystore.location={pkcs8(node.folder)}"]
    else:
        module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
        lines += [
            f"sasl.mechanism={mechanism}",
            f'sasl.jaas.config={module} required username="alice" password="alice-secret";',
        ]
    options = node.folder / f"{topic}.properties"
    options.write_text("\n".join(lines) + "\n", "utf-8")
    where = ("--bootstrap-server", node.bootstrap(protocol), "--topic", topic)
    done = oracle(
        "4.1.0", "tool", "console-producer", *where, "--producer.config", str(options), stdin="from Java\n"
    )
    assert done.returncode == 0, done.stderr
    limits = (
        "--from-beginning",
        "--max-messages",
        "1",
        "--timeout-ms",
        str(1000 * PATIENCE_S),
        "--group",
        topic,
    )
    done = oracle("4.1.0", "tool", "console-consumer", *where, *limits, "--consumer.config", str(options))
    assert done.stdout.splitlines()[0] == "from Java", done.stderr


def pkcs8(folder: Path) -> Path:
    """The key of alice as Java wants it."""
    path = folder / "alice-pkcs8.pem"
    done = subprocess.run(
        ["openssl", "pkcs8", "-topk8", "-nocrypt", "-in", str(folder / "alice.key")],
        capture_output=True,
        check=True,
    )
    path.write_bytes(done.stdout + (folder / "alice.crt").read_bytes())
    return path
