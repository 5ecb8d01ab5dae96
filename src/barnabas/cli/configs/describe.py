"""`barnabas configs --describe`: options with their sources, quotas, credentials."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.hashing import java_string_hash
from barnabas.base.java_order import buckets_for, hash_map_order, order_by_hash
from barnabas.base.topic_names import fault_of
from barnabas.cli.configs.entities import (
    BROKERS,
    CLIENTS,
    GROUPS,
    IPS,
    LOGGERS,
    METRICS,
    TOPICS,
    USERS,
    Entities,
)
from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.cli.framework.kafka_errors import exit_code, java_name
from barnabas.client.admin.configs import ConfigEntry, ConfigResource, ConfigResourceType
from barnabas.client.admin.security.quotas import QuotaEntity, QuotaFilter, QuotaMatch
from barnabas.client.sync import Admin
from barnabas.config.layers import ConfigSource
from barnabas.protocol.json_form import java_double

RESOURCE_TYPES = {
    TOPICS: ConfigResourceType.TOPIC,
    BROKERS: ConfigResourceType.BROKER,
    LOGGERS: ConfigResourceType.BROKER_LOGGER,
    METRICS: ConfigResourceType.CLIENT_METRICS,
    GROUPS: ConfigResourceType.GROUP,
}
DYNAMIC_SOURCES = {
    TOPICS: ConfigSource.DYNAMIC_TOPIC_CONFIG,
    BROKERS: ConfigSource.DYNAMIC_BROKER_CONFIG,
    METRICS: ConfigSource.CLIENT_METRICS_CONFIG,
    GROUPS: ConfigSource.GROUP_CONFIG,
}
SOURCE_NAMES = {
    ConfigSource.CLIENT_METRICS_CONFIG: "DYNAMIC_CLIENT_METRICS_CONFIG",
    ConfigSource.GROUP_CONFIG: "DYNAMIC_GROUP_CONFIG",
}
QUOTA_TYPES = {USERS: "user", CLIENTS: "client-id", IPS: "ip"}
QUOTA_LABELS = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}


def describe(admin: Admin, entities: Entities, *, every: bool) -> Exit:
    """Print the entities; a missing one is reported, and determines the exit code."""
    if entities.first_type in RESOURCE_TYPES:
        return describe_resources(admin, entities, every)
    describe_quotas(admin, entities)
    if entities.first_type == USERS and CLIENTS not in entities.types and not entities.is_default:
        return describe_credentials(admin, entities)
    return Exit.OK


# Options ----------------------------------------------------------------------------------------------------


def describe_resources(admin: Admin, entities: Entities, every: bool) -> Exit:
    kind = entities.first_type
    names = list(entities.names[:1]) or known_names(admin, kind)
    if entities.has_name and not every and names[0] not in existing_names(admin, kind, names[0]):
        print(f"The {kind[:-1]} '{names[0]}' doesn't exist and doesn't have dynamic config.", file=sys.stderr)
        return Exit.NOT_FOUND
    for name in names:
        if name:
            print(f"{'All' if every else 'Dynamic'} configs for {kind[:-1]} {name} are:")
        else:
            print(f"Default configs for {kind} in the cluster are:")
        for entry in resource_config(admin, kind, name, every=every, synonyms=True):
            print(_line(entry))
    return Exit.OK


def _line(entry: ConfigEntry) -> str:
    synonyms = ", ".join(
        f"{SOURCE_NAMES.get(synonym.source, synonym.source.name)}:{synonym.name}={_text(synonym.value)}"
        for synonym in entry.synonyms
    )
    sensitive = str(entry.is_sensitive).lower()
    return f"  {entry.name}={_text(entry.value)} sensitive={sensitive} synonyms={{{synonyms}}}"


def _text(value: str | None) -> str:
    return "null" if value is None else value


def known_names(admin: Admin, kind: str) -> list[str]:
    """The names of all entities of a type."""
    if kind == TOPICS:
        return hash_map_order(admin.list_topics(include_internal=True))
    if kind in (BROKERS, LOGGERS):
        return [*(str(node.id) for node in admin.describe_cluster().nodes), ""]
    configured = [resource.name for resource in admin.list_config_resources([RESOURCE_TYPES[kind]])]
    if kind == GROUPS:
        return list(dict.fromkeys([*(group.group_id for group in admin.list_groups().groups), *configured]))
    return configured


def existing_names(admin: Admin, kind: str, name: str) -> list[str]:
    if kind == TOPICS:
        _check_topic(name)
    return known_names(admin, kind)


def _check_topic(name: str) -> None:
    fault = fault_of(name)
    if fault is not None:
        raise CommandError(f"Topic name is invalid: {fault}")


def resource_config(
    admin: Admin, kind: str, name: str, *, every: bool = False, synonyms: bool = False
) -> list[ConfigEntry]:
    """The options of an entity, sorted by name; without `every`, only those set for the entity itself."""
    if kind == TOPICS:
        _check_topic(name)
    resource = ConfigResource(RESOURCE_TYPES[kind], name)
    configs = admin.describe_configs([resource], include_synonyms=synonyms)[resource]
    wanted = DYNAMIC_SOURCES.get(kind)
    if kind == BROKERS and not name:
        wanted = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    entries = sorted(configs.values(), key=lambda entry: entry.name)
    return [entry for entry in entries if every or wanted is None or entry.source is wanted]


# Quotas and credentials -------------------------------------------------------------------------------------


def quotas_of(admin: Admin, entities: Entities) -> Mapping[QuotaEntity, Mapping[str, float]]:
    """The quotas of exactly these types, with the given names, or with any name if none is given."""
    names: list[str | None] = [*entities.names, *(None for _ in entities.types)]
    parts = [_part(QUOTA_TYPES[kind], name) for kind, name in zip(entities.types, names, strict=False)]
    return admin.describe_client_quotas(parts, strict=True)


def _part(kind: str, name: str | None) -> QuotaFilter:
    if name is None:
        return QuotaFilter(kind)
    return QuotaFilter(kind, QuotaMatch.EXACT, name) if name else QuotaFilter(kind, QuotaMatch.DEFAULT)


def describe_quotas(admin: Admin, entities: Entities) -> None:
    quotas = quotas_of(admin, entities)
    for entity in order_by_hash(quotas, _java_hash, buckets_for(len(quotas))):
        parts = dict(entity)
        entity_text = ", ".join(
            f"the default {label}" if parts[kind] is None else f"{label} '{parts[kind]}'"
            for kind, label in QUOTA_LABELS.items()
            if kind in parts
        )
        values = quotas[entity]
        shown = ", ".join(
            f"{key}={java_double(values[key])}" for key in hash_map_order(values, buckets_for(len(values)))
        )
        print(f"Quota configs for {entity_text} are {shown}")


def _java_hash(entity: QuotaEntity) -> int:
    """The hash code of Apache Kafka's ClientQuotaEntity, which its client keeps in a hash map."""
    return 31 + sum(java_string_hash(kind) ^ (java_string_hash(name) if name else 0) for kind, name in entity)


def describe_credentials(admin: Admin, entities: Entities) -> Exit:
    worst = Exit.OK
    credentials = admin.describe_user_scram_credentials(list(entities.names) or None)
    for user in credentials:
        try:
            mechanisms = credentials[user]
        except KafkaError as error:
            if error.code is ErrorCode.RESOURCE_NOT_FOUND:
                continue
            name = java_name(error.code).rpartition(".")[2]
            print(
                f"Error retrieving SCRAM credential configs for user-principal '{user}': "
                f"{name}: {error.message}",
                file=sys.stderr,
            )
            worst = exit_code(error)
            continue
        shown = ", ".join(
            f"{info.mechanism.mechanism_name}=iterations={info.iterations}" for info in mechanisms
        )
        print(f"SCRAM credential configs for user-principal '{user}' are {shown}")
    return worst
