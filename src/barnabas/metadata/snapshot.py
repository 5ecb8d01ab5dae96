"""Converts an image back to records, each in the version that the cluster's level prescribes."""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.metadata.features import METADATA_VERSION
from barnabas.metadata.image import Image
from barnabas.metadata.levels import (
    CONTROLLED_SHUTDOWN_LEVEL,
    DIRECTORIES_LEVEL,
    ELR_LEVEL,
    ZK_MIGRATION_LEVEL,
)
from barnabas.protocol.records import metadata as records
from barnabas.protocol.schema import Message

# The levels at which the version of a record increases, in ascending order.
_STEPS: dict[type[Message], tuple[int, ...]] = {
    records.RegisterBrokerRecord: (CONTROLLED_SHUTDOWN_LEVEL, ZK_MIGRATION_LEVEL, DIRECTORIES_LEVEL),
    records.PartitionRecord: (DIRECTORIES_LEVEL, ELR_LEVEL),
    records.PartitionChangeRecord: (DIRECTORIES_LEVEL, ELR_LEVEL),
}


def record_version(record: Message, level: int) -> int:
    """The version in which a cluster at this metadata.version level writes a record; often not the newest."""
    if isinstance(record, records.BrokerRegistrationChangeRecord):
        # The lowest version that has the fields, as in Apache Kafka.
        return 2 if record.log_dirs else 1 if record.in_controlled_shutdown else 0
    return sum(level >= step for step in _STEPS.get(type(record), ()))


def records_of(image: Image) -> Iterator[Message]:
    """The records that rebuild this image from an empty one.  Features come first: they set the versions."""
    yield from _features(image)
    for _, broker in sorted(image.brokers.items()):
        yield broker.to_record()
    for _, controller in sorted(image.controllers.items()):
        yield controller.to_record()
    for _, topic in sorted(image.topics.items()):
        yield records.TopicRecord(name=topic.name, topic_id=topic.id)
        for number, partition in sorted(topic.partitions.items()):
            yield partition.to_record(topic.id, number, image.metadata_version)
    for (kind, resource), options in sorted(image.configs.items()):
        for name, value in sorted(options.items()):
            yield records.ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)
    yield from _quotas(image)
    if image.next_producer_id >= 0:
        yield records.ProducerIdsRecord(broker_id=-1, next_producer_id=image.next_producer_id)
    yield from (rule for _, rule in sorted(image.acls.items()))
    yield from (credential for _, credential in sorted(image.scram.items()))
    yield from (token for _, token in sorted(image.tokens.items()))


def _features(image: Image) -> Iterator[Message]:
    """metadata.version comes before all others."""
    for name in sorted(image.features, key=lambda name: (name != METADATA_VERSION, name)):
        yield records.FeatureLevelRecord(name=name, feature_level=image.features[name])
    if image.zk_migration_state:
        yield records.ZkMigrationStateRecord(zk_migration_state=image.zk_migration_state)


def _quotas(image: Image) -> Iterator[Message]:
    for entity, quotas in sorted(image.quotas.items(), key=repr):
        for key, value in sorted(quotas.items()):
            yield records.ClientQuotaRecord(
                entity=[
                    records.ClientQuotaRecord.EntityData(entity_type=kind, entity_name=name)
                    for kind, name in entity
                ],
                key=key,
                value=value,
                remove=False,
            )
