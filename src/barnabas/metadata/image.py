"""The image: the cluster metadata at one offset of the metadata log, as one immutable value.

Images share structure, so a new one costs only what its delta changed, regardless of the number of
partitions.  Changes belong in `delta`, serialization in `snapshot`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from immutables import Map

from barnabas.base.ids import Uuid
from barnabas.metadata.cluster import Broker, Controller
from barnabas.metadata.features import METADATA_VERSION, OLDEST_METADATA_VERSION
from barnabas.metadata.topics import Partition, Topic
from barnabas.protocol.records.metadata import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    UserScramCredentialRecord,
)


class ConfigResource(IntEnum):
    """Resource types that have configs, by their number in records and requests."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


# A quota entity: sorted pairs of type ("user", "client-id", "ip") and name; None is the default entity.
QuotaEntity = tuple[tuple[str, str | None], ...]
Quotas = Mapping[QuotaEntity, Mapping[str, float]]
_USER, _CLIENT_ID = "user", "client-id"


@dataclass(frozen=True, slots=True)
class Image:
    """All metadata, immutable.  Offset and epoch are those of the last applied record; -1 if empty."""

    offset: int = -1
    epoch: int = -1
    timestamp_ms: int = -1
    topics: Map[Uuid, Topic] = field(default_factory=Map)
    topic_ids: Map[str, Uuid] = field(default_factory=Map)
    brokers: Map[int, Broker] = field(default_factory=Map)
    controllers: Map[int, Controller] = field(default_factory=Map)
    features: Map[str, int] = field(default_factory=Map)
    configs: Map[tuple[int, str], Map[str, str]] = field(default_factory=Map)
    quotas: Map[QuotaEntity, Map[str, float]] = field(default_factory=Map)
    scram: Map[tuple[int, str], UserScramCredentialRecord] = field(default_factory=Map)
    acls: Map[Uuid, AccessControlEntryRecord] = field(default_factory=Map)
    tokens: Map[str, DelegationTokenRecord] = field(default_factory=Map)
    next_producer_id: int = -1
    zk_migration_state: int = 0

    @property
    def metadata_version(self) -> int:
        """The level that determines which records may be written, and in which versions."""
        return self.features.get(METADATA_VERSION, OLDEST_METADATA_VERSION.level)

    def topic_named(self, name: str) -> Topic | None:
        topic_id = self.topic_ids.get(name)
        return None if topic_id is None else self.topics[topic_id]

    def partition(self, topic_id: Uuid, number: int) -> Partition | None:
        topic = self.topics.get(topic_id)
        return None if topic is None else topic.partitions.get(number)

    def configs_of(self, kind: int, name: str) -> Map[str, str]:
        """The configs set for a resource; the empty name is the default for all brokers."""
        configs: Map[str, str] = self.configs.get((kind, name), _NO_CONFIGS)
        return configs


class AppliedQuota(NamedTuple):
    """The quota of a client, and whose usage counts together: a name is empty if it is not told apart."""

    bound: float
    user: str
    client_id: str


def quota_for(quotas: Quotas, key: str, user: str, client_id: str) -> AppliedQuota | None:
    """The most specific quota of a client (KIP-55)."""
    for entity, counted_user, counted_client_id in _quota_entities(user, client_id):
        bound = quotas.get(entity, {}).get(key)
        if bound is not None:
            return AppliedQuota(bound, counted_user, counted_client_id)
    return None


def _quota_entities(user: str, client_id: str) -> Iterator[tuple[QuotaEntity, str, str]]:
    for name in (user, None):
        yield ((_CLIENT_ID, client_id), (_USER, name)), user, client_id
        yield ((_CLIENT_ID, None), (_USER, name)), user, client_id
        yield ((_USER, name),), user, ""
    yield ((_CLIENT_ID, client_id),), "", client_id
    yield ((_CLIENT_ID, None),), "", client_id


_NO_CONFIGS: Map[str, str] = Map()
EMPTY_IMAGE = Image()
