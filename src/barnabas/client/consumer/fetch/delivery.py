"""Delivery of records to the user: interceptors, deserializers, and the consumed position.

Contains what was delivered, and how much of it the user has consumed, which determines commits.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from barnabas.base.errors import KafkaError
from barnabas.batch.engine.consume import ConsumerRecord
from barnabas.client.consumer.subscription import PartitionState, Subscription
from barnabas.client.errors.local import RecordDeserializationError
from barnabas.client.model import OffsetAndMetadata, TopicPartition
from barnabas.client.producer.interceptors import interceptors
from barnabas.client.serialization.by_name import deserializer
from barnabas.config.settings import Settings

logger = logging.getLogger(__name__)


class Delivery:
    """The last records that were delivered."""

    def __init__(self, settings: Settings, subscription: Subscription) -> None:
        self._subscription = subscription
        self._key = deserializer(settings["key.deserializer"], "key.deserializer")
        self._value = deserializer(settings["value.deserializer"], "value.deserializer")
        self._interceptors: list[Any] = interceptors(settings["interceptor.classes"], settings)
        # The polled records and how many of them the user has consumed: all, unless it iterates over them.
        self.returned_count = 0
        self.records: list[ConsumerRecord[Any, Any]] = []
        self.taken = 0
        # Polled records that follow one that cannot be deserialized.
        self._raw: list[ConsumerRecord[Any, Any]] = []

    # ----------------------------------------------------------------------------------------------- delivery

    def give(self, records: list[ConsumerRecord[Any, Any]]) -> list[ConsumerRecord[Any, Any]]:
        """Apply deserializers and interceptors to records."""
        if self._key is not None or self._value is not None:
            records = self._deserialized(records)
        for interceptor in self._interceptors:
            if hasattr(interceptor, "on_consume"):
                try:
                    records = interceptor.on_consume(records)
                except Exception:
                    logger.exception("the interceptor %r failed in on_consume", interceptor)
        self.records = records
        self.taken = len(records)
        self.returned_count += self.taken
        return records

    def left(self, most: int) -> list[ConsumerRecord[Any, Any]]:
        """Return what an ended iteration, or a record that could not be deserialized, left undelivered."""
        if self.taken < len(self.records):
            undelivered = self.records[self.taken : self.taken + most]
            self.records = self.records[self.taken :]
            self.taken = len(undelivered)
            return undelivered
        if self._raw:
            raw, self._raw = self._raw, []
            return self.give(raw)
        return []

    def begin(self, records: list[ConsumerRecord[Any, Any]]) -> None:
        """From now on the records are consumed one by one."""
        self.records = records
        self.taken = 0

    def _deserialized(self, records: list[ConsumerRecord[Any, Any]]) -> list[ConsumerRecord[Any, Any]]:
        key, value = self._key, self._value
        for index, record in enumerate(records):
            try:
                if key is not None:
                    record.key = key(record.topic, record.key)
                if value is not None:
                    record.value = value(record.topic, record.value)
            except Exception as error:
                self._raw = records[index:]
                if index:
                    return records[:index]
                raise RecordDeserializationError(
                    f"the record at offset {record.offset} of {record.topic}-{record.partition} cannot be "
                    f"deserialized: {error}"
                ) from error
        return records

    # ---------------------------------------------------------------------------------------------- positions

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets that may be committed: the position of every partition that has one."""
        return {
            partition: OffsetAndMetadata(self.consumed_offset(state), state.offset_epoch)
            for partition, state in self._subscription.partitions.items()
            if state.has_position
        }

    def consumed_offset(self, state: PartitionState) -> int:
        offset = state.position
        for record in self._pending():
            if (
                record.partition == state.topic_partition.partition
                and record.topic == state.topic_partition.topic
            ):
                return min(offset, record.offset)
        return offset

    def _pending(self) -> Sequence[ConsumerRecord[Any, Any]]:
        return [*self.records[self.taken :], *self._raw]

    def rewind(self, topic_partition: TopicPartition | None = None) -> None:
        """Reset positions so that undelivered records are read again: of one partition, or of all."""
        for state in self._subscription.partitions.values():
            if (topic_partition is None or state.topic_partition == topic_partition) and state.has_position:
                offset = self.consumed_offset(state)
                if offset != state.position:
                    state.seek(offset)
        if topic_partition is None:
            self.forget_all()
        else:
            self.forget(topic_partition)

    def forget(self, topic_partition: TopicPartition) -> None:
        """Discard the undelivered records of a partition."""
        topic, partition = topic_partition
        self.records = [
            record
            for record in self.records[self.taken :]
            if record.partition != partition or record.topic != topic
        ]
        self.taken = 0
        self._raw = [record for record in self._raw if record.partition != partition or record.topic != topic]

    def forget_all(self) -> None:
        self.records, self.taken, self._raw = [], 0, []

    def committed(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: KafkaError | None
    ) -> None:
        """Notify the interceptors of a commit."""
        if error is not None:
            return
        for interceptor in self._interceptors:
            if hasattr(interceptor, "on_commit"):
                try:
                    interceptor.on_commit(offsets)
                except Exception:
                    logger.exception("the interceptor %r failed in on_commit", interceptor)

    def close(self) -> None:
        for interceptor in self._interceptors:
            if hasattr(interceptor, "close"):
                interceptor.close()
