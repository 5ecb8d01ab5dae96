"""A broker's login at ZooKeeper, its TLS options, and the ACLs of znodes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trustme

from barnabas.broker.modes.zookeeper.zookeeper_security import kafka_acl, read_zookeeper_security
from barnabas.config.errors import ConfigError
from barnabas.config.node.node import read_node
from barnabas.config.settings import Settings
from barnabas.runtime.zookeeper.client import OPEN_ACL, Acl
from barnabas.runtime.zookeeper.security import DigestLogin, open_acl

OWN, WORLD = Acl(31, "auth", ""), Acl(1, "world", "anyone")
MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"
JAAS = f"""
// Of a server on the same machine.
Server {{
    {MODULE} required user_kafka="s";
}};
KafkaServer {{ org.apache.kafka.common.security.plain.PlainLoginModule required username="x" password="y"; }};
Client {{
    /* of the broker */
    {MODULE} required
    username="kafka"
    password="a \\"b\\"; c";
}};
"""


def settings(**given: str) -> Settings:
    options = {"broker.id": "1", "zookeeper.connect": "localhost:2181", "log.dirs": "/data"}
    return read_node({**options, **{f"zookeeper.{name}": value for name, value in given.items()}}).settings


def properties(path: Path | None = None, **more: str) -> Callable[[str], str | None]:
    given = {"java.security.auth.login.config": str(path), **more} if path is not None else more
    return given.get


def jaas(folder: Path, text: str = JAAS) -> Path:
    path = folder / "jaas.conf"
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize(
    ("path", "acl"),
    [
        ("/consumers", OPEN_ACL),
        ("/consumers/g", (OWN, WORLD)),
        ("/brokers/ids/1", (OWN, WORLD)),
        ("/config/topics/t", (OWN, WORLD)),
        ("/config/users", (OWN,)),
        ("/config/users/alice", (OWN,)),
        ("/config/brokers/1", (OWN,)),
        ("/delegation_token/tokens", (OWN,)),
        ("/delegation_token", (OWN, WORLD)),
    ],
)
def test_only_their_owner_reads_znodes_with_secrets(path: str, acl: tuple[Acl, ...]) -> None:
    assert kafka_acl(path) == acl


def test_nothing_is_secured_by_default() -> None:
    security = read_zookeeper_security(settings(), properties())
    assert (security.login, security.tls, security.acl_of) == (None, None, open_acl)


def test_the_login_is_the_section_client_of_the_file_of_java(tmp_path: Path) -> None:
    given = read_zookeeper_security(settings(**{"set.acl": "true"}), properties(jaas(tmp_path)))
    assert given.login == DigestLogin("kafka", 'a "b"; c')
    assert given.acl_of is kafka_acl


def test_a_password_may_look_like_a_comment(tmp_path: Path) -> None:
    text = f'Client {{ {MODULE} required username="kafka" password="a//b /* c */"; }}; // Done.'
    given = read_zookeeper_security(settings(), properties(jaas(tmp_path, text)))
    assert given.login == DigestLogin("kafka", "a//b /* c */")


def test_the_section_may_have_another_name(tmp_path: Path) -> None:
    text = JAAS.replace("Client {", "Broker {")
    named = properties(jaas(tmp_path, text), **{"zookeeper.sasl.clientconfig": "Broker"})
    assert read_zookeeper_security(settings(), named).login is not None
    assert read_zookeeper_security(settings(), properties(jaas(tmp_path, text))).login is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "Client { com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true; };",
            "not supported",
        ),
        (f"Client {{ {MODULE} required username=x; }};", "needs username and password"),
        (f"Client {{ {MODULE} needed username=x; }};", "cannot be read"),
    ],
)
def test_logins_that_cannot_be_are_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_zookeeper_security(settings(), properties(jaas(tmp_path, text)))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        read_zookeeper_security(settings(), properties(tmp_path / "nowhere"))


def test_acls_need_somebody_to_whom_znodes_belong() -> None:
    with pytest.raises(ConfigError, match=r"zookeeper\.set\.acl is true"):
        read_zookeeper_security(settings(**{"set.acl": "true"}), properties())


def test_tls_has_options_of_its_own(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    authority.issue_cert("kafka").private_key_and_cert_chain_pem.write_to_path(tmp_path / "key.pem")
    given = {
        "ssl.client.enable": "true",
        "clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
        "ssl.keystore.location": str(tmp_path / "key.pem"),
        "ssl.truststore.location": str(tmp_path / "ca.pem"),
        "ssl.endpoint.identification.algorithm": "",
        "set.acl": "true",
    }
    security = read_zookeeper_security(settings(**given), properties())
    tls = security.tls
    assert tls is not None
    assert tls.key is not None
    assert tls.trusted is not None
    assert (tls.protocols, tls.check_host) == (("TLSv1.2",), False)
    assert security.acl_of is kafka_acl
    several = {
        **given,
        "ssl.enabled.protocols": "TLSv1.2,TLSv1.3",
        "ssl.endpoint.identification.algorithm": "https",
    }
    tls = read_zookeeper_security(settings(**several), properties()).tls
    assert tls is not None
    assert (tls.protocols, tls.check_host) == (("TLSv1.2", "TLSv1.3"), True)


@pytest.mark.parametrize(
    "given",
    [
        {"ssl.truststore.location": "/nowhere/ca.pem"},
        {"ssl.keystore.location": "/nowhere/key.pem"},
        {"ssl.protocol": "SSLv3"},
    ],
)
def test_options_of_tls_that_cannot_be_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        read_zookeeper_security(settings(**{"ssl.client.enable": "true"}, **given), properties())


@pytest.mark.parametrize("option", ["ssl.crl.enable", "ssl.ocsp.enable"])
def test_revocation_is_not_promised(option: str) -> None:
    with pytest.raises(ConfigError, match="not built yet"):
        settings(**{option: "true"})
