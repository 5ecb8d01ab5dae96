"""Listeners: `NAME://host:port`, the security protocol of each name, and the role each listener serves."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from barnabas.config.errors import ConfigError
from barnabas.config.node.quorum import LAST_PORT
from barnabas.config.option import Mode
from barnabas.config.settings import Settings

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
LISTENERS = "listeners"
ADVERTISED = "advertised.listeners"
PROTOCOL_MAP = "listener.security.protocol.map"
CONTROLLER_NAMES = "controller.listener.names"
INTER_BROKER_NAME = "inter.broker.listener.name"
INTER_BROKER_PROTOCOL = "security.inter.broker.protocol"

_COMMA = re.compile(r"\s*,\s*", re.ASCII)
_ENDPOINT = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One listener; without a host it listens on all interfaces."""

    listener_name: str
    security_protocol: str
    host: str | None
    port: int

    def __str__(self) -> str:
        host = self.host or ""
        return f"{self.listener_name}://{f'[{host}]' if ':' in host else host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Listeners:
    """The listeners that a node opens and advertises."""

    listeners: tuple[Endpoint, ...]
    advertised: tuple[Endpoint, ...]
    controller_names: tuple[str, ...]
    inter_broker_name: str
    protocols: Mapping[str, str]

    @property
    def advertised_to_clients(self) -> tuple[Endpoint, ...]:
        """The advertised listeners that are not the controllers' own."""
        return tuple(end for end in self.advertised if end.listener_name not in self.controller_names)

    @property
    def controllers(self) -> tuple[Endpoint, ...]:
        """The listeners on which a controller accepts requests."""
        return tuple(end for end in self.listeners if end.listener_name in self.controller_names)

    @property
    def advertised_controllers(self) -> tuple[Endpoint, ...]:
        """The addresses of the controller listeners: the advertised ones, or else the listeners
        themselves."""
        known = {end.listener_name: end for end in (*self.controllers, *self.advertised)}
        return tuple(known[name] for name in self.controller_names if name in known)


def split_list(text: str | None) -> list[str]:
    """The non-empty parts of a comma-separated text."""
    return [part for part in _COMMA.split((text or "").strip()) if part]


def split_map(option: str, text: str) -> dict[str, str]:
    """`key:value` pairs; the last colon separates, so that a key may be an IPv6 address."""
    pairs = {}
    for part in split_list(text):
        key, colon, value = part.rpartition(":")
        if not colon:
            why = f"Error parsing configuration property '{option}': {part} has no colon"
            raise ConfigError(why, allowed="key:value, separated by commas")
        pairs[key.strip()] = value.strip()
    return pairs


def read_listeners(settings: Settings) -> Listeners:
    """Parse the listener options; rules between them and the node's roles are in node.py."""
    names = tuple(split_list(settings[CONTROLLER_NAMES]))
    protocols = _protocols(settings, names)
    opened = _endpoints(settings[LISTENERS], protocols)
    _refuse_same_ports(opened, settings[LISTENERS])
    configured = settings[ADVERTISED]
    advertised = opened if configured is None else _endpoints(configured, protocols)
    return Listeners(opened, advertised, names, _inter_broker_name(settings, protocols), protocols)


def _protocols(settings: Settings, controller_names: Iterable[str]) -> dict[str, str]:
    protocols = {}
    for name, protocol in split_map(PROTOCOL_MAP, settings[PROTOCOL_MAP]).items():
        if protocol.upper() not in SECURITY_PROTOCOLS:
            why = f"Invalid security protocol `{protocol}` defined in {PROTOCOL_MAP}"
            raise ConfigError(why, allowed=", ".join(SECURITY_PROTOCOLS))
        protocols[name.upper()] = protocol.upper()
    if settings.mode is Mode.KRAFT and not settings.is_given(PROTOCOL_MAP):
        # A controller listener needs no entry of its own while no listener is encrypted or authenticated.
        opened = (part.partition("://")[0].upper() for part in split_list(settings[LISTENERS]))
        used = {*controller_names, *opened}
        if used.isdisjoint(SECURITY_PROTOCOLS[1:]):
            protocols.update({name: "PLAINTEXT" for name in controller_names if name != "PLAINTEXT"})
    return protocols


def _endpoints(text: str, protocols: Mapping[str, str]) -> tuple[Endpoint, ...]:
    endpoints = tuple(_endpoint(entry, text, protocols) for entry in split_list(text))
    if len({end.listener_name for end in endpoints}) != len(endpoints):
        raise ConfigError(f"Each listener must have a different name, listeners: {text}")
    return endpoints


def _endpoint(entry: str, text: str, protocols: Mapping[str, str]) -> Endpoint:
    match = _ENDPOINT.fullmatch(entry)
    if match is None or int(match[3]) > LAST_PORT:
        why = f"Error creating broker listeners from '{text}': Unable to parse {entry} to a broker endpoint"
        raise ConfigError(why, allowed=f"NAME://host:port with a port from 0 to {LAST_PORT}")
    name = match[1].upper()
    if name not in protocols:
        why = (
            f"Error creating broker listeners from '{text}': No security protocol defined for listener {name}"
        )
        raise ConfigError(why, allowed=f"a name in {PROTOCOL_MAP}: {', '.join(sorted(protocols))}")
    return Endpoint(name, protocols[name], match[2] or None, int(match[3]))


def _refuse_same_ports(endpoints: Iterable[Endpoint], text: str) -> None:
    by_port: defaultdict[int, list[Endpoint]] = defaultdict(list)
    for end in endpoints:
        if end.port != 0:
            by_port[end.port].append(end)
    for port, sharing in by_port.items():
        if len(sharing) > 1:
            _refuse_same_port(port, sharing, text)


def _refuse_same_port(port: int, sharing: list[Endpoint], text: str) -> None:
    """Two listeners may share a port only as one IPv4 and one IPv6 address (KIP-797)."""
    versions = [version for end in sharing if (version := _ip_version(end.host)) is not None]
    if len(sharing) - len(versions) > 1:
        raise ConfigError(f"Each listener must have a different port, listeners: {text}")
    if len(versions) > 2:
        raise ConfigError(
            "Each listener must have a different port unless exactly one listener has an IPv4 address and "
            f"the other IPv6 address, listeners: {text}, port: {port}"
        )
    if sorted(versions) != [4, 6] or len(sharing) != len(versions):
        raise ConfigError(
            "If you have two listeners on the same port then one needs to be IPv4 and the other IPv6, "
            f"listeners: {text}, port: {port}"
        )


def _ip_version(host: str | None) -> Any:
    import ipaddress  # It costs a few milliseconds, and only a rare configuration needs it.

    try:
        return ipaddress.ip_address(host or "").version
    except ValueError:
        return None


def _inter_broker_name(settings: Settings, protocols: Mapping[str, str]) -> str:
    name = settings[INTER_BROKER_NAME]
    if name is None:
        return str(settings[INTER_BROKER_PROTOCOL])
    if settings.is_given(INTER_BROKER_PROTOCOL):
        raise ConfigError(f"Only one of {INTER_BROKER_NAME} and {INTER_BROKER_PROTOCOL} should be set.")
    if name.upper() not in protocols:
        raise ConfigError(
            f"Listener with name {name.upper()} defined in {INTER_BROKER_NAME} not found in {PROTOCOL_MAP}."
        )
    return str(name.upper())
