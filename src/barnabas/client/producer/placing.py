"""From user arguments to bytes and a partition queue: serializers, then the partitioner."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from barnabas.batch.engine.gather import largest_record
from barnabas.batch.engine.murmur import key_partition
from barnabas.batch.view import HEADER_SIZE
from barnabas.client.errors.data import UnknownTopicOrPartitionError
from barnabas.client.errors.local import RecordTooLargeError
from barnabas.client.model import check_topic
from barnabas.client.producer.accumulator import PartitionQueue, TopicQueues
from barnabas.client.producer.delivery import Headers, ProducerRecord
from barnabas.client.producer.partitioners import partitioner
from barnabas.client.serialization.by_name import serializer
from barnabas.config.settings import Settings
from barnabas.runtime.random import Random

# The limits of the protocol's fields.
MAX_PARTITION = 2**31 - 1
MAX_TIMESTAMP_MS = 2**63 - 1
_BYTES_OR_NONE = (bytes, bytearray, memoryview, type(None))

HeadersGiven = Iterable[tuple[str, bytes | None]] | Mapping[str, bytes | None]


class Placed:
    """A serialized record with its partition queue."""

    __slots__ = ("queue", "row", "size", "sticks")

    def __init__(
        self,
        queue: PartitionQueue,
        sticks: bool,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        timestamp_ms: int,
    ) -> None:
        self.queue = queue
        # It follows the topic's sticky partition, rather than this queue.
        self.sticks = sticks
        self.row = (timestamp_ms, key, value, headers)
        # The largest possible size of a batch with this record alone.
        self.size = HEADER_SIZE + largest_record(key, value, headers)


class Placer:
    """Serializers, partitioner and the limits of a record."""

    def __init__(self, settings: Settings, random: Random, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._key_serializer = serializer(settings["key.serializer"], "key.serializer")
        self._value_serializer = serializer(settings["value.serializer"], "value.serializer")
        self._partitioner = partitioner(settings, random)
        self._hashes_keys = not settings["partitioner.ignore.keys"]
        self._max_request_bytes: int = settings["max.request.size"]
        self._memory_bytes: int = settings["buffer.memory"]

    @property
    def is_plain(self) -> bool:
        """Whether there are no serializers, and the built-in partitioner is used."""
        own = self._key_serializer or self._value_serializer or self._partitioner
        return own is None and self._hashes_keys

    def check_types(self, key: Any, value: Any) -> None:
        """Raise TypeError for values that no serializer will turn into bytes."""
        if self._key_serializer is None:
            _check_bytes(key, "key")
        if self._value_serializer is None:
            _check_bytes(value, "value")

    def place(self, record: ProducerRecord, queues: TopicQueues) -> Placed:
        """Return the record's bytes, timestamp and queue."""
        key, value = record.key, record.value
        if self._key_serializer is not None:
            key = self._key_serializer(record.topic, key)
        if self._value_serializer is not None:
            value = self._value_serializer(record.topic, value)
        key, value = _as_bytes(key, "key"), _as_bytes(value, "value")
        timestamp_ms = self._now_ms() if record.timestamp_ms is None else record.timestamp_ms
        queue = self._queue(record, key, value, queues)
        placed = Placed(queue or queues.sticky, queue is None, key, value, record.headers, timestamp_ms)
        for limit, name in (
            (self._max_request_bytes, "max.request.size"),
            (self._memory_bytes, "buffer.memory"),
        ):
            if placed.size > limit:
                raise RecordTooLargeError(
                    f"a record of up to {placed.size} bytes is larger than {name}, {limit}"
                )
        return placed

    def _queue(
        self, record: ProducerRecord, key: bytes | None, value: bytes | None, queues: TopicQueues
    ) -> PartitionQueue | None:
        """Return the queue of a record; None for the topic's current sticky partition."""
        number = record.partition
        if number is None:
            if self._partitioner is not None:
                number = self._partitioner.partition(
                    record.topic, record.key, key, record.value, value, queues.layout
                )
            elif key is not None and self._hashes_keys:
                number = key_partition(key, queues.count)
            else:
                return None
        if not 0 <= number < queues.count:
            raise UnknownTopicOrPartitionError(
                f"topic {record.topic} has {queues.count} partitions, so there is no partition {number}"
            )
        return queues.queues[number]

    def close(self) -> None:
        if self._partitioner is not None and hasattr(self._partitioner, "close"):
            self._partitioner.close()


def headers_of(given: HeadersGiven) -> Headers:
    pairs = given.items() if isinstance(given, Mapping) else given
    headers = tuple((name, content) for name, content in pairs)
    for name, content in headers:
        if not isinstance(name, str) or not isinstance(content, bytes | None):
            raise TypeError(f"a header is a name (str) and bytes or None, not {name!r}: {content!r}")
    return headers


def check_arguments(topic: Any, partition: Any, timestamp_ms: Any, on_delivery: Any) -> None:
    """Reject invalid arguments before anything is awaited."""
    check_topic(topic)
    _check_number(partition, "partition", MAX_PARTITION)
    _check_number(timestamp_ms, "timestamp_ms", MAX_TIMESTAMP_MS)
    if on_delivery is not None and not callable(on_delivery):
        raise TypeError(f"on_delivery must be callable with (metadata, error), but is {on_delivery!r}")


def _check_number(given: Any, name: str, most: int) -> None:
    if given is None:
        return
    if not isinstance(given, int):
        raise TypeError(f"{name} is an int or None, not {type(given).__name__}")
    if not 0 <= given <= most:
        raise ValueError(f"{name} is {given}: it must be between 0 and {most}")


def _check_bytes(given: Any, what: str) -> None:
    if not isinstance(given, _BYTES_OR_NONE):
        raise TypeError(
            f"a {what} must be bytes, not {type(given).__name__}: set {what}_serializer to convert it"
        )


def _as_bytes(given: Any, what: str) -> bytes | None:
    if given is None or type(given) is bytes:
        return given
    _check_bytes(given, what)
    return bytes(given)
