"""Records of the metadata log: every change of the cluster is one of these.

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, float64, int8, int16, int32, int64, string, uint16, uuid


class AbortTransactionRecord(Message, key=25, versions=(0, 0), flexible=0):
    """The records since the matching begin are discarded."""

    reason: string | None = field(tag=0, default=None)


class AccessControlEntryRecord(Message, key=18, versions=(0, 0), flexible=0):
    """An ACL was created."""

    id: uuid
    resource_type: int8
    resource_name: string
    pattern_type: int8
    principal: string
    host: string
    operation: int8
    permission_type: int8


class BeginTransactionRecord(Message, key=23, versions=(0, 0), flexible=0):
    """The following records take effect only with the matching end (KIP-868)."""

    name: string | None = field(tag=0, default=None)


class BrokerRegistrationChangeRecord(Message, key=17, versions=(0, 2), flexible=0):
    """A broker is fenced, unfenced, shutting down or has other directories."""

    broker_id: int32
    broker_epoch: int64
    fenced: int8 = field(tag=0, default=0)
    in_controlled_shutdown: int8 = field("1+", tag=1, default=0)
    log_dirs: list[uuid] = field("2+", tag=2, default=[])


class ClearElrRecord(Message, key=28, versions=(0, 0), flexible=0):
    """Clears the eligible leader replicas of a topic, or of all topics."""

    topic_name: string


class ClientQuotaRecord(Message, key=14, versions=(0, 0), flexible=0):
    """A quota of an entity was set or removed."""

    class EntityData(Message):
        entity_type: string
        entity_name: string | None

    entity: list[EntityData]
    key: string
    value: float64
    remove: bool


class ConfigRecord(Message, key=4, versions=(0, 0), flexible=0):
    """An option of a resource was set, or with null removed."""

    resource_type: int8
    resource_name: string
    name: string
    value: string | None


class DelegationTokenRecord(Message, key=10, versions=(0, 0), flexible=0):
    """A delegation token was created."""

    owner: string
    requester: string
    renewers: list[string]
    issue_timestamp: int64
    max_timestamp: int64
    expiration_timestamp: int64
    token_id: string


class EndTransactionRecord(Message, key=24, versions=(0, 0), flexible=0):
    """The records since the matching begin take effect."""


class FeatureLevelRecord(Message, key=12, versions=(0, 0), flexible=0):
    """A feature has a new level."""

    name: string
    feature_level: int16


class FenceBrokerRecord(Message, key=7, versions=(0, 0), flexible=0):
    """A broker lost its lease (replaced by BrokerRegistrationChangeRecord)."""

    id: int32
    epoch: int64


class NoOpRecord(Message, key=20, versions=(0, 0), flexible=0):
    """Changes nothing; it only advances the log."""


class PartitionChangeRecord(Message, key=5, versions=(0, 2), flexible=0):
    """Changes of a partition; unchanged fields are absent."""

    partition_id: int32 = field(default=-1)
    topic_id: uuid
    isr: list[int32] | None = field(tag=0, default=None)
    leader: int32 = field(tag=1, default=-2)
    replicas: list[int32] | None = field(tag=2, default=None)
    removing_replicas: list[int32] | None = field(tag=3, default=None)
    adding_replicas: list[int32] | None = field(tag=4, default=None)
    leader_recovery_state: int8 = field(tag=5, default=-1)
    directories: list[uuid] | None = field("1+", tag=8, default=None)
    eligible_leader_replicas: list[int32] | None = field("2+", tag=6, default=None)
    last_known_elr: list[int32] | None = field("2+", tag=7, default=None)


class PartitionRecord(Message, key=3, versions=(0, 2), flexible=0):
    """A partition with its replicas and leader."""

    partition_id: int32 = field(default=-1)
    topic_id: uuid
    replicas: list[int32]
    isr: list[int32]
    removing_replicas: list[int32]
    adding_replicas: list[int32]
    leader: int32 = field(default=-1)
    leader_recovery_state: int8 = field(tag=0, default=0)
    leader_epoch: int32 = field(default=-1)
    partition_epoch: int32 = field(default=-1)
    directories: list[uuid] = field("1+", default=[])
    eligible_leader_replicas: list[int32] | None = field("2+", tag=1, default=None)
    last_known_elr: list[int32] | None = field("2+", tag=2, default=None)


class ProducerIdsRecord(Message, key=15, versions=(0, 0), flexible=0):
    """Producer ids below the given one are allocated."""

    broker_id: int32
    broker_epoch: int64 = field(default=-1)
    next_producer_id: int64


class RegisterBrokerRecord(Message, key=0, versions=(0, 3), flexible=0):
    """A broker is registered."""

    class BrokerEndpoint(Message):
        name: string
        host: string
        port: uint16
        security_protocol: int16

    class BrokerFeature(Message):
        name: string
        min_supported_version: int16
        max_supported_version: int16

    broker_id: int32
    is_migrating_zk_broker: bool = field("2+", default=False)
    incarnation_id: uuid
    broker_epoch: int64
    end_points: list[BrokerEndpoint]
    features: list[BrokerFeature]
    rack: string | None
    fenced: bool = field(default=True)
    in_controlled_shutdown: bool = field("1+", default=False)
    log_dirs: list[uuid] = field("3+", tag=0, default=[])


class RegisterControllerRecord(Message, key=27, versions=(0, 0), flexible=0):
    """A controller is registered."""

    class ControllerEndpoint(Message):
        name: string
        host: string
        port: uint16
        security_protocol: int16

    class ControllerFeature(Message):
        name: string
        min_supported_version: int16
        max_supported_version: int16

    controller_id: int32
    incarnation_id: uuid
    zk_migration_ready: bool
    end_points: list[ControllerEndpoint]
    features: list[ControllerFeature]


class RemoveAccessControlEntryRecord(Message, key=19, versions=(0, 0), flexible=0):
    """An ACL was deleted."""

    id: uuid


class RemoveDelegationTokenRecord(Message, key=26, versions=(0, 0), flexible=0):
    """A delegation token was removed."""

    token_id: string


class RemoveTopicRecord(Message, key=9, versions=(0, 0), flexible=0):
    """A topic and its partitions were deleted."""

    topic_id: uuid


class RemoveUserScramCredentialRecord(Message, key=22, versions=(0, 0), flexible=0):
    """A user's SCRAM credential was deleted."""

    name: string
    mechanism: int8


class TopicRecord(Message, key=2, versions=(0, 0), flexible=0):
    """A topic was created."""

    name: string
    topic_id: uuid


class UnfenceBrokerRecord(Message, key=8, versions=(0, 0), flexible=0):
    """A broker has its lease (replaced by BrokerRegistrationChangeRecord)."""

    id: int32
    epoch: int64


class UnregisterBrokerRecord(Message, key=1, versions=(0, 0), flexible=0):
    """A broker is no longer registered."""

    broker_id: int32
    broker_epoch: int64


class UserScramCredentialRecord(Message, key=11, versions=(0, 0), flexible=0):
    """A user's SCRAM credential was created."""

    name: string
    mechanism: int8
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int32


class ZkMigrationStateRecord(Message, key=21, versions=(0, 0), flexible=0):
    """The state of the migration from ZooKeeper to KRaft."""

    zk_migration_state: int8
