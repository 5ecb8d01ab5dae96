"""Options in both spellings, and what is refused."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

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


def test_unknown_options_are_rejected_in_either_spelling() -> None:
    """`Producer({"linger.mss": 5})` was accepted, and the slip went unseen."""
    servers = {"bootstrap.servers": "a:1"}
    with pytest.raises(ConfigError, match="lingr_ms is not an option of a producer; did you mean linger_ms"):
        producer_options(servers, {"lingr_ms": 5})
    with pytest.raises(
        ConfigError, match="xyzzy is not an option of a consumer; options have Apache Kafka's names"
    ):
        consumer_options(servers, {"xyzzy": 5})
    with pytest.raises(
        ConfigError, match=r"linger\.mss is not an option of a producer; did you mean linger\.ms\?"
    ):
        producer_options({**servers, "linger.mss": 5}, {})
    with pytest.raises(
        ConfigError, match=r"group_id is not an option of a consumer; did you mean group\.id\?"
    ):
        consumer_options({**servers, "group_id": "g"}, {})
    with pytest.raises(
        ConfigError, match=r"xyzzy is not an option of an admin client; .*such as bootstrap\.servers"
    ):
        admin_options({**servers, "xyzzy": None}, {})


def test_a_dict_may_be_shared_by_several_clients() -> None:
    shared = {"bootstrap.servers": "a:1", "group.id": "g", "linger.ms": "7", "bootstrap.controllers": None}
    assert producer_options(shared, {})["linger.ms"] == 7
    assert consumer_options(shared, {})["group.id"] == "g"
    assert admin_options(shared, {})["bootstrap.servers"] == ("a:1",)
    with pytest.raises(ConfigError, match="group_id is not an option of a producer"):
        producer_options(shared, {"group_id": "g"})


@pytest.mark.parametrize("client", ["Producer", "Consumer", "Admin"])
@pytest.mark.parametrize("home", ["barnabas.client", "barnabas.client.sync"])
def test_every_client_refuses_them(run: Callable[[Any], Any], home: str, client: str) -> None:
    kind = getattr(importlib.import_module(home), client)

    async def made(*given: Any, **options: Any) -> None:
        kind(*given, **options)

    for work in (
        made({"bootstrap.servers": "a:1", "request.timeout.mss": 5}),
        made({"bootstrap.servers": "a:1"}, request_timeout_mss=5),
    ):
        with pytest.raises(ConfigError, match=r"did you mean request[._]timeout[._]ms\?"):
            run(work)


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
    nodes = bootstrap_nodes(["", "one:9092", " ", " PLAINTEXT://two:9093", "[::1]:9094", ""])
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
