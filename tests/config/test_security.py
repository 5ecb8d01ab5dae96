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
        ({"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_SSL"}, "CONTROLLER"),
        ({"ssl.engine.factory.class": "com.example.Engines"}, "ssl.engine.factory.class"),
        ({"sasl.kerberos.service.name": "kafka"}, "sasl.kerberos.service.name"),
        (
            {"listener.name.plaintext.plain.sasl.server.callback.handler.class": "com.example.Handler"},
            "sasl.server.callback.handler.class",
        ),
        ({"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}, "StandardAuthorizer"),
        ({"principal.builder.class": "com.example.Builder"}, "principal.builder.class"),
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
        {"zookeeper.ssl.crl.enable": "true"},
        {"zookeeper.ssl.ocsp.enable": "true"},
        {"password.encoder.secret": "x"},
    ],
)
def test_protections_of_zookeeper_prevent_startup(extra: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="checks of revocation and encoded passwords"):
        read_node(ZOOKEEPER | extra)


def test_an_explicit_default_protects_nothing_and_is_accepted() -> None:
    read_node(
        COMBINED
        | {"ssl.client.auth": "none", "sasl.enabled.mechanisms": "GSSAPI", "authorizer.class.name": ""}
    )


# The random numbers and algorithms of Java's own TLS: OpenSSL has its own.
WITHOUT_EFFECT = (
    "ssl.secure.random.implementation",
    "ssl.keymanager.algorithm",
    "ssl.trustmanager.algorithm",
)


def test_every_security_option_is_covered() -> None:
    for table in TABLES:
        for option in table:
            if option.name in WITHOUT_EFFECT:
                assert option.effect is Feature.NONE
            elif option.name.startswith(("ssl.", "sasl.", "delegation.", "authorizer.", "zookeeper.ssl.")):
                assert option.effect in SECURITY_FEATURES, option.name


def test_clients_are_rejected_too() -> None:
    bare: dict[str, object] = {"key.deserializer": bytes, "value.deserializer": bytes}
    refuse_unbuilt_security(CONSUMER.parse(bare | {"security.protocol": "plaintext"}))
    refuse_unbuilt_security(CONSUMER.parse(bare | {"security.protocol": "ssl"}))
    login = {"security.protocol": "SASL_SSL", "sasl.jaas.config": "x"}
    refuse_unbuilt_security(CONSUMER.parse(bare | login | {"sasl.mechanism": "PLAIN"}))
    with pytest.raises(ConfigError, match="GSSAPI of this client is not built yet"):
        refuse_unbuilt_security(CONSUMER.parse(bare | login))
    with pytest.raises(ConfigError, match=r"ssl\.provider"):
        refuse_unbuilt_security(CONSUMER.parse(bare | {"ssl.provider": "x"}))


def test_a_built_feature_is_accepted() -> None:
    given = BROKER_ONLY | {"ssl.keystore.location": "/etc/keys", "broker.id": "2"}
    settings = BROKER.parse(given, Mode.KRAFT)
    refuse_unbuilt_security(settings)
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.location"):
        refuse_unbuilt_security(settings, BUILT_FEATURES - {Feature.TLS})


def test_tools_that_start_nothing_read_a_protected_nodes_file() -> None:
    node = parse_node(BROKER_ONLY | {"ssl.keystore.location": "/etc/keys"})
    assert node.settings["ssl.keystore.location"] == "/etc/keys"


CLIENTS = {
    "listeners": "PLAINTEXT://:9092,CLIENTS://:9094",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
}


def test_clients_may_log_in_by_plain_and_scram() -> None:
    read_node(BROKER_ONLY | CLIENTS | {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"})


def test_other_mechanisms_prevent_startup() -> None:
    with pytest.raises(ConfigError, match="GSSAPI of the listener CLIENTS is not built yet"):
        read_node(BROKER_ONLY | CLIENTS)


NODES = {
    "listeners": "SASL_SSL://:9092",
    "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:SASL_SSL",
    "security.inter.broker.protocol": "SASL_SSL",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
}


def test_nodes_may_log_in_to_each_other() -> None:
    read_node(BROKER_ONLY | NODES | {"sasl.enabled.mechanisms": "PLAIN"})
    with pytest.raises(ConfigError, match=r"must be included in sasl\.enabled\.mechanisms"):
        read_node(BROKER_ONLY | NODES | {"sasl.enabled.mechanisms": "SCRAM-SHA-256"})
    with pytest.raises(ConfigError, match="GSSAPI towards the listener CONTROLLER is not built yet"):
        read_node(
            BROKER_ONLY
            | NODES
            | {"sasl.enabled.mechanisms": "PLAIN", "sasl.mechanism.controller.protocol": "GSSAPI"}
        )
