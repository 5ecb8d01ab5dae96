"""How many connections are taken."""

from __future__ import annotations

from typing import Any

from barnabas.broker.network.connection_limits import ConnectionLimits
from tests.broker.worlds.front_world import node_of


def limits(**overrides: Any) -> ConnectionLimits:
    node = node_of(
        listeners="PLAINTEXT://:0,EXTERNAL://:0,CONTROLLER://:0",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,EXTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
        **overrides,
    )
    return ConnectionLimits(node.settings, node.listeners)


def test_all_listeners_share_one_limit_that_brokers_pass() -> None:
    connections = limits(max_connections="2")
    connections.opened("EXTERNAL", "a")
    assert connections.has_room("EXTERNAL")
    connections.opened("PLAINTEXT", "b")
    assert connections.total == 2
    assert not connections.has_room("EXTERNAL")
    assert connections.has_room("PLAINTEXT")
    connections.closed("EXTERNAL", "a")
    assert connections.has_room("EXTERNAL")


def test_a_listener_may_have_a_limit_of_its_own() -> None:
    """As many as its limit says, and not one more; what the other listeners have does not count."""
    given = {"listener.name.external.max.connections": "2"}
    connections = limits(**given)
    connections.opened("PLAINTEXT", "b")
    connections.opened("EXTERNAL", "a")
    assert connections.has_room("EXTERNAL")
    connections.opened("EXTERNAL", "a")
    assert not connections.has_room("EXTERNAL")
    assert connections.has_room("PLAINTEXT")
    connections.closed("EXTERNAL", "a")
    assert connections.has_room("EXTERNAL")


def test_limits_may_change_while_connections_stand() -> None:
    connections = limits()
    for _ in range(3):
        connections.opened("EXTERNAL", "a")
    assert connections.has_room("EXTERNAL")
    connections.configure(node_of(max_connections="3", max_connections_per_ip="3").settings)
    assert not connections.has_room("EXTERNAL")
    assert not connections.is_welcome("a")
    assert connections.is_welcome("b")


def test_addresses_without_connections_are_forgotten() -> None:
    connections = limits()
    connections.opened("EXTERNAL", "a")
    connections.closed("EXTERNAL", "a")
    assert not connections._by_host
