"""Records on their last steps to the user: interceptors, deserialisers, and how far the user has come.

What lives here: what was given out, and what of it was really taken; commits are made by that.  What may not:
fetching.
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
from barnabas.client.serialization import deserializer
from barnabas.config.settings import Settings

logger = logging.getLogger(__name__)


class Delivery:
    """The last batch of records that was given out."""

    def __init__(self, settings: Settings, subscription: Subscription) -> None:
        self._subscription = subscription
        self._key = deserializer(settings["key.deserializer"], "key.deserializer")
        self._value = deserializer(settings["value.deserializer"], "value.deserializer")
        self._interceptors: list[Any] = interceptors(settings["interceptor.classes"], settings)
        # What was polled and how much of it the user has had: all, unless it is iterated over.
        self.records: list[ConsumerRecord] = []
        self.taken = 0
        # What was polled but could not be given yet: a record before it cannot be read.
        self._raw: list[ConsumerRecord] = []

    # ------------------------------------------------------------------------------------------ giving out

    def give(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """Records as the user gets them."""
        if self._key is not None or self._value is not None:
            records = self._deserialized(records)
        for one in self._interceptors:
            if hasattr(one, "on_consume"):
                try:
                    records = one.on_consume(records)
                except Exception:
                    logger.exception("the interceptor %r failed in on_consume", one)
        self.records = records
        self.taken = len(records)
        return records

    def left(self, most: int) -> list[ConsumerRecord]:
        """What an iteration left over when it ended, or a record that could not be read stopped."""
        if self.taken < len(self.records):
            rest = self.records[self.taken : self.taken + most]
            self.records = self.records[self.taken :]
            self.taken = len(rest)
            return rest
        if self._raw:
            raw, self._raw = self._raw, []
            return self.give(raw)
        return []

    def begin(self, records: list[ConsumerRecord]) -> None:
        """They are taken one by one from now on."""
        self.records = records
        self.taken = 0

    def _deserialized(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        key, value = self._key, self._value
        for index, record in enumerate(records):
            try:
                if key is not None:
                    record.key = key(record.topic, record.key)  # type: ignore[arg-type]  # bytes until now
                if value is not None:
                    record.value = value(record.topic, record.value)  # type: ignore[arg-type]  # the same
            except Exception as error:
                self._raw = records[index:]
                if index:
                    return records[:index]
                raise RecordDeserializationError(
                    f"the record at offset {record.offset} of {record.topic}-{record.partition} cannot be "
                    f"deserialised: {error}"
                ) from error
        return records

    # ---------------------------------------------------------------------------------------- how far it is

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What may be committed: the position in every partition that has one."""
        return {
            where: OffsetAndMetadata(self.consumed_offset(state), state.offset_epoch)
            for where, state in self._subscription.partitions.items()
            if state.has_position
        }

    def consumed_offset(self, state: PartitionState) -> int:
        offset = state.position
        for record in self._pending():
            if record.partition == state.where.partition and record.topic == state.where.topic:
                return min(offset, record.offset)
        return offset

    def _pending(self) -> Sequence[ConsumerRecord]:
        return [*self.records[self.taken :], *self._raw]

    def rewind(self, where: TopicPartition | None = None) -> None:
        """What was not taken yet is read again later: of one partition, or of all."""
        for state in self._subscription.partitions.values():
            if (where is None or state.where == where) and state.has_position:
                offset = self.consumed_offset(state)
                if offset != state.position:
                    state.seek(offset)
        if where is None:
            self.forget_all()
        else:
            self.forget(where)

    def forget(self, where: TopicPartition) -> None:
        """Nothing of what was not taken of a partition is given any more."""
        topic, partition = where
        self.records = [
            one for one in self.records[self.taken :] if one.partition != partition or one.topic != topic
        ]
        self.taken = 0
        self._raw = [one for one in self._raw if one.partition != partition or one.topic != topic]

    def forget_all(self) -> None:
        self.records, self.taken, self._raw = [], 0, []

    def committed(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: KafkaError | None
    ) -> None:
        """Interceptors hear of commits."""
        if error is not None:
            return
        for one in self._interceptors:
            if hasattr(one, "on_commit"):
                try:
                    one.on_commit(offsets)
                except Exception:
                    logger.exception("the interceptor %r failed in on_commit", one)

    def close(self) -> None:
        for one in self._interceptors:
            if hasattr(one, "close"):
                one.close()
