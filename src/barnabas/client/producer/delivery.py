"""What a producer is given, and what it gives back."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from barnabas.base.errors import KafkaError
from barnabas.client.producer.batches import OnDelivery as OnDelivery
from barnabas.client.producer.batches import ProducerBatch
from barnabas.client.producer.batches import RecordMetadata as RecordMetadata

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
        return batch.metadata(index, self._timestamp_ms)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self._batch.is_done:
            yield from asyncio.shield(self._batch.future).__await__()
        return self.metadata

    def __repr__(self) -> str:
        state = "delivered" if self.done else "on its way"
        return f"Delivery({self._batch.topic}-{self._batch.partition}, {state})"
