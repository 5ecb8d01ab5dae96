"""OAUTHBEARER in one cluster of both kinds of node: every listener takes tokens of one issuer, and nodes have them too.

Apache Kafka's tools, confluent-kafka, kafka-python, aiokafka and our client log in on a broker of either kind.
"""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from confluent_kafka.admin import AdminClient

from barnabas.client.admin import NewTopic
from barnabas.client.errors import SaslAuthenticationFailedError
from barnabas.client.sync import Admin, Producer
from tests.issuer import CLIENT, SECRET, Issuer, now_s, serving, unsigned
from tests.verify.quorum.mixed_cluster import APACHE, OURS, MixedCluster, wait_for
from tools.ports import free_oracle_base

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaProducer
    from kafka.net.sasl.oauth import AbstractTokenProvider

VERSION = "4.1.0"
PACKAGE = "org.apache.kafka.common.security.oauthbearer"
MODULE = f"{PACKAGE}.OAuthBearerLoginModule"
NODES = {101: APACHE, 1: APACHE, 2: OURS}
KINDS = {APACHE: 1, OURS: 2}
RECORDS = [f"record {number}" for number in range(5)]


class Mixed:
    """The cluster, its issuer, and the options of its clients."""

    def __init__(self, oracle: Callable[..., Any], home: Path, issuer: Issuer, url: str) -> None:
        home.mkdir(parents=True)
        self.home, self.issuer, self.url = home, issuer, url
        settings = {"default.replication.factor": "2", "min.insync.replicas": "2"}
        self.cluster = MixedCluster(oracle, VERSION, home, free_oracle_base(), False, settings)
        for number, kind in NODES.items():
            self.cluster.add(number, kind, **self._options(number, self.cluster.port + number))
        for number in NODES:
            member = self.cluster.members[number]
            self.cluster.configure(member, self.cluster.controllers())
            self.cluster.format(member, self.cluster.controllers())
        self.cluster.start(*NODES)
        wait_for("both brokers are there", self._has_topic)

    def _options(self, number: int, port: int) -> dict[str, str]:
        login = f'{MODULE} required clientId="{CLIENT}" clientSecret="{SECRET}";'
        options = {
            "listeners": f"{'CONTROLLER' if number > 100 else 'SAFE'}://localhost:{port}",
            "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,SAFE:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
            "sasl.mechanism.controller.protocol": "OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": f"{self.url}/keys",
            "sasl.oauthbearer.token.endpoint.url": f"{self.url}/token",
            "sasl.oauthbearer.expected.audience": "kafka",
            "sasl.oauthbearer.expected.issuer": "https://issuer.example",
            # The default of 4.1.0 checks neither signature nor issuer nor audience; ours always checks all.
            "sasl.oauthbearer.jwt.validator.class": f"{PACKAGE}.BrokerJwtValidator",
            "connection.failed.authentication.delay.ms": "10",
        }
        if number <= 100:
            options["inter.broker.listener.name"] = "SAFE"
        for listener in ("controller", "safe"):
            prefix = f"listener.name.{listener}.oauthbearer.sasl"
            options[f"{prefix}.jaas.config"] = login
            options[f"{prefix}.login.callback.handler.class"] = f"{PACKAGE}.OAuthBearerLoginCallbackHandler"
            options[f"{prefix}.server.callback.handler.class"] = (
                f"{PACKAGE}.OAuthBearerValidatorCallbackHandler"
            )
        return options

    def _has_topic(self) -> bool:
        try:
            with Admin(self.options(OURS, self.issuer.token("admin"))) as admin:
                admin.create_topics([NewTopic("oauth", 4, 2)])
        except Exception:
            return False
        return True

    def bootstrap(self, kind: str) -> str:
        return f"localhost:{self.cluster.members[KINDS[kind]].port}"

    def options(self, kind: str, token: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap(kind),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.login.callback.handler.class": lambda: token,
        }

    def tool_file(self) -> str:
        """For Apache Kafka's tools: they ask the issuer themselves."""
        path = self.home / "client.properties"
        path.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
            f"sasl.oauthbearer.token.endpoint.url={self.url}/token\n"
            f"sasl.login.callback.handler.class={PACKAGE}.OAuthBearerLoginCallbackHandler\n"
            f'sasl.jaas.config={MODULE} required clientId="{CLIENT}" clientSecret="{SECRET}";\n',
            "utf-8",
        )
        return str(path)


@pytest.fixture(scope="module")
def mixed(oracle: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mixed]:
    issuer = Issuer()
    before = os.environ.get("KAFKA_OPTS")
    with serving(issuer) as url:
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}/keys,{url}/token"
        os.environ["KAFKA_OPTS"] = allowed
        try:
            one = Mixed(oracle, tmp_path_factory.mktemp("oauth") / "cluster", issuer, url)
            try:
                yield one
                assert one.cluster.faults() == []
            finally:
                one.cluster.down()
        finally:
            if before is None:
                del os.environ["KAFKA_OPTS"]
            else:
                os.environ["KAFKA_OPTS"] = before


@pytest.mark.parametrize("kind", [OURS, APACHE])
def test_apache_kafkas_console_tools_log_in(mixed: Mixed, oracle: Callable[..., Any], kind: str) -> None:
    servers = ["--topic", "oauth", "--bootstrap-server", mixed.bootstrap(kind)]
    produce = [*servers, "--producer.config", mixed.tool_file()]
    done = oracle(VERSION, "tool", "console-producer", *produce, stdin="\n".join(RECORDS) + "\n")
    assert done.returncode == 0, done.stderr
    consume = [*servers, "--consumer.config", mixed.tool_file(), "--from-beginning"]
    done = oracle(VERSION, "tool", "console-consumer", *consume, "--max-messages", str(len(RECORDS)))
    assert len(done.stdout.splitlines()) == len(RECORDS), done.stderr


@pytest.mark.parametrize("kind", [OURS, APACHE])
def test_clients_of_python_log_in(mixed: Mixed, kind: str) -> None:
    token = mixed.issuer.token("alice")
    with Producer({**mixed.options(kind, token), "acks": "all"}) as producer:
        assert producer.send("oauth", b"ours").result().topic == "oauth"
    options = mixed.options(kind, token)
    del options["sasl.login.callback.handler.class"]
    client = AdminClient(options | {"oauth_cb": lambda _: (token, now_s() + 600)})
    client.poll(0)
    assert "oauth" in client.list_topics(timeout=60).topics

    class Tokens(AbstractTokenProvider):
        def token(self) -> str:
            return token

    producer = KafkaProducer(
        bootstrap_servers=mixed.bootstrap(kind),
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Tokens(),
    )
    try:
        assert producer.send("oauth", b"kafka-python").get(60).topic == "oauth"
    finally:
        producer.close()

    class AioTokens(AioTokenProvider):
        async def token(self) -> str:
            return token

    async def write() -> None:
        aio = AIOKafkaProducer(
            bootstrap_servers=mixed.bootstrap(kind),
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=AioTokens(),
        )
        await aio.start()
        try:
            await aio.send_and_wait("oauth", b"aiokafka")
        finally:
            await aio.stop()

    asyncio.run(write())


def refused_tokens(issuer: Issuer) -> dict[str, str]:
    now = now_s()
    return {
        "unsigned": unsigned("alice"),
        "foreign": Issuer().token("alice"),
        "another audience": issuer.token("alice", aud="other"),
        "another issuer": issuer.token("alice", iss="https://other.example"),
        "without iat": issuer.token("alice", iat=None),
        "nobody": issuer.token(" "),
        "not yet": issuer.token("alice", nbf=now + 600),
        "signature cut": issuer.token("alice")[:-8],
    }


@pytest.mark.parametrize("kind", [OURS, APACHE])
def test_other_tokens_are_refused_alike(mixed: Mixed, kind: str) -> None:
    for name, token in refused_tokens(mixed.issuer).items():
        # The end of a token is checked by our client itself, so all of these have one.
        with (
            Admin(mixed.options(kind, token)) as admin,
            pytest.raises(SaslAuthenticationFailedError, match="invalid_token"),
        ):
            admin.describe_cluster()
            raise AssertionError(name)


@pytest.mark.parametrize("kind", [OURS, APACHE])
def test_accepted_tokens_are_accepted_alike(mixed: Mixed, kind: str) -> None:
    issuer, now = mixed.issuer, now_s()
    for token in (
        issuer.curve_token("alice"),
        issuer.token("alice", aud=["other", "kafka"], scope=["a", "b"]),
        issuer.token("alice", exp=now + 60, nbf=now + 10),
    ):
        with Admin(mixed.options(kind, token)) as admin:
            assert admin.describe_cluster().controller is not None
