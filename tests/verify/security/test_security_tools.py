"""Apache Kafka's console tools on our SSL and SASL_SSL listeners, and our client on those of Apache Kafka.

Every mechanism, every type of store, right and wrong credentials: the same steps against both kinds of broker.
"""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from barnabas.client import TopicPartition
from barnabas.client.sync import Consumer, Producer
from tests.verify.quorum.mixed_cluster import APACHE, OURS, MixedCluster, wait_for
from tests.verify.security.secured_cluster import (
    PLAIN_MODULE,
    SCRAM_MODULE,
    STORE_PASSWORD,
    password_of,
    write_key,
)
from tools.ports import free_oracle_base, free_ports

VERSION = "4.1.0"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
WAYS = ("SSL-PEM", "SSL-PKCS12", "SSL-JKS", *MECHANISMS)
RECORDS = [f"record {number}" for number in range(20)]


class OneBroker:
    """One broker with an open listener for its controller and three for clients."""

    def __init__(self, oracle: Callable[..., Any], home: Path, kind: str) -> None:
        self.kind = kind
        self.home = home
        home.mkdir(parents=True)
        self._write_stores()
        self.tls_port, self.sasl_port = free_ports(2)
        self.cluster = MixedCluster(oracle, VERSION, home, free_oracle_base(), False, {})
        controller = self.cluster.add(101, kind)
        port = self.cluster.port + 1
        broker = self.cluster.add(1, kind, **self._options(port))
        for member in (controller, broker):
            self.cluster.configure(member, [controller])
            self.cluster.format(member, [controller])
        self.cluster.start(101, 1)
        for mechanism in MECHANISMS[1:]:
            wait_for(f"alice has {mechanism}", lambda mechanism=mechanism: self._add_user(port, mechanism))  # type: ignore[misc]

    def _add_user(self, port: int, mechanism: str) -> bool:
        change = f"{mechanism}=[password={password_of('alice')}]"
        server = ["--bootstrap-server", f"localhost:{port}"]
        entity = ["--alter", "--add-config", change, "--entity-type", "users", "--entity-name", "alice"]
        return self.cluster.try_tool(self.kind, "configs", *server, *entity)[0] == 0

    def _write_stores(self) -> None:
        authority = trustme.CA()
        authority.cert_pem.write_to_path(self.home / "ca.pem")
        write_key(self.home, "node", authority.issue_cert("localhost", common_name="node"))
        write_key(self.home, "alice", authority.issue_cert("alice", common_name="alice"))
        secret = ["-storepass", STORE_PASSWORD, "-noprompt"]
        for kind in ("jks", "p12t"):
            trust = ["-importcert", "-alias", "ca", "-file", str(self.home / "ca.pem")]
            store = [
                "-keystore",
                str(self.home / f"trust.{kind}"),
                "-storetype",
                "JKS" if kind == "jks" else "PKCS12",
            ]
            subprocess.run(["keytool", *trust, *store, *secret], check=True, capture_output=True)
        for name in ("node", "alice"):
            source = ["-srckeystore", str(self.home / f"{name}.p12"), "-srcstorepass", STORE_PASSWORD]
            target = ["-destkeystore", str(self.home / f"{name}.jks"), "-deststoretype", "JKS"]
            password = ["-deststorepass", STORE_PASSWORD, "-noprompt"]
            subprocess.run(
                ["keytool", "-importkeystore", *source, *target, *password], check=True, capture_output=True
            )

    def _options(self, port: int) -> dict[str, str]:
        """JKS, as an administrator of Apache Kafka has it."""
        listeners = (
            f"PLAINTEXT://localhost:{port},TLS://localhost:{self.tls_port},SAFE://localhost:{self.sasl_port}"
        )
        return {
            "listeners": listeners,
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,TLS:SSL,SAFE:SASL_SSL",
            "ssl.keystore.location": str(self.home / "node.jks"),
            "ssl.keystore.password": STORE_PASSWORD,
            "ssl.key.password": STORE_PASSWORD,
            "ssl.truststore.location": str(self.home / "trust.jks"),
            "ssl.truststore.password": STORE_PASSWORD,
            "listener.name.tls.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "listener.name.safe.plain.sasl.jaas.config": (
                f'{PLAIN_MODULE} required user_alice="{password_of("alice")}";'
            ),
            "listener.name.safe.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
            "listener.name.safe.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
            "connection.failed.authentication.delay.ms": "10",
        }

    def client(self, way: str, password: str = password_of("alice")) -> dict[str, str]:
        """The options of a client, by Apache Kafka's names."""
        if way in MECHANISMS:
            module = PLAIN_MODULE if way == "PLAIN" else SCRAM_MODULE
            return {
                "bootstrap.servers": f"localhost:{self.sasl_port}",
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": way,
                "sasl.jaas.config": f'{module} required username="alice" password="{password}";',
                "ssl.truststore.location": str(self.home / "trust.p12t"),
                "ssl.truststore.type": "PKCS12",
                "ssl.truststore.password": STORE_PASSWORD,
            }
        kind = way.removeprefix("SSL-")
        options = {"bootstrap.servers": f"localhost:{self.tls_port}", "security.protocol": "SSL"}
        if kind == "PEM":
            return options | {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self.home / "alice.pem"),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.home / "ca.pem"),
            }
        key, trust = ("alice.jks", "trust.jks") if kind == "JKS" else ("alice.p12", "trust.p12t")
        return options | {
            "ssl.keystore.type": kind,
            "ssl.keystore.location": str(self.home / key),
            "ssl.keystore.password": STORE_PASSWORD,
            "ssl.key.password": STORE_PASSWORD,
            "ssl.truststore.type": kind,
            "ssl.truststore.location": str(self.home / trust),
            "ssl.truststore.password": STORE_PASSWORD,
        }

    def file(self, options: dict[str, str]) -> str:
        path = self.home / "client.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in options.items()), "utf-8")
        return str(path)


@pytest.fixture(scope="module", params=[OURS, APACHE])
def broker(
    oracle: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[OneBroker]:
    one = OneBroker(oracle, tmp_path_factory.mktemp("one") / "cluster", request.param)
    try:
        yield one
        assert one.cluster.faults() == []
    finally:
        one.cluster.down()


@pytest.mark.parametrize("way", WAYS)
def test_console_tools_and_our_client_read_each_others_records(
    broker: OneBroker, oracle: Callable[..., Any], way: str
) -> None:
    options = broker.client(way)
    file, servers, topic = broker.file(options), options["bootstrap.servers"], f"both-{way}"
    tools = ["--bootstrap-server", servers]
    produce = ["--topic", topic, *tools, "--producer.config", file]
    done = oracle(VERSION, "tool", "console-producer", *produce, stdin="\n".join(RECORDS) + "\n")
    assert done.returncode == 0, done.stderr
    with Producer(options) as producer:
        for record in RECORDS:
            producer.send(topic, record.encode())
    consume = ["--topic", topic, *tools, "--consumer.config", file, "--from-beginning"]
    done = oracle(VERSION, "tool", "console-consumer", *consume, "--max-messages", str(2 * len(RECORDS)))
    assert sorted(done.stdout.splitlines()) == sorted(2 * RECORDS), done.stderr
    with Consumer({**options, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        read = [record.value for record in itertools.islice(consumer, 2 * len(RECORDS))]
    assert sorted(map(bytes.decode, read)) == sorted(2 * RECORDS)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_wrong_passwords_get_the_same_answer(
    broker: OneBroker, oracle: Callable[..., Any], mechanism: str
) -> None:
    options = broker.client(mechanism, "wrong")
    connection = [
        "--bootstrap-server",
        options["bootstrap.servers"],
        "--command-config",
        broker.file(options),
    ]
    why = {"PLAIN": "Authentication failed: Invalid username or password"}.get(
        mechanism,
        "Authentication failed during authentication due to invalid credentials with SASL mechanism "
        + mechanism,
    )
    for kind in (APACHE, OURS):
        code, text = broker.cluster.try_tool(kind, "topics", *connection, "--list")
        assert code != 0
        assert why in text
