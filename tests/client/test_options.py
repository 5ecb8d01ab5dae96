"""Options in both spellings, and what is refused."""

from __future__ import annotations

import pytest

from barnabas.client.addresses import bootstrap_nodes
from barnabas.client.options import admin_options, consumer_options, producer_options
from barnabas.config.errors import ConfigError


def test_both_spellings_are_the_same() -> None:
    by_dict = producer_options({"bootstrap.servers": "a:1,b:2", "linger.ms": "7", "acks": "1"}, {})
    by_keyword = producer_options(None, {"bootstrap_servers": ["a:1", "b:2"], "linger_ms": 7, "acks": 1})
    for name in ("bootstrap.servers", "linger.ms", "acks", "client.id"):
        assert by_dict[name] == by_keyword[name]
    assert by_dict["client.id"] == "barnabas-producer"


def test_the_two_may_be_mixed_but_not_contradict() -> None:
    settings = consumer_options({"bootstrap.servers": "a:1"}, {"group_id": "g", "client_rack": None})
    assert (settings["group.id"], settings["client.rack"]) == ("g", "")
    with pytest.raises(ConfigError, match="given twice"):
        consumer_options({"group.id": "one"}, {"group_id": "other"})


def test_what_nobody_knows_is_refused_as_a_keyword_and_warned_of_in_a_dict() -> None:
    with pytest.raises(ConfigError, match="lingr_ms is no option of a producer; did you mean linger_ms"):
        producer_options({"bootstrap.servers": "a:1"}, {"lingr_ms": 5})
    with pytest.raises(ConfigError, match="xyzzy is no option of a consumer; they have Apache Kafka's names"):
        consumer_options({"bootstrap.servers": "a:1"}, {"xyzzy": 5})
    settings = producer_options({"bootstrap.servers": "a:1", "lingr.ms": "5"}, {})
    assert any("lingr.ms" in line for line in settings.warnings)


def test_an_admin_needs_brokers_or_controllers_not_both() -> None:
    with pytest.raises(ConfigError, match="either"):
        admin_options({}, {})
    with pytest.raises(ConfigError, match="both"):
        admin_options({}, {"bootstrap_servers": "a:1", "bootstrap_controllers": "b:2"})


def test_rules_between_options_hold() -> None:
    with pytest.raises(ConfigError, match="idempoten"):
        producer_options({}, {"bootstrap_servers": "a:1", "enable_idempotence": True, "acks": 1})
    with pytest.raises(ConfigError, match=r"group\.protocol"):
        consumer_options(
            {}, {"bootstrap_servers": "a:1", "group_protocol": "consumer", "session_timeout_ms": 9}
        )


def test_addresses() -> None:
    nodes = bootstrap_nodes(["one:9092", " PLAINTEXT://two:9093", "[::1]:9094", ""])
    assert [(node.id, node.host, node.port) for node in nodes] == [
        (-1, "one", 9092),
        (-2, "two", 9093),
        (-3, "::1", 9094),
    ]
    for wrong in ("nonsense", "host:", ":1", "host:99999", "a:b:c"):
        with pytest.raises(ConfigError, match=r"bootstrap\.servers"):
            bootstrap_nodes([wrong])
    with pytest.raises(ConfigError, match="No resolvable"):
        bootstrap_nodes([""])
