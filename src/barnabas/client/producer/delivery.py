"""What a producer is given, and what it gives back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, NamedTuple

from barnabas.base.errors import KafkaError
from barnabas.client.producer.batches import NO_OFFSET, ProducerBatch

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class ProducerRecord:
    """A record on its way through interceptors and serialisers."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None


class RecordMetadata(NamedTuple):
    """Where a record was written; the offset is -1 with acks=0."""

    topic: str
    partition: int
    offset: int
    timestamp: int


OnDelivery = Callable[[RecordMetadata | None, KafkaError | None], object]


class Delivery:
    """A record that was taken; await it to know where it was written, or why not."""

    __slots__ = ("_batch", "_index", "_timestamp_ms")

    def __init__(self, batch: ProducerBatch, index: int, timestamp_ms: int) -> None:
        self._batch = batch
        self._index = index
        self._timestamp_ms = timestamp_ms

    @property
    def done(self) -> bool:
        return self._batch.is_done

    @property
    def error(self) -> KafkaError | None:
        """Why it was not written; None while that is open, or if it was."""
        return self._batch.part_of(self._index)[0].error

    @property
    def metadata(self) -> RecordMetadata:
        """Where it was written; raises why not."""
        batch, index = self._batch.part_of(self._index)
        if batch.error is not None:
            raise batch.error
        if not batch.is_done:
            raise asyncio.InvalidStateError("the record is not delivered yet: await it first")
        return metadata_of(batch, index, self._timestamp_ms)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self._batch.is_done:
            yield from asyncio.shield(self._batch.future).__await__()
        return self.metadata

    def __repr__(self) -> str:
        state = "delivered" if self.done else "on its way"
        return f"Delivery({self._batch.topic}-{self._batch.partition}, {state})"


def metadata_of(batch: ProducerBatch, index: int, timestamp_ms: int) -> RecordMetadata:
    offset = NO_OFFSET if batch.base_offset == NO_OFFSET else batch.base_offset + index
    appended_ms = batch.log_append_time_ms
    return RecordMetadata(
        batch.topic, batch.partition, offset, appended_ms if appended_ms >= 0 else timestamp_ms
    )
