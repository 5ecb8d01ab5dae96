"""The entities that a command line names: types and names, and which types combine."""

from __future__ import annotations

import ipaddress
from argparse import ArgumentTypeError, Namespace
from dataclasses import dataclass

from barnabas.cli.framework.exits import UsageError
from barnabas.cli.framework.numbers import integer

TOPICS, CLIENTS, USERS, BROKERS, IPS = "topics", "clients", "users", "brokers", "ips"
LOGGERS, METRICS, GROUPS = "broker-loggers", "client-metrics", "groups"
TYPES = (TOPICS, CLIENTS, USERS, BROKERS, IPS, METRICS, GROUPS, LOGGERS)
# Types that have a default entity.
WITH_DEFAULT = (USERS, CLIENTS, BROKERS, IPS)
ENTITY_FLAGS = {
    "--topic": TOPICS,
    "--client": CLIENTS,
    "--user": USERS,
    "--broker": BROKERS,
    "--broker-logger": LOGGERS,
    "--ip": IPS,
    "--client-metrics": METRICS,
    "--group": GROUPS,
}
DEFAULT_FLAGS = {
    "--client-defaults": CLIENTS,
    "--user-defaults": USERS,
    "--broker-defaults": BROKERS,
    "--ip-defaults": IPS,
}


@dataclass(frozen=True, slots=True)
class Entities:
    """Types, and the given names; the empty name stands for the default entity of a type."""

    types: tuple[str, ...]
    names: tuple[str, ...]

    @property
    def first_type(self) -> str:
        return self.types[0]

    @property
    def is_default(self) -> bool:
        return "" in self.names

    @property
    def has_name(self) -> bool:
        return any(self.names)


def read_entities(options: Namespace) -> Entities:
    """The entities of the flags; short flags follow in the order of ENTITY_FLAGS."""
    short = {flag: _value(options, flag) for flag in ENTITY_FLAGS}
    defaults = [flag for flag in DEFAULT_FLAGS if _value(options, flag)]
    given = [flag for flag, value in short.items() if value is not None]
    types = [*(options.entity_type or ()), *(ENTITY_FLAGS[flag] for flag in given)]
    names = [*(options.entity_names or ()), *(str(short[flag]) for flag in given), *("" for _ in defaults)]
    if (options.entity_type or options.entity_names) and (given or defaults):
        _refuse_duplicates([*types, *(DEFAULT_FLAGS[flag] for flag in defaults)])
        raise UsageError(
            "--entity-{type,name,default} should not be used in conjunction with specific entity flags"
        )
    return Entities((*types, *(DEFAULT_FLAGS[flag] for flag in defaults)), tuple(names))


def _value(options: Namespace, flag: str) -> str | bool | None:
    value: str | bool | None = getattr(options, flag.lstrip("-").replace("-", "_"))
    return value


def _refuse_duplicates(types: list[str]) -> None:
    twice = [kind for index, kind in enumerate(types) if kind in types[:index]]
    if twice:
        raise UsageError(f"Duplicate entity type(s) specified: {','.join(twice)}")


def check_entities(options: Namespace) -> Entities:
    """The entities, checked as far as possible without a cluster."""
    entities = read_entities(options)
    _check_types(entities)
    _check_names(entities)
    if options.describe:
        if entities.is_default and not set(entities.types) & set(WITH_DEFAULT):
            raise UsageError(
                f"--entity-default must not be specified with --describe of {','.join(entities.types)}"
            )
        if LOGGERS in entities.types and not entities.has_name:
            raise UsageError(f"An entity name must be specified with --describe of {LOGGERS}")
    elif set(entities.types) & set(WITH_DEFAULT):
        if not entities.names:
            raise UsageError(
                "An entity-name or default entity must be specified with --alter of users, clients, "
                "brokers or ips"
            )
    elif not entities.has_name:
        raise UsageError(f"An entity name must be specified with --alter of {','.join(entities.types)}")
    if options.alter and len(entities.types) != len(entities.names):
        raise UsageError("An entity name must be specified for every entity type")
    return entities


def _check_types(entities: Entities) -> None:
    _refuse_duplicates(list(entities.types))
    for kind in entities.types:
        if kind not in TYPES:
            raise UsageError(
                f"Invalid entity type {kind}, the entity type must be one of {', '.join(TYPES)} with a "
                "--bootstrap-server or --bootstrap-controller argument"
            )
    if not entities.types:
        raise UsageError("At least one entity type must be specified")
    if len(entities.types) > 1 and set(entities.types) != {USERS, CLIENTS}:
        raise UsageError(f"Only '{USERS}' and '{CLIENTS}' entity types may be specified together")


def _check_names(entities: Entities) -> None:
    kind = entities.first_type
    for name in filter(None, entities.names):
        if kind in (BROKERS, LOGGERS) and not _is_number(name):
            raise UsageError(
                f"The entity name for {kind} must be a valid integer broker id, but it is: {name}"
            )
        if kind == IPS and not _is_address(name):
            raise UsageError(
                f"The entity name for {kind} must be a valid IP or resolvable host, but it is: {name}"
            )


def _is_number(text: str) -> bool:
    try:
        integer(text)
    except ArgumentTypeError:
        return False
    return True


def _is_address(text: str) -> bool:
    """An IP address, or a possible host name; the broker resolves it."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return all(part and part.replace("-", "").isalnum() for part in text.split("."))
    return True
