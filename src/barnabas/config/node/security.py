"""A configured protection that is not implemented prevents startup: there is no silent fallback to plain text
or to allowing everything."""

from __future__ import annotations

from barnabas.config.errors import ConfigError
from barnabas.config.features import BUILT_FEATURES, SECURITY_FEATURES, Feature
from barnabas.config.node.listeners import Listeners, read_listeners
from barnabas.config.node.oauth import refuse_unknown_classes
from barnabas.config.node.sasl_listeners import (
    INTER_BROKER_MECHANISM,
    MECHANISMS,
    check_mechanism,
    has_sasl,
    listener_value,
    mechanism_between,
    mechanisms_of,
    protocol_of,
    sasl_listeners,
)
from barnabas.config.option import Mode
from barnabas.config.scopes import TABLES
from barnabas.config.settings import Settings

AUTHORIZER = "authorizer.class.name"
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ACL_AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"
# Both decide alike; they differ in where the ACLs are.
_AUTHORIZERS = {Mode.KRAFT: STANDARD_AUTHORIZER, Mode.ZOOKEEPER: ACL_AUTHORIZER}


def refuse_unbuilt_security(settings: Settings, built: frozenset[Feature] = BUILT_FEATURES) -> None:
    """Raises ConfigError if these settings require a protection that is not implemented."""
    _refuse_providers(settings)
    if settings.scope == "broker":
        _check_listeners(settings, read_listeners(settings))
        _refuse_authorizer(settings)
        _refuse_tokens(settings)
    elif "security.protocol" in settings and has_sasl(settings["security.protocol"].upper()):
        _check_client(settings["sasl.mechanism"])
    _refuse_options(settings, built)
    refuse_unknown_classes(settings)


def _check_client(mechanism: str | None) -> None:
    if not mechanism:
        raise ConfigError(
            "Invalid value null for configuration sasl.mechanism: When the security.protocol configuration "
            "enables SASL, mechanism must be non-null and non-empty string."
        )
    check_mechanism(mechanism, "of this client", "sasl.mechanism")


def _check_listeners(settings: Settings, listeners: Listeners) -> None:
    between = listeners.inter_broker_name
    if between in sasl_listeners(listeners):
        wanted = listener_value(settings, between, INTER_BROKER_MECHANISM)
        if wanted not in listener_value(settings, between, MECHANISMS):
            raise ConfigError(
                f"{INTER_BROKER_MECHANISM} must be included in {MECHANISMS} when SASL is used for "
                "inter-broker communication"
            )
        mechanism_between(settings, between, to_controllers=False)
    for name in sorted(sasl_listeners(listeners)):
        mechanisms_of(settings, name)
    for name in listeners.controller_names[:1]:
        if has_sasl(protocol_of(listeners, name)):
            mechanism_between(settings, name, to_controllers=True)


def _refuse_authorizer(settings: Settings) -> None:
    """A custom authorizer might make other decisions than the one implemented here."""
    class_name = str(settings[AUTHORIZER])
    built_one = _AUTHORIZERS[settings.mode]
    if class_name not in ("", built_one):
        raise ConfigError(
            f"The authorizer {class_name} is not built yet; set {AUTHORIZER}={built_one},"
            " or remove it if this protection is not needed"
        )


def _refuse_tokens(settings: Settings) -> None:
    if settings.mode is Mode.ZOOKEEPER:
        for name in ("delegation.token.secret.key", "delegation.token.master.key"):
            if settings.is_given(name):
                raise ConfigError(
                    f"The option {name} is set, but delegation tokens are not built yet in ZooKeeper mode; "
                    "remove it if they are not needed"
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
