"""Logins of other people's clients on a SASL_PLAINTEXT listener: PLAIN and SCRAM, right and wrong passwords.

A raw connection shows what no client does: requests before the login, and tokens without headers (KIP-152).
"""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from barnabas.base.errors import ErrorCode
from barnabas.client.errors import DelegationTokenRequestNotAllowedError, SaslAuthenticationFailedError
from barnabas.client.sync import Admin
from barnabas.protocol.frame import write_request
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tools.ports import free_ports
from tools.raw_broker import RawConnection

with warnings.catch_warnings():
    # It loads its own files in a way that Python does not like any more.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaProducer

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

PATIENCE_S = 120
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
USER, PASSWORD = "alice", "alice-secret"
METADATA_VERSION = 12
PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{plain},CONTROLLER://127.0.0.1:{controller},CLIENTS://127.0.0.1:{sasl}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENTS:SASL_PLAINTEXT
inter.broker.listener.name=PLAINTEXT
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.clients.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
user_alice="alice-secret";
connection.failed.authentication.delay.ms=1
delegation.token.secret.key=signs-tokens
offsets.topic.replication.factor=1
log.dirs={folder}/data
"""


class SaslBroker(NamedTuple):
    port: int
    log: Path

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    folder = tmp_path_factory.mktemp("sasl")
    plain, controller, sasl = free_ports(3)
    properties = folder / "server.properties"
    text = PROPERTIES.format(plain=plain, controller=controller, sasl=sasl, folder=folder)
    properties.write_text(text, "utf-8")
    barnabas = [sys.executable, "-m", "barnabas"]
    environment = {**os.environ, "BARNABAS_STATE": str(folder / "state")}
    scram = [
        f"--add-scram={mechanism}=[name={USER},password={PASSWORD}]"
        for mechanism in MECHANISMS
        if mechanism.startswith("SCRAM")
    ]
    cluster_id = ["-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", str(properties)]
    subprocess.run([*barnabas, "storage", "format", *cluster_id, *scram], check=True, env=environment)
    log = folder / "log.txt"
    with log.open("wb") as output:
        command = [*barnabas, "server-start", str(properties)]
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
    broker = SaslBroker(sasl, log)
    # It serves clients: kafka-python leaves the sockets of refused connections open.
    AdminClient(_options(broker, "PLAIN", PASSWORD)).list_topics(timeout=PATIENCE_S)
    yield broker
    process.terminate()
    assert process.wait(PATIENCE_S) == 0
    written = log.read_text("utf-8")
    assert " ERROR " not in written
    assert PASSWORD not in written
    assert "signs-tokens" not in written


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent_kafka_logs_in(broker: SaslBroker, mechanism: str) -> None:
    cluster = AdminClient(_options(broker, mechanism, PASSWORD)).list_topics(timeout=PATIENCE_S)
    assert list(cluster.brokers) == [1]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_writes_a_record(broker: SaslBroker, mechanism: str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=broker.bootstrap,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_plain_username=USER,
        sasl_plain_password=PASSWORD,
        bootstrap_timeout_ms=1000 * PATIENCE_S,
    )
    try:
        written = producer.send("logins", mechanism.encode()).get(PATIENCE_S)
    finally:
        producer.close()
    assert written.topic == "logins"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_refused(broker: SaslBroker, mechanism: str) -> None:
    errors: list[KafkaError] = []
    client = AdminClient(_options(broker, mechanism, "wrong") | {"error_cb": errors.append})
    deadline = time.monotonic() + PATIENCE_S
    while KafkaError._AUTHENTICATION not in {error.code() for error in errors}:
        assert time.monotonic() < deadline, errors
        client.poll(0.1)
    with pytest.raises(KafkaException):
        client.list_topics(timeout=0.1)


@pytest.mark.parametrize("mechanism", MECHANISMS[1:])
def test_a_delegation_token_logs_in_as_its_owner(broker: SaslBroker, mechanism: str) -> None:
    """KIP-48: until it ends, and never for another token."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    options = {"bootstrap.servers": broker.bootstrap, "security.protocol": "SASL_PLAINTEXT"}

    def by(user: str, password: str, more: str = "") -> dict[str, str]:
        jaas = f'{module} username="{user}" password="{password}"{more};'
        return {**options, "sasl.mechanism": mechanism, "sasl.jaas.config": jaas}

    with Admin(by(USER, PASSWORD)) as owner:
        token = owner.create_delegation_token(max_lifetime_ms=60_000)
        secret = base64.b64encode(token.hmac).decode()
        with Admin(by(token.token_id, secret, " tokenauth=true")) as holder:
            assert holder.describe_cluster().controller is not None
            with pytest.raises(DelegationTokenRequestNotAllowedError):
                holder.create_delegation_token()
            with pytest.raises(DelegationTokenRequestNotAllowedError):
                holder.describe_delegation_token()
        assert str(token.owner) == f"User:{USER}"
        assert token.token_id in {each.token_id for each in owner.describe_delegation_token()}
        # A token is no user.
        with pytest.raises(SaslAuthenticationFailedError), Admin(by(token.token_id, secret)) as stranger:
            stranger.describe_cluster()
        owner.expire_delegation_token(token.hmac)
        with (
            pytest.raises(SaslAuthenticationFailedError),
            Admin(by(token.token_id, secret, " tokenauth=true")) as late,
        ):
            late.describe_cluster()


def test_a_request_before_the_login_closes_the_connection(raw: RawConnection) -> None:
    raw.send(write_request(MetadataRequest(topics=None), METADATA_VERSION, 1, "raw"))
    assert raw.frame() is None


def test_an_unknown_mechanism_is_answered_with_the_known_ones(raw: RawConnection) -> None:
    response = raw.ask(SaslHandshakeRequest(mechanism="GSSAPI"), 1, SaslHandshakeResponse)
    assert response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert tuple(response.mechanisms) == MECHANISMS
    assert raw.frame() is None


def test_tokens_without_headers_follow_the_first_handshake(raw: RawConnection) -> None:
    assert raw.ask(SaslHandshakeRequest(mechanism="PLAIN"), 0, SaslHandshakeResponse).error_code == 0
    token = f"\0{USER}\0{PASSWORD}".encode()
    raw.send(len(token).to_bytes(4, "big") + token)
    assert raw.frame() == b""
    assert raw.ask(MetadataRequest(topics=[]), METADATA_VERSION, MetadataResponse).controller_id == 1


def test_a_wrong_password_without_headers_closes_the_connection(raw: RawConnection) -> None:
    assert raw.ask(SaslHandshakeRequest(mechanism="PLAIN"), 0, SaslHandshakeResponse).error_code == 0
    token = f"\0{USER}\0wrong".encode()
    raw.send(len(token).to_bytes(4, "big") + token)
    assert raw.frame() is None


def test_another_request_between_the_tokens_closes_the_connection(raw: RawConnection) -> None:
    assert raw.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1, SaslHandshakeResponse).error_code == 0
    first = SaslAuthenticateRequest(auth_bytes=f"n,,n={USER},r=abc".encode())
    assert raw.ask(first, 2, SaslAuthenticateResponse).error_code == 0
    raw.send(write_request(MetadataRequest(topics=None), METADATA_VERSION, 3, "raw"))
    assert raw.frame() is None


@pytest.fixture
def raw(broker: SaslBroker) -> Iterator[RawConnection]:
    with RawConnection(("127.0.0.1", broker.port)) as connection:
        yield connection


def _options(broker: SaslBroker, mechanism: str, password: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": USER,
        "sasl.password": password,
    }
