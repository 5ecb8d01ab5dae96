"""Delegation tokens by both tools on both kinds of broker, and logins with them: the same lines, the same errors."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.client import TopicPartition
from barnabas.client.admin import NewTopic
from barnabas.client.sync import Admin, Consumer, Producer
from tests.verify.quorum.mixed_cluster import APACHE, OURS, MixedCluster, wait_for
from tests.verify.security.secured_cluster import PLAIN_MODULE, SCRAM_MODULE, password_of
from tools.ports import free_oracle_base, free_ports

VERSION = "4.1.0"
USERS = ("admin", "alice", "bob", "eve")
_ID = re.compile(r"tokenId : (\S+)")
_ROW = re.compile(r"^(\S{22})\s+(\S{88})\s+(\S+)", re.MULTILINE)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d")


class TokenBroker:
    """One broker of either kind, with tokens."""

    def __init__(self, oracle: Callable[..., Any], home: Path, kind: str) -> None:
        self.kind = kind
        self.home = home
        home.mkdir(parents=True)
        (self.port,) = free_ports(1)
        self.cluster = MixedCluster(oracle, VERSION, home, free_oracle_base(), False, {})
        tokens = {
            "delegation.token.secret.key": "signs-tokens",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin;User:ANONYMOUS",
        }
        controller = self.cluster.add(101, kind, **tokens)
        broker = self.cluster.add(1, kind, **self._options(self.cluster.port + 1), **tokens)
        for member in (controller, broker):
            self.cluster.configure(member, [controller])
            self.cluster.format(member, [controller])
        self.cluster.start(101, 1)
        wait_for("alice logs in", lambda: self.tool(OURS, "alice", "--describe")[0] == 0)

    def _options(self, port: int) -> dict[str, str]:
        users = " ".join(f'user_{user}="{password_of(user)}"' for user in USERS)
        return {
            "listeners": f"PLAINTEXT://localhost:{port},SAFE://localhost:{self.port}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SAFE:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.safe.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {users};",
            "listener.name.safe.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
            "listener.name.safe.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
            "connection.failed.authentication.delay.ms": "10",
        }

    def options(self, user: str) -> dict[str, str]:
        return {
            "bootstrap.servers": f"localhost:{self.port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{PLAIN_MODULE} required username="{user}" password="{password_of(user)}";',
        }

    def by_token(self, token_id: str, hmac: str, mechanism: str = "SCRAM-SHA-256") -> dict[str, str]:
        login = f'{SCRAM_MODULE} required username="{token_id}" password="{hmac}" tokenauth="true";'
        return self.options("alice") | {"sasl.mechanism": mechanism, "sasl.jaas.config": login}

    def file(self, options: dict[str, str]) -> str:
        path = self.home / "client.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in options.items()), "utf-8")
        return str(path)

    def tool(self, kind: str, user: str, *args: str, token: dict[str, str] | None = None) -> tuple[int, str]:
        config = ["--command-config", self.file(token or self.options(user))]
        connection = ["--bootstrap-server", f"localhost:{self.port}", *config]
        return self.cluster.try_tool(kind, "delegation-tokens", *connection, *args)


@pytest.fixture(scope="module", params=[OURS, APACHE])
def broker(
    oracle: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[TokenBroker]:
    one = TokenBroker(oracle, tmp_path_factory.mktemp("tokens") / "cluster", request.param)
    try:
        yield one
        assert one.cluster.faults() == []
    finally:
        one.cluster.down()


def normal(text: str) -> str:
    """Without what differs each time: ids, HMACs, times."""
    for token_id, hmac, _ in _ROW.findall(text):
        text = text.replace(token_id, "TOKEN").replace(hmac, "HMAC")
    return _TIME.sub("TIME", re.sub(r"hmac :\S+", "hmac :HMAC", text))


def created(text: str) -> tuple[str, str]:
    """The id and the HMAC."""
    (row,) = _ROW.findall(text)
    assert _ID.search(text) is not None
    return row[0], row[1]


@pytest.mark.parametrize("kind", [OURS, APACHE])
def test_the_life_of_a_token(broker: TokenBroker, kind: str) -> None:
    """Every step by this kind's tool; the output is compared with that of Apache Kafka's on Apache Kafka."""
    code, text = broker.tool(
        kind, "alice", "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob"
    )
    assert code == 0, text
    assert normal(text).splitlines()[:2] == [
        "Calling create token operation with renewers :[User:bob] , max-life-time-period :-1",
        "Created delegation token with tokenId : TOKEN",
    ], text
    token_id, hmac = created(text)
    steps = [
        ("bob", ["--renew", "--hmac", hmac, "--renew-time-period", "-1"], "Completed renew operation"),
        (
            "eve",
            ["--renew", "--hmac", hmac, "--renew-time-period", "-1"],
            "Specified Principal is not valid Owner/Renewer",
        ),
        ("bob", ["--describe", "--owner-principal", "User:bob"], "Total number of tokens : 1"),
        ("eve", ["--describe"], "Total number of tokens : 0"),
        ("alice", ["--describe", "--owner-principal", "User:alice"], token_id),
        ("eve", ["--describe", "--owner-principal", "User:alice"], "Total number of tokens : 0"),
        ("admin", ["--describe", "--owner-principal", "User:alice"], token_id),
        (
            "eve",
            ["--create", "--max-life-time-period", "-1", "--owner-principal", "User:alice"],
            "Delegation Token authorization failed",
        ),
        (
            "alice",
            ["--expire", "--hmac", hmac, "--expiry-time-period", "60000"],
            "Completed expire operation",
        ),
        ("alice", ["--expire", "--hmac", hmac, "--expiry-time-period", "-1"], "Completed expire operation"),
        (
            "alice",
            ["--renew", "--hmac", hmac, "--renew-time-period", "-1"],
            "Delegation Token is not found on server",
        ),
    ]
    for user, args, expected in steps:
        code, text = broker.tool(kind, user, *args)
        assert expected in text, (user, args, code, text)
        assert (code == 0) == (not expected.startswith(("Delegation", "Specified"))), (
            user,
            args,
            code,
            text,
        )


def test_both_tools_write_alike(broker: TokenBroker) -> None:
    for args in (
        ["--create", "--max-life-time-period", "100000"],
        [
            "--create",
            "--max-life-time-period",
            "-1",
            "--renewer-principal",
            "User:bob",
            "--renewer-principal",
            "User:eve",
        ],
        ["--describe"],
        ["--describe", "--owner-principal", "User:eve"],
    ):
        ours, theirs = (normal(broker.tool(kind, "alice", *args)[1]) for kind in (OURS, APACHE))
        if args == ["--describe"]:
            # Apache Kafka's tool names no owner, and so is shown nothing; ours asks for all that one may see.
            assert "Total number of tokens : 0" in theirs
            assert "Total number of tokens : 4" in ours
        else:
            assert ours == theirs, args


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_client_with_a_token_is_its_owner(
    broker: TokenBroker, oracle: Callable[..., Any], mechanism: str
) -> None:
    """Our client, and Apache Kafka's console tools."""
    topic = f"tokens-{mechanism}"
    with Admin(broker.options("admin")) as admin:
        admin.create_topics([NewTopic(topic, 1, 1)])
    acl = [
        "--add",
        "--allow-principal",
        "User:alice",
        "--producer",
        "--consumer",
        "--topic",
        topic,
        "--group",
        "*",
    ]
    file = broker.file(broker.options("admin"))
    servers = ["--bootstrap-server", f"localhost:{broker.port}"]
    code, text = broker.cluster.try_tool(OURS, "acls", *servers, "--command-config", file, *acl)
    assert code == 0, text
    token_id, hmac = created(broker.tool(OURS, "alice", "--create", "--max-life-time-period", "-1")[1])
    options = broker.by_token(token_id, hmac, mechanism)
    records = [f"record {number}" for number in range(5)]
    with Producer(options) as producer:
        for record in records:
            producer.send(topic, record.encode())
    produce = ["--topic", topic, *servers, "--producer.config", broker.file(options)]
    done = oracle(VERSION, "tool", "console-producer", *produce, stdin="\n".join(records) + "\n")
    assert done.returncode == 0, done.stderr
    with Consumer({**options, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        read = [record.value.decode() for record in itertools.islice(consumer, 10)]
    assert sorted(read) == sorted(2 * records)
    # Who has come by a token gets no other, and a wrong HMAC does not log in.
    for kind in (OURS, APACHE):
        _, text = broker.tool(kind, "", "--create", "--max-life-time-period", "-1", token=options)
        assert "Delegation Token requests are not allowed" in text, text
        wrong = broker.by_token(token_id, hmac[::-1], mechanism)
        code, text = broker.tool(kind, "", "--describe", token=wrong)
        assert code != 0
        assert "invalid credentials with SASL mechanism" in text, text
