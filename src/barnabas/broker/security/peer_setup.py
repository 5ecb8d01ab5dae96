"""How a node protects its connections to other nodes, and logs in there.

As in Apache Kafka, a node's client side uses the options of the listener on the other node: its stores, and
the user name and password of the login module that its own listener has for the same mechanism.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.peers.peer_connection import NO_SECURITY, PeerSecurity
from barnabas.client.login.handshake import Login
from barnabas.config.errors import ConfigError
from barnabas.config.node.node import Node
from barnabas.config.node.sasl_listeners import (
    has_sasl,
    has_tls,
    jaas_name,
    jaas_of,
    mechanism_between,
    protocol_of,
)
from barnabas.config.settings import Settings
from barnabas.runtime.clock import Clock
from barnabas.runtime.loop.executor import WorkerPool
from barnabas.runtime.random import Random
from barnabas.security.sasl import oauthbearer
from barnabas.security.sasl.client import read_login
from barnabas.security.sasl.jaas import parse_jaas

if TYPE_CHECKING:
    from barnabas.runtime.tls.context import Tls


class PeerServices(NamedTuple):
    """What logins at other nodes need of this one."""

    random: Random
    clock: Clock
    workers: WorkerPool


def towards_brokers(node: Node, services: PeerServices) -> PeerSecurity:
    """For the listener between brokers."""
    if not node.is_broker:
        return NO_SECURITY
    return _towards(node, node.listeners.inter_broker_name, services, to_controllers=False)


def towards_controllers(node: Node, services: PeerServices) -> PeerSecurity:
    """For the first of the controllers' listeners, which is the one that nodes use."""
    names = node.listeners.controller_names
    return _towards(node, names[0], services, to_controllers=True) if names else NO_SECURITY


def _towards(node: Node, listener: str, services: PeerServices, *, to_controllers: bool) -> PeerSecurity:
    protocol = protocol_of(node.listeners, listener)
    settings = node.settings
    tls = _tls(settings, listener) if has_tls(protocol) else None
    login: Login | None = None
    if has_sasl(protocol):
        mechanism = mechanism_between(settings, listener, to_controllers=to_controllers)
        jaas = jaas_of(settings, listener, mechanism)
        name = jaas_name(listener, mechanism)
        if mechanism == oauthbearer.MECHANISM:
            login = _oauth_login(settings, listener, jaas, name, services)
        else:
            login = read_login(mechanism, jaas, name, services.random.bytes)
    return PeerSecurity(tls, login)


def _oauth_login(
    settings: Settings, listener: str, jaas: str | None, name: str, services: PeerServices
) -> Login:
    # Nodes without tokens do not load what these need.
    from barnabas.broker.security.oauth_setup import node_login

    if jaas is None:
        raise ConfigError(f"The login module of {oauthbearer.MECHANISM} is missing; set {name}")
    try:
        module = parse_jaas(jaas).options
        return node_login(settings, listener, module, services.clock, services.workers, services.random)
    except (ConfigError, ValueError) as error:
        raise ConfigError(f"{name}: {error}") from error


def _tls(settings: Settings, listener: str) -> Tls:
    # Nodes without TLS do not load OpenSSL.
    from barnabas.runtime.tls.context import Tls
    from barnabas.runtime.tls.options import read_tls_options

    try:
        return Tls(read_tls_options(settings, listener), server=False)
    except ConfigError as error:
        raise ConfigError(f"TLS towards the listener {listener}: {error}") from error
