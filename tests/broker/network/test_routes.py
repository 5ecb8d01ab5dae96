"""Which APIs are served where."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

from barnabas.broker.metrics.registry import Metrics
from barnabas.broker.network.forwarding import FORWARDED
from barnabas.broker.network.routes import (
    _CONTROLLER_FILES,
    NEVER_FLEXIBLE,
    Role,
    _file_of,
    _handler_files,
    routes_for,
)
from barnabas.config.option import Mode
from barnabas.protocol.apis import api, api_named
from tests.broker.worlds.front_world import node_of

ROLES = list(Role)


@pytest.mark.parametrize("role", ROLES)
def test_every_route_has_a_handler(role: Role) -> None:
    for route in routes_for(Mode.KRAFT, role, node_of().settings, Metrics()).values():
        assert callable(route.handle)


@pytest.mark.parametrize("file", sorted(_handler_files()))
def test_a_handler_file_says_which_api_it_is_for(file: str) -> None:
    module = importlib.import_module(f"barnabas.broker.handlers.{file}")
    assert file in (_file_of(api(module.KEY).name), _CONTROLLER_FILES.get(api(module.KEY).name))
    assert module.__doc__ is not None
    assert str(module.KEY) in module.__doc__


@pytest.mark.parametrize("name", sorted(FORWARDED))
def test_what_is_forwarded_belongs_to_the_controller(name: str) -> None:
    known = api_named(name)
    assert known.forwarded or known.listeners[0] == "controller"


def test_clients_and_brokers_are_served_alike_and_controllers_otherwise() -> None:
    settings, metrics = node_of().settings, Metrics()
    client = routes_for(Mode.KRAFT, Role.CLIENT, settings, metrics)
    between = routes_for(Mode.KRAFT, Role.INTER_BROKER, settings, metrics)
    controller = routes_for(Mode.KRAFT, Role.CONTROLLER, settings, metrics)
    assert set(client) == set(between)
    assert {0, 1, 3} <= set(client)
    assert not {0, 3} & set(controller)
    assert {62, 63} <= set(controller)
    assert not {62, 63} & set(client)


def test_unstable_versions_are_served_only_where_they_are_wanted() -> None:
    wanted = node_of(unstable_api_versions_enable="true").settings
    plain, all_of_them = (
        routes_for(Mode.KRAFT, Role.CLIENT, settings, Metrics())[22]
        for settings in (node_of().settings, wanted)
    )
    assert (plain.highest, all_of_them.highest) == (5, 6)
    assert (plain.announced.highest, all_of_them.announced.highest) == (5, 6)


def test_produce_is_announced_from_0_and_served_from_3() -> None:
    """Some clients take a higher start for a broker without compression (KAFKA-18659)."""
    route = routes_for(Mode.KRAFT, Role.CLIENT, node_of().settings, Metrics())[0]
    assert (route.announced.lowest, route.lowest) == (0, 3)


def test_where_answers_have_tagged_headers() -> None:
    routes = routes_for(Mode.KRAFT, Role.CLIENT, node_of().settings, Metrics())
    assert routes[3].tagged_header_from == 9
    assert routes[18].tagged_header_from == NEVER_FLEXIBLE
    assert routes[17].tagged_header_from == NEVER_FLEXIBLE
    assert routes[60].tagged_header_from == 0


def test_zookeeper_mode_has_the_apis_of_3_9(data: Path) -> None:
    """What Apache Kafka 3.9.1 announces, but for versions that were removed in 4.0."""
    routes = routes_for(Mode.ZOOKEEPER, Role.CLIENT, node_of().settings, Metrics())
    recorded = json.loads((data / "protocol" / "api-versions.json").read_text("utf-8"))
    theirs = {key: high for key, _, high in recorded["zk-3.9.1-broker"]["v3"]["api_keys"]}
    ours = {key: route.announced.highest for key, route in routes.items()}
    assert ours == theirs
