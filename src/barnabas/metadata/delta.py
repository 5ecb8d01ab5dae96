"""The delta: records applied to an image, and what they changed.

Contains the meaning of each metadata record.  Decisions belong in `controller`, reading the log in a store.
Publishers act on a delta by comparing `before` and `image` for the keys in its sets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from operator import attrgetter
from typing import Any

from immutables import Map

from barnabas.base.ids import Uuid
from barnabas.metadata.cluster import Broker, Controller
from barnabas.metadata.features import METADATA_VERSION
from barnabas.metadata.image import ConfigResource, Image, QuotaEntity
from barnabas.metadata.topics import Partition, Topic
from barnabas.protocol.records import metadata as records
from barnabas.protocol.schema import Message

_FIELDS = tuple(field.name for field in fields(Image))
_values = attrgetter(*_FIELDS)


class InconsistentRecordError(Exception):
    """A record contradicts the image: the log and the state disagree, so the node must not continue."""


class Delta:
    """From `before` to `image`.  The sets contain what may differ, including what was changed back."""

    def __init__(self, before: Image) -> None:
        self.before = before
        # Fields of the image that differ.  The image is built on demand, not for every record: many
        # thousands of records are replayed into one delta.
        self._changed: dict[str, Any] = {}
        self._image: Image | None = before
        self.partitions: set[tuple[Uuid, int]] = set()
        self.topics: set[Uuid] = set()
        self.brokers: set[int] = set()
        # Those of `brokers` that registered, for the first time or again.
        self.registered: set[int] = set()
        self.configs: set[tuple[int, str]] = set()
        self.features: set[str] = set()
        self.quotas: set[QuotaEntity] = set()
        self.scram: set[tuple[int, str]] = set()
        self.acls: set[Uuid] = set()

    @classmethod
    def between(cls, before: Image, after: Image) -> Delta:
        """From one image to another that was not built from it: a snapshot of a later offset."""
        delta = cls(before)
        delta._image = after
        delta._changed = {field.name: getattr(after, field.name) for field in fields(Image)}
        delta.topics = _different(before.topics, after.topics)
        for topic_id in delta.topics:
            old, new = before.topics.get(topic_id), after.topics.get(topic_id)
            numbers = _different(
                Map() if old is None else old.partitions, Map() if new is None else new.partitions
            )
            delta.partitions.update((topic_id, number) for number in numbers)
        delta.brokers = _different(before.brokers, after.brokers)
        delta.registered = delta.brokers.intersection(after.brokers)
        delta.configs = _different(before.configs, after.configs)
        delta.features = _different(before.features, after.features)
        delta.quotas = _different(before.quotas, after.quotas)
        delta.scram = _different(before.scram, after.scram)
        delta.acls = _different(before.acls, after.acls)
        return delta

    @property
    def image(self) -> Image:
        """The image after the records so far."""
        if self._image is None:
            # As `dataclasses.replace` would, which takes longer; this is done for every batch of the log.
            self._image = Image(**dict(zip(_FIELDS, _values(self.before), strict=True)) | self._changed)
        return self._image

    def _current(self, field: str) -> Any:
        """The current value of an image field."""
        return self._changed[field] if field in self._changed else getattr(self.before, field)

    def _set(self, **changed: Any) -> None:
        self._changed.update(changed)
        self._image = None

    def replay(self, record: Message) -> None:
        """Replay one record.  InconsistentRecordError leaves the delta unchanged."""
        handler = _HANDLERS.get(type(record))
        if handler is None:
            raise InconsistentRecordError(f"{record.schema.name} does not belong in the metadata log")
        handler(self, record)

    def at(self, offset: int, epoch: int, timestamp_ms: int) -> None:
        """Set the offset, epoch and timestamp of the last record so far."""
        self._set(offset=offset, epoch=epoch, timestamp_ms=timestamp_ms)

    @property
    def removed_topics(self) -> list[Topic]:
        return [
            self.before.topics[topic_id]
            for topic_id in self._known_before()
            if topic_id not in self.image.topics
        ]

    def _known_before(self) -> list[Uuid]:
        return sorted(topic_id for topic_id in self.topics if topic_id in self.before.topics)

    # Topics -----------------------------------------------------------------------------------------

    def _topic(self, record: records.TopicRecord) -> None:
        if record.name in self._current("topic_ids"):
            raise InconsistentRecordError(f"topic {record.name} exists already")
        self._set_topic(Topic.of_record(record))
        self._set(topic_ids=self._current("topic_ids").set(record.name, record.topic_id))

    def _partition(self, record: records.PartitionRecord) -> None:
        topic = self._known_topic(record.topic_id)
        self._set_partition(topic, record.partition_id, Partition.of_record(record))

    def _partition_change(self, record: records.PartitionChangeRecord) -> None:
        topic = self._known_topic(record.topic_id)
        partition = topic.partitions.get(record.partition_id)
        if partition is None:
            raise InconsistentRecordError(f"{topic.name} has no partition {record.partition_id}")
        self._set_partition(topic, record.partition_id, partition.changed_by(record))

    def _remove_topic(self, record: records.RemoveTopicRecord) -> None:
        topic = self._known_topic(record.topic_id)
        self.topics.add(topic.id)
        self.partitions.update((topic.id, number) for number in topic.partitions)
        self._set(
            topics=self._current("topics").delete(topic.id),
            topic_ids=self._current("topic_ids").delete(topic.name),
        )
        self._remove_configs((ConfigResource.TOPIC, topic.name))

    def _clear_elr(self, record: records.ClearElrRecord) -> None:
        """Clear the ELR of one topic, or of all topics if the name is empty."""
        if record.topic_name:
            named = self.image.topic_named(record.topic_name)
            if named is None:
                raise InconsistentRecordError(f"there is no topic {record.topic_name}")
            chosen = [named]
        else:
            chosen = list(self._current("topics").values())
        for topic in chosen:
            for number, partition in topic.partitions.items():
                if partition.elr or partition.last_known_elr:
                    current = self._known_topic(topic.id)
                    self._set_partition(current, number, partition.without_elr())

    def _known_topic(self, topic_id: Uuid) -> Topic:
        topic: Topic | None = self._current("topics").get(topic_id)
        if topic is None:
            raise InconsistentRecordError(f"there is no topic with id {topic_id}")
        return topic

    def _set_topic(self, topic: Topic) -> None:
        self.topics.add(topic.id)
        # Not `_set`: most records of a large log change a topic.
        self._changed["topics"] = self._current("topics").set(topic.id, topic)
        self._image = None

    def _set_partition(self, topic: Topic, number: int, partition: Partition) -> None:
        self.partitions.add((topic.id, number))
        self._set_topic(topic.with_partition(number, partition))

    # Brokers and controllers ---------------------------------------------------------------------------

    def _register_broker(self, record: records.RegisterBrokerRecord) -> None:
        self._set_broker(Broker.of_record(record))
        self.registered.add(record.broker_id)

    def _unregister_broker(self, record: records.UnregisterBrokerRecord) -> None:
        broker = self._known_broker(record.broker_id, record.broker_epoch)
        self.brokers.add(broker.id)
        self._set(brokers=self._current("brokers").delete(broker.id))

    def _change_broker(self, record: records.BrokerRegistrationChangeRecord) -> None:
        self._set_broker(self._known_broker(record.broker_id, record.broker_epoch).changed_by(record))

    def _fence_broker(self, record: records.FenceBrokerRecord) -> None:
        self._set_broker(self._known_broker(record.id, record.epoch).with_fenced(True))

    def _unfence_broker(self, record: records.UnfenceBrokerRecord) -> None:
        self._set_broker(self._known_broker(record.id, record.epoch).with_fenced(False))

    def _known_broker(self, broker_id: int, epoch: int) -> Broker:
        broker: Broker | None = self._current("brokers").get(broker_id)
        if broker is None or broker.epoch != epoch:
            raise InconsistentRecordError(f"there is no broker {broker_id} with epoch {epoch}")
        return broker

    def _set_broker(self, broker: Broker) -> None:
        self.brokers.add(broker.id)
        self._set(brokers=self._current("brokers").set(broker.id, broker))

    def _register_controller(self, record: records.RegisterControllerRecord) -> None:
        controllers = self._current("controllers").set(record.controller_id, Controller.of_record(record))
        self._set(controllers=controllers)

    # Options, features, quotas -------------------------------------------------------------------------

    def _feature(self, record: records.FeatureLevelRecord) -> None:
        """Level 0 removes a feature; metadata.version always has a level."""
        self.features.add(record.name)
        features = self._current("features")
        if record.feature_level or record.name == METADATA_VERSION:
            features = features.set(record.name, record.feature_level)
        elif record.name in features:
            features = features.delete(record.name)
        self._set(features=features)

    def _config(self, record: records.ConfigRecord) -> None:
        resource = (record.resource_type, record.resource_name)
        configs = self.image.configs_of(*resource)
        if record.value is not None:
            configs = configs.set(record.name, record.value)
        elif record.name in configs:
            configs = configs.delete(record.name)
        if not configs:
            self._remove_configs(resource)
            return
        self.configs.add(resource)
        self._set(configs=self._current("configs").set(resource, configs))

    def changes_options_of(self, broker_id: int) -> bool:
        """Whether the options of a broker, which topics without their own take over, may be others."""
        return any(
            kind == ConfigResource.BROKER and name in ("", str(broker_id)) for kind, name in self.configs
        )

    def _remove_configs(self, resource: tuple[int, str]) -> None:
        self.configs.add(resource)
        if resource in self._current("configs"):
            self._set(configs=self._current("configs").delete(resource))

    def _quota(self, record: records.ClientQuotaRecord) -> None:
        entity = tuple(sorted((part.entity_type, part.entity_name) for part in record.entity))
        values: Map[str, float] = self._current("quotas").get(entity, Map())
        if not record.remove:
            values = values.set(record.key, record.value)
        elif record.key in values:
            values = values.delete(record.key)
        quotas = self._current("quotas")
        if values:
            quotas = quotas.set(entity, values)
        elif entity in quotas:
            quotas = quotas.delete(entity)
        self.quotas.add(entity)
        self._set(quotas=quotas)

    def _producer_ids(self, record: records.ProducerIdsRecord) -> None:
        self._set(next_producer_id=record.next_producer_id)

    # Security --------------------------------------------------------------------------------------------

    def _scram(self, record: records.UserScramCredentialRecord) -> None:
        key = (record.mechanism, record.name)
        self.scram.add(key)
        self._set(scram=self._current("scram").set(key, record))

    def _remove_scram(self, record: records.RemoveUserScramCredentialRecord) -> None:
        key = (record.mechanism, record.name)
        if key not in self._current("scram"):
            raise InconsistentRecordError(f"user {record.name} has no such SCRAM credential")
        self.scram.add(key)
        self._set(scram=self._current("scram").delete(key))

    def _acl(self, record: records.AccessControlEntryRecord) -> None:
        self.acls.add(record.id)
        self._set(acls=self._current("acls").set(record.id, record))

    def _remove_acl(self, record: records.RemoveAccessControlEntryRecord) -> None:
        if record.id not in self._current("acls"):
            raise InconsistentRecordError(f"there is no ACL {record.id}")
        self.acls.add(record.id)
        self._set(acls=self._current("acls").delete(record.id))

    def _token(self, record: records.DelegationTokenRecord) -> None:
        self._set(tokens=self._current("tokens").set(record.token_id, record))

    def _remove_token(self, record: records.RemoveDelegationTokenRecord) -> None:
        if record.token_id in self._current("tokens"):
            self._set(tokens=self._current("tokens").delete(record.token_id))

    def _zk_migration(self, record: records.ZkMigrationStateRecord) -> None:
        self._set(zk_migration_state=record.zk_migration_state)

    def _no_effect(self, record: Message) -> None:
        """The record has no effect on the image; `MetadataTransaction` handles transactions."""


def _different(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> set[Any]:
    """The keys whose values differ, or that only one side has."""
    changed = {key for key, value in after.items() if before.get(key) != value}
    return changed | {key for key in before if key not in after}


_HANDLERS: dict[type[Message], Callable[[Delta, Any], None]] = {
    records.TopicRecord: Delta._topic,
    records.PartitionRecord: Delta._partition,
    records.PartitionChangeRecord: Delta._partition_change,
    records.RemoveTopicRecord: Delta._remove_topic,
    records.ClearElrRecord: Delta._clear_elr,
    records.RegisterBrokerRecord: Delta._register_broker,
    records.UnregisterBrokerRecord: Delta._unregister_broker,
    records.BrokerRegistrationChangeRecord: Delta._change_broker,
    records.FenceBrokerRecord: Delta._fence_broker,
    records.UnfenceBrokerRecord: Delta._unfence_broker,
    records.RegisterControllerRecord: Delta._register_controller,
    records.FeatureLevelRecord: Delta._feature,
    records.ConfigRecord: Delta._config,
    records.ClientQuotaRecord: Delta._quota,
    records.ProducerIdsRecord: Delta._producer_ids,
    records.UserScramCredentialRecord: Delta._scram,
    records.RemoveUserScramCredentialRecord: Delta._remove_scram,
    records.AccessControlEntryRecord: Delta._acl,
    records.RemoveAccessControlEntryRecord: Delta._remove_acl,
    records.DelegationTokenRecord: Delta._token,
    records.RemoveDelegationTokenRecord: Delta._remove_token,
    records.ZkMigrationStateRecord: Delta._zk_migration,
    records.NoOpRecord: Delta._no_effect,
    records.BeginTransactionRecord: Delta._no_effect,
    records.EndTransactionRecord: Delta._no_effect,
    records.AbortTransactionRecord: Delta._no_effect,
}
