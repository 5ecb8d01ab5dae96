"""A configured protection that is not implemented prevents startup: there is no silent fallback to plain text
or to allowing everything."""

from __future__ import annotations

from barnabas.config.errors import ConfigError
from barnabas.config.features import BUILT_FEATURES, SECURITY_FEATURES, Feature
from barnabas.config.node.listeners import PROTOCOL_MAP, Listeners, read_listeners
from barnabas.config.scopes import TABLES
from barnabas.config.settings import Settings

_FEATURES_OF_PROTOCOL = {
    "PLAINTEXT": frozenset[Feature](),
    "SSL": frozenset({Feature.TLS}),
    "SASL_PLAINTEXT": frozenset({Feature.SASL}),
    "SASL_SSL": frozenset({Feature.TLS, Feature.SASL}),
}

AUTHORIZER = "authorizer.class.name"
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def refuse_unbuilt_security(settings: Settings, built: frozenset[Feature] = BUILT_FEATURES) -> None:
    """Raises ConfigError if these settings require a protection that is not implemented."""
    _refuse_providers(settings)
    if settings.scope == "broker":
        _refuse_listeners(read_listeners(settings), built)
        _refuse_authorizer(str(settings[AUTHORIZER]))
    elif "security.protocol" in settings:
        _refuse_protocol(settings["security.protocol"].upper(), "security.protocol", built)
    _refuse_options(settings, built)


def _refuse_listeners(listeners: Listeners, built: frozenset[Feature]) -> None:
    for end in (*listeners.listeners, *listeners.advertised):
        _refuse_protocol(end.security_protocol, f"the listener {end}", built)
    for name in (*listeners.controller_names, listeners.inter_broker_name):
        protocol = listeners.protocols.get(name.upper(), "PLAINTEXT")
        _refuse_protocol(protocol, f"the listener name {name} by {PROTOCOL_MAP}", built)


def _refuse_protocol(protocol: str, who: str, built: frozenset[Feature]) -> None:
    missing = _FEATURES_OF_PROTOCOL[protocol] - built
    if missing:
        names = " and ".join(sorted(missing))
        raise ConfigError(
            f"The security protocol {protocol} is asked for by {who}, but {names} is not built yet; "
            "use PLAINTEXT where the network is trusted"
        )


def _refuse_authorizer(class_name: str) -> None:
    """A custom authorizer might make other decisions than the one implemented here."""
    if class_name not in ("", STANDARD_AUTHORIZER):
        raise ConfigError(
            f"The authorizer {class_name} is not built yet; set {AUTHORIZER}={STANDARD_AUTHORIZER},"
            " or remove it if this protection is not needed"
        )


def _refuse_options(settings: Settings, built: frozenset[Feature]) -> None:
    table = next(table for table in TABLES if table.scope == settings.scope)
    for name in sorted(settings.given):
        option = table.option(name, settings.mode)
        if option is None or option.effect not in SECURITY_FEATURES - built:
            continue
        if settings[name] != table.default(name, settings.mode):
            raise ConfigError(
                f"The option {name} is set, but what it belongs to ({option.effect}) is not built yet; "
                "remove it if this protection is not needed"
            )


def _refuse_providers(settings: Settings) -> None:
    # KIP-297: values such as ${file:/path:key} would otherwise be taken literally, passwords included.
    if "config.providers" in settings.given:
        raise ConfigError(
            "The option config.providers is set, but providers are not built yet; write the values themselves"
        )
