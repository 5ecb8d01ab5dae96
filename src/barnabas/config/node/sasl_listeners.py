"""SASL on the listeners of a node: the mechanisms and login modules of each, and what nodes log in with."""

from __future__ import annotations

from typing import Any

from barnabas.config.errors import ConfigError
from barnabas.config.node.listeners import Listeners
from barnabas.config.settings import Settings

MECHANISMS = "sasl.enabled.mechanisms"
INTER_BROKER_MECHANISM = "sasl.mechanism.inter.broker.protocol"
CONTROLLER_MECHANISM = "sasl.mechanism.controller.protocol"
JAAS = "sasl.jaas.config"
MAX_REAUTH = "connections.max.reauth.ms"
MAX_RECEIVE = "sasl.server.max.receive.size"
BUILT_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


def has_sasl(protocol: str) -> bool:
    """Whether peers log in."""
    return protocol.startswith("SASL_")


def has_tls(protocol: str) -> bool:
    """Whether connections are encrypted."""
    return protocol.endswith("SSL")


def protocol_of(listeners: Listeners, name: str) -> str:
    """The security protocol of a listener's name."""
    return listeners.protocols.get(name.upper(), "PLAINTEXT")


def sasl_listeners(listeners: Listeners) -> frozenset[str]:
    """The names of the listeners on which peers log in."""
    return frozenset(end.listener_name for end in listeners.listeners if has_sasl(end.security_protocol))


def listener_value(settings: Settings, listener: str, option: str) -> Any:
    """The value of an option for one listener: with its prefix, or else without."""
    name = f"listener.name.{listener.lower()}.{option}"
    return settings[name] if settings.is_given(name) else settings[option]


def max_session_ms(settings: Settings, listener: str, mechanism: str) -> int:
    """How long a session of a mechanism lasts before the client must log in again (KIP-368); 0 for ever."""
    name = f"listener.name.{listener.lower()}.{mechanism.lower()}.{MAX_REAUTH}"
    return int(settings[name] if settings.is_given(name) else listener_value(settings, listener, MAX_REAUTH))


def mechanisms_of(settings: Settings, listener: str) -> tuple[str, ...]:
    """The enabled mechanisms; raises ConfigError for one that is not implemented."""
    mechanisms: tuple[str, ...] = tuple(listener_value(settings, listener, MECHANISMS))
    for mechanism in mechanisms:
        check_mechanism(mechanism, f"of the listener {listener}", MECHANISMS)
    if not mechanisms:
        raise ConfigError(f"The listener {listener} has no SASL mechanism; set {MECHANISMS}")
    return mechanisms


def check_mechanism(mechanism: str, whose: str, option: str) -> None:
    """Raises ConfigError for a mechanism that is not implemented."""
    if mechanism not in BUILT_MECHANISMS:
        raise ConfigError(
            f"The SASL mechanism {mechanism} {whose} is not built yet; "
            f"set {option} to one or more of {', '.join(BUILT_MECHANISMS)}"
        )


def mechanism_between(settings: Settings, listener: str, *, to_controllers: bool) -> str:
    """The mechanism by which this node logs in to others on a listener."""
    option = CONTROLLER_MECHANISM if to_controllers else INTER_BROKER_MECHANISM
    mechanism = str(listener_value(settings, listener, option))
    check_mechanism(mechanism, f"towards the listener {listener}", option)
    return mechanism


def jaas_of(settings: Settings, listener: str, mechanism: str) -> str | None:
    """The login module of a mechanism.  As in Apache Kafka, one without both prefixes is ignored."""
    name = jaas_name(listener, mechanism)
    return settings[name].value if settings.is_given(name) else None


def jaas_name(listener: str, mechanism: str) -> str:
    """The option with the login module of a mechanism on a listener."""
    return f"listener.name.{listener.lower()}.{mechanism.lower()}.{JAAS}"
