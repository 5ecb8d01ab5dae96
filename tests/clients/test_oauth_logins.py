"""Logins by OAuth tokens on our broker, of other people's clients and of ours, with an issuer on this machine."""

from __future__ import annotations

import asyncio
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

from barnabas.client.errors import SaslAuthenticationFailedError
from barnabas.client.sync import Producer
from tests.issuer import CLIENT, SECRET, Issuer, now_s, serving, unsigned, usual_claims
from tools.ports import free_ports

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaProducer
    from kafka.net.sasl.oauth import AbstractTokenProvider

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

PATIENCE_S = 120
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
PACKAGE = "org.apache.kafka.common.security.oauthbearer"
PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{plain},CONTROLLER://127.0.0.1:{controller},CLIENTS://127.0.0.1:{sasl}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT,CLIENTS:SASL_PLAINTEXT
inter.broker.listener.name=PLAINTEXT
sasl.enabled.mechanisms=OAUTHBEARER
sasl.mechanism.controller.protocol=OAUTHBEARER
listener.name.controller.oauthbearer.sasl.jaas.config={module} required clientId="service" \
clientSecret="service-secret";
listener.name.clients.oauthbearer.sasl.jaas.config={module} required;
listener.name.clients.oauthbearer.sasl.server.callback.handler.class={package}.OAuthBearerValidatorCallbackHandler
sasl.oauthbearer.jwks.endpoint.url={issuer}/keys
sasl.oauthbearer.token.endpoint.url={issuer}/token
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms=1
sasl.oauthbearer.expected.audience=kafka
sasl.oauthbearer.expected.issuer=https://issuer.example
org.apache.kafka.sasl.oauthbearer.allowed.urls={issuer}/keys,{issuer}/token
connection.failed.authentication.delay.ms=1
offsets.topic.replication.factor=1
log.dirs={folder}/data
"""


class OAuthBroker(NamedTuple):
    port: int
    issuer: Issuer
    url: str

    @property
    def options(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": f"127.0.0.1:{self.port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
        }


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OAuthBroker]:
    folder, issuer = tmp_path_factory.mktemp("oauth"), Issuer()
    plain, controller, sasl = free_ports(3)
    properties, log = folder / "server.properties", folder / "log.txt"
    barnabas = [sys.executable, "-m", "barnabas"]
    environment = {**os.environ, "BARNABAS_STATE": str(folder / "state")}
    with serving(issuer) as url:
        text = PROPERTIES.format(
            plain=plain,
            controller=controller,
            sasl=sasl,
            folder=folder,
            issuer=url,
            module=MODULE,
            package=PACKAGE,
        )
        properties.write_text(text, "utf-8")
        cluster_id = ["-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", str(properties)]
        subprocess.run([*barnabas, "storage", "format", *cluster_id], check=True, env=environment)
        with log.open("wb") as output:
            command = [*barnabas, "server-start", str(properties)]
            process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
        AdminClient({"bootstrap.servers": f"127.0.0.1:{plain}"}).list_topics(timeout=PATIENCE_S)
        yield OAuthBroker(sasl, issuer, url)
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
    written = log.read_text("utf-8")
    assert " ERROR " not in written
    assert "Bearer" not in written
    assert SECRET not in written


def list_topics(broker: OAuthBroker, token: str) -> set[int]:
    """With confluent-kafka; the codes of its errors."""
    errors: list[KafkaError] = []

    def give(_: str) -> tuple[str, float]:
        return token, usual_claims("x")["exp"]

    client = AdminClient(broker.options | {"oauth_cb": give, "error_cb": errors.append})
    # It asks for the token in poll.
    client.poll(0)
    deadline = time.monotonic() + PATIENCE_S
    while KafkaError._AUTHENTICATION not in {error.code() for error in errors}:
        assert time.monotonic() < deadline, errors
        try:
            client.list_topics(timeout=1)
            break
        except KafkaException:
            client.poll(0)
    return {error.code() for error in errors}


def test_confluent_kafka_logs_in(broker: OAuthBroker) -> None:
    assert list_topics(broker, broker.issuer.token("alice")) == set()
    assert list_topics(broker, broker.issuer.curve_token("alice")) == set()


def test_a_token_without_a_signature_is_refused(broker: OAuthBroker) -> None:
    assert KafkaError._AUTHENTICATION in list_topics(broker, unsigned("alice"))


def test_kafka_python_writes_a_record(broker: OAuthBroker) -> None:
    class Tokens(AbstractTokenProvider):
        def token(self) -> str:
            return broker.issuer.token("alice")

    producer = KafkaProducer(
        bootstrap_servers=f"127.0.0.1:{broker.port}",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Tokens(),
        bootstrap_timeout_ms=1000 * PATIENCE_S,
    )
    try:
        assert producer.send("logins", b"x").get(PATIENCE_S).topic == "logins"
    finally:
        producer.close()


@pytest.mark.parametrize("way", ["credentials", "file", "function", "coroutine function"])
def test_our_client_gets_its_token(broker: OAuthBroker, way: str, tmp_path: Path) -> None:
    async def give() -> str:
        await asyncio.sleep(0)
        return broker.issuer.token("alice")

    path = tmp_path / "token"
    path.write_text(broker.issuer.token("alice") + "\n", "utf-8")
    url, handler = "sasl.oauthbearer.token.endpoint.url", "sasl.login.callback.handler.class"
    ways: dict[str, dict[str, Any]] = {
        "credentials": {
            url: f"{broker.url}/token",
            handler: f"{PACKAGE}.OAuthBearerLoginCallbackHandler",
            "sasl.jaas.config": f'{MODULE} required clientId="{CLIENT}" clientSecret="{SECRET}" scope="a b";',
        },
        "file": {url: path.as_uri()},
        "function": {handler: lambda: broker.issuer.token("alice")},
        "coroutine function": {handler: give},
    }
    with Producer(broker.options | ways[way]) as producer:
        assert producer.send("logins", way.encode()).result().topic == "logins"
    if way == "credentials":
        assert broker.issuer.asked[-1]["scope"] == ["a b"]


@pytest.mark.parametrize("name", ["unsigned", "foreign", "expired"])
def test_our_client_is_told_that_its_token_is_refused(broker: OAuthBroker, name: str) -> None:
    now = now_s()
    token = {
        "unsigned": unsigned("alice"),
        "foreign": Issuer().token("alice"),
        "expired": broker.issuer.token("alice", iat=now - 100, exp=now - 50),
    }[name]
    options = broker.options | {"sasl.login.callback.handler.class": lambda: token}
    with Producer(options) as producer, pytest.raises(SaslAuthenticationFailedError) as caught:
        producer.send("logins", b"x").result()
    assert ("expired" if name == "expired" else "invalid_token") in str(caught.value)
    assert token not in str(caught.value)


def test_new_keys_of_the_issuer_are_found(broker: OAuthBroker) -> None:
    """A token that names an unknown key makes the broker look for it."""
    following = Issuer()
    broker.issuer.rsa, broker.issuer.prefix = following.rsa, "next"
    options = broker.options | {"sasl.login.callback.handler.class": lambda: broker.issuer.token("alice")}
    for _ in range(100):
        with Producer(options) as producer:
            try:
                producer.send("logins", b"x").result()
                return
            except SaslAuthenticationFailedError:
                continue
    raise AssertionError("the new keys were not read")
