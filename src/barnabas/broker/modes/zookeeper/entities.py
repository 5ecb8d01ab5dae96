"""Entities below /config and what their options mean: records of options, quotas and SCRAM credentials.

Pure: from the options of a znode to the records that bring an image to them, and from records to options.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from barnabas.broker.modes.zookeeper.znodes import paths
from barnabas.broker.modes.zookeeper.znodes.configs import decode_scram, encode_scram
from barnabas.broker.modes.zookeeper.znodes.json_data import MalformedZnodeError
from barnabas.metadata.image import ConfigResource, Image, QuotaEntity
from barnabas.metadata.scram import ScramCredential, ScramMechanism
from barnabas.protocol.json_form import java_double
from barnabas.protocol.records.metadata import (
    ClientQuotaRecord,
    ConfigRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from barnabas.protocol.schema import Message

logger = logging.getLogger(__name__)

USER, CLIENT_ID, IP = "user", "client-id", "ip"
TOPICS, BROKERS, USERS, CLIENTS, IPS = "topics", "brokers", "users", "clients", "ips"
# The types of quotas, by which their values are written.
_WHOLE_QUOTAS = frozenset(("producer_byte_rate", "consumer_byte_rate", "connection_creation_rate"))
_QUOTAS = _WHOLE_QUOTAS | {"request_percentage", "controller_mutation_rate"}
_MECHANISMS = {mechanism.mechanism_name: mechanism for mechanism in ScramMechanism}
_RESOURCE_OF = {TOPICS: ConfigResource.TOPIC, BROKERS: ConfigResource.BROKER}


class Entity(NamedTuple):
    """A kind and a name, and for a client of one user the name of the client, too.  None is the default."""

    kind: str
    name: str | None
    client: str | None = None
    has_client: bool = False

    @property
    def relative_path(self) -> str:
        """As it is announced: `topics/orders`, `users/alice/clients/app`, `brokers/<default>`."""
        path = f"{self.kind}/{_shown(self.kind, self.name)}"
        return f"{path}/{CLIENTS}/{_shown(CLIENTS, self.client)}" if self.has_client else path

    @property
    def path(self) -> str:
        return f"{paths.CONFIG}/{self.relative_path}"

    @property
    def quota_entity(self) -> QuotaEntity:
        """The entity of its quotas; empty if it has none."""
        kind = {USERS: USER, CLIENTS: CLIENT_ID, IPS: IP}.get(self.kind)
        if kind is None:
            return ()
        parts = [(kind, self.name)]
        if self.has_client:
            parts.append((CLIENT_ID, self.client))
        return tuple(sorted(parts))

    @property
    def resource(self) -> tuple[int, str] | None:
        """The resource of its options."""
        kind = _RESOURCE_OF.get(self.kind)
        return None if kind is None else (kind, self.name or "")


def _shown(kind: str, name: str | None) -> str:
    if name is None:
        return paths.DEFAULT_ENTITY
    return paths.sanitize(name) if kind in (USERS, CLIENTS) else name


def _read(kind: str, name: str) -> str | None:
    if name == paths.DEFAULT_ENTITY:
        return None
    return paths.desanitize(name) if kind in (USERS, CLIENTS) else name


def entity_at(relative_path: str) -> Entity:
    """The entity of an announcement; raises ValueError if there is none like this."""
    match relative_path.split("/"):
        case [kind, name] if kind in (TOPICS, BROKERS, USERS, CLIENTS, IPS) and name:
            return Entity(kind, _read(kind, name))
        case ["users", user, "clients", client] if user and client:
            return Entity(USERS, _read(USERS, user), _read(CLIENTS, client), has_client=True)
    raise ValueError(f"{relative_path[:200]!r} is no entity")


def entity_of_quota(entity: QuotaEntity) -> Entity:
    """Where the quotas of an entity are."""
    parts = dict(entity)
    if USER in parts:
        return Entity(USERS, parts[USER], parts.get(CLIENT_ID), has_client=CLIENT_ID in parts)
    if CLIENT_ID in parts:
        return Entity(CLIENTS, parts[CLIENT_ID])
    return Entity(IPS, parts[IP])


def entity_of_resource(kind: int, name: str) -> Entity:
    if kind == ConfigResource.TOPIC:
        return Entity(TOPICS, name)
    return Entity(BROKERS, name or None)


# From options to records ------------------------------------------------------------------------------------


def records_of(image: Image, entity: Entity, options: Mapping[str, str]) -> Iterator[Message]:
    """The records that bring the image to these options, which are all of the entity."""
    if entity.resource is not None:
        yield from _config_records(image, entity.resource, options)
        return
    yield from _quota_records(image, entity, options)
    if entity.kind == USERS and entity.name is not None and not entity.has_client:
        yield from _scram_records(image, entity, options)


def _config_records(image: Image, resource: tuple[int, str], options: Mapping[str, str]) -> Iterator[Message]:
    kind, name = resource
    before = image.configs_of(*resource)
    for option in sorted({*before, *options}):
        value = options.get(option)
        if before.get(option) != value:
            yield ConfigRecord(resource_type=kind, resource_name=name, name=option, value=value)


def _quota_records(image: Image, entity: Entity, options: Mapping[str, str]) -> Iterator[Message]:
    quota_entity = entity.quota_entity
    before: Mapping[str, float] = image.quotas.get(quota_entity, {})
    after: dict[str, float] = {}
    for key in sorted(_QUOTAS & options.keys()):
        try:
            after[key] = float(options[key])
        except ValueError:
            logger.warning("%s: the quota %s is no number and is ignored", entity.path, key)
    parts = [ClientQuotaRecord.EntityData(entity_type=kind, entity_name=name) for kind, name in quota_entity]
    for key in sorted({*before, *after}):
        value = after.get(key)
        if before.get(key) != value:
            yield ClientQuotaRecord(
                entity=parts, key=key, value=0.0 if value is None else value, remove=value is None
            )


def _scram_records(image: Image, entity: Entity, options: Mapping[str, str]) -> Iterator[Message]:
    user = entity.name or ""
    for name, mechanism in _MECHANISMS.items():
        record = None
        if name in options:
            try:
                record = _scram_record(decode_scram(entity.path, user, mechanism, options[name]))
            except MalformedZnodeError as error:
                logger.warning("%s; the user cannot log in with it", error)
        before = image.scram.get((mechanism, user))
        if record is None and before is not None:
            yield RemoveUserScramCredentialRecord(name=user, mechanism=mechanism)
        elif record is not None and record != before:
            yield record


def _scram_record(credential: ScramCredential) -> UserScramCredentialRecord:
    return UserScramCredentialRecord(
        name=credential.name,
        mechanism=credential.mechanism,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )


# From records to options ------------------------------------------------------------------------------------


def entity_of_record(record: Message) -> Entity | None:
    """The entity whose options a record changes."""
    match record:
        case ConfigRecord():
            return entity_of_resource(record.resource_type, record.resource_name)
        case ClientQuotaRecord():
            return entity_of_quota(
                tuple(sorted((part.entity_type, part.entity_name) for part in record.entity))
            )
        case UserScramCredentialRecord() | RemoveUserScramCredentialRecord():
            return Entity(USERS, record.name)
    return None


def apply_records(options: Mapping[str, str], records: Iterable[Message]) -> dict[str, str]:
    """The options of an entity after these records, all of which are its own."""
    changed = dict(options)
    for record in records:
        name, value = _change(record)
        if value is None:
            changed.pop(name, None)
        else:
            changed[name] = value
    return changed


def _change(record: Message) -> tuple[str, str | None]:
    match record:
        case ConfigRecord():
            return record.name, record.value
        case ClientQuotaRecord():
            return record.key, None if record.remove else quota_text(record.key, record.value)
        case UserScramCredentialRecord():
            mechanism = ScramMechanism(record.mechanism)
            credential = ScramCredential(
                record.name,
                mechanism,
                bytes(record.salt),
                bytes(record.stored_key),
                bytes(record.server_key),
                record.iterations,
            )
            return mechanism.mechanism_name, encode_scram(credential)
        case RemoveUserScramCredentialRecord():
            return ScramMechanism(record.mechanism).mechanism_name, None
    raise AssertionError(f"{record.schema.name} changes no options")


def quota_text(key: str, value: float) -> str:
    """Rates in bytes and of connections are whole numbers, the others Java's doubles."""
    return str(int(value)) if key in _WHOLE_QUOTAS else java_double(value)
