"""A protection that is configured but not built prevents startup with one line."""

from __future__ import annotations

import pytest

from barnabas.config import BROKER, BUILT_FEATURES, CONSUMER, SECURITY_FEATURES, ConfigError, Feature, Mode
from barnabas.config.node.node import parse_node, read_node
from barnabas.config.node.security import refuse_unbuilt_security
from barnabas.config.scopes import TABLES

from .test_node import BROKER_ONLY, COMBINED, ZOOKEEPER


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        (
            {
                "listeners": "SSL://:9092",
                "security.inter.broker.protocol": "SSL",
                "controller.listener.names": "SSLC",
                "listener.security.protocol.map": "SSL:SSL,SSLC:PLAINTEXT",
            },
            "SSL://:9092",
        ),
        (
            {
                "listeners": "SAFE://:9092",
                "listener.security.protocol.map": "SAFE:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
                "inter.broker.listener.name": "SAFE",
            },
            "SAFE://:9092",
        ),
        ({"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_SSL"}, "CONTROLLER"),
        ({"ssl.keystore.location": "/etc/keys"}, "ssl.keystore.location"),
        ({"ssl.client.auth": "required"}, "ssl.client.auth"),
        (
            {"listener.name.plaintext.ssl.keystore.password": "x"},
            "listener.name.plaintext.ssl.keystore.password",
        ),
        ({"listener.name.plaintext.scram-sha-256.sasl.jaas.config": "x"}, "sasl.jaas.config"),
        ({"sasl.enabled.mechanisms": "PLAIN"}, "sasl.enabled.mechanisms"),
        ({"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}, "StandardAuthorizer"),
        ({"principal.builder.class": "com.example.Builder"}, "principal.builder.class"),
        ({"delegation.token.secret.key": "x"}, "delegation.token.secret.key"),
        ({"create.topic.policy.class.name": "com.example.Policy"}, "create.topic.policy.class.name"),
        ({"alter.config.policy.class.name": "com.example.Policy"}, "alter.config.policy.class.name"),
        ({"config.providers": "file"}, "config.providers"),
    ],
)
def test_protections_of_a_broker_prevent_startup(extra: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_node(BROKER_ONLY | extra)
    line = str(caught.value)
    assert named in line
    assert "not built yet" in line
    assert "\n" not in line


@pytest.mark.parametrize(
    "extra",
    [
        {"zookeeper.set.acl": "true"},
        {"zookeeper.ssl.client.enable": "true"},
        {"password.encoder.secret": "x"},
    ],
)
def test_protections_of_zookeeper_prevent_startup(extra: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="ZooKeeper security"):
        read_node(ZOOKEEPER | extra)


def test_an_explicit_default_protects_nothing_and_is_accepted() -> None:
    read_node(
        COMBINED
        | {"ssl.client.auth": "none", "sasl.enabled.mechanisms": "GSSAPI", "authorizer.class.name": ""}
    )


def test_every_security_option_is_covered() -> None:
    for table in TABLES:
        for option in table:
            if option.name.startswith(("ssl.", "sasl.", "delegation.", "authorizer.", "zookeeper.ssl.")):
                assert option.effect in SECURITY_FEATURES, option.name


def test_clients_are_rejected_too() -> None:
    bare = {"key.deserializer": bytes, "value.deserializer": bytes}
    refuse_unbuilt_security(CONSUMER.parse(bare | {"security.protocol": "plaintext"}))
    with pytest.raises(ConfigError, match="TLS is not built yet"):
        refuse_unbuilt_security(CONSUMER.parse(bare | {"security.protocol": "ssl"}))
    with pytest.raises(ConfigError, match=r"sasl\.jaas\.config"):
        refuse_unbuilt_security(CONSUMER.parse(bare | {"sasl.jaas.config": "x"}))


def test_a_built_feature_is_accepted() -> None:
    given = BROKER_ONLY | {"ssl.keystore.location": "/etc/keys", "broker.id": "2"}
    settings = BROKER.parse(given, Mode.KRAFT)
    refuse_unbuilt_security(settings, BUILT_FEATURES | {Feature.TLS})
    with pytest.raises(ConfigError):
        refuse_unbuilt_security(settings, BUILT_FEATURES)


def test_tools_that_start_nothing_read_a_protected_nodes_file() -> None:
    node = parse_node(BROKER_ONLY | {"ssl.keystore.location": "/etc/keys"})
    assert node.settings["ssl.keystore.location"] == "/etc/keys"
