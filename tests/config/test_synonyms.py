"""Broker options under other names."""

from __future__ import annotations

import pytest

from barnabas.config.node.synonyms import base_name, synonyms_of, with_both_ids


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("max.connections", "max.connections"),
        ("listener.name.internal.max.connections", "max.connections"),
        ("listener.name.internal.scram-sha-512.sasl.jaas.config", "sasl.jaas.config"),
        ("listener.name.internal.ssl.keystore.location", "ssl.keystore.location"),
        ("listener.name.internal", "listener.name.internal"),
    ],
)
def test_listener_prefixes(name: str, base: str) -> None:
    assert base_name(name) == base


def test_families() -> None:
    retention = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
    assert all(synonyms_of(name, with_base=True) == retention for name in retention)
    assert synonyms_of("log.flush.scheduler.interval.ms", with_base=True) == (
        "log.flush.scheduler.interval.ms",
    )
    prefixed = "listener.name.a.max.connections"
    assert synonyms_of(prefixed, with_base=True) == (prefixed, "max.connections")
    assert synonyms_of(prefixed, with_base=False) == (prefixed,)


def test_node_and_broker_id() -> None:
    assert with_both_ids({"broker.id": "1"}) == {"broker.id": "1", "node.id": "1"}
    assert with_both_ids({"node.id": "1"}) == {"broker.id": "1", "node.id": "1"}
    assert with_both_ids({"node.id": "1", "broker.id": "2"}) == {"broker.id": "2", "node.id": "1"}
    assert with_both_ids({}) == {}
