"""One producer batch from filling to completion: its records and their outcome."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from barnabas.base.errors import KafkaError
from barnabas.batch.build import assemble, attribute_bits
from barnabas.batch.compression import Codec, compress
from barnabas.batch.engine.gather import Delivery, Gatherer
from barnabas.batch.records import (
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TimestampType,
)
from barnabas.batch.view import HEADER_SIZE, BatchView

logger = logging.getLogger(__name__)

NO_OFFSET = -1
NO_TIME = -1

Headers = tuple[tuple[str, bytes | None], ...]
Append = Callable[[int, bytes | None, bytes | None, Headers], int]
Take = Callable[[int, bytes | None, bytes | None, Headers], Delivery | None]


class RecordMetadata(NamedTuple):
    """Where a record was written; the offset is -1 with acks=0."""

    topic: str
    partition: int
    offset: int
    timestamp: int


OnDelivery = Callable[[RecordMetadata | None, KafkaError | None], object]


class ProducerBatch:
    """Records for one partition.

    `append` returns a record's index, or -1 if the batch is full; `take` returns its delivery, or None.
    """

    __slots__ = (
        "_future",
        "_gatherer",
        "_payload",
        "append",
        "attempts",
        "base_offset",
        "base_sequence",
        "charged_bytes",
        "claimed",
        "codec",
        "created_at",
        "error",
        "is_closed",
        "is_done",
        "level",
        "listeners",
        "log_append_time_ms",
        "not_before",
        "on_done",
        "partition",
        "parts",
        "producer_epoch",
        "producer_id",
        "serial",
        "take",
        "topic",
        "transactional",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        limit_bytes: int,
        charged_bytes: int,
        created_at: float,
        *,
        serial: tuple[int, ...] = (0,),
        codec: Codec = Codec.NONE,
        level: int | None = None,
        transactional: bool = False,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.charged_bytes = charged_bytes
        self.created_at = created_at
        # Its order among the batches of the producer; parts of a split batch sort after it and before the
        # next.
        self.serial = serial
        self.codec = codec
        self.level = level
        self.transactional = transactional
        self._gatherer = Gatherer(limit_bytes - HEADER_SIZE, self)
        self.append: Append = self._gatherer.append
        self.take: Take = self._gatherer.take
        self._payload: bytes | None = None
        self._future: asyncio.Future[None] | None = None
        # Delivery callbacks, each with the index and the timestamp of its record.
        self.listeners: list[tuple[OnDelivery, int, int]] | None = None
        self.on_done: Callable[[], None] | None = None
        # The parts of a batch that was split because it was too large, in order.
        self.parts: list[ProducerBatch] | None = None
        self.is_closed = False
        self.is_done = False
        self.error: KafkaError | None = None
        # Records whose error, if there is one, somebody has seen or waits for.
        self.claimed: set[int] = set()
        self.base_offset = NO_OFFSET
        self.log_append_time_ms = NO_TIME
        self.attempts = 0
        self.not_before = 0.0
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.base_sequence = NO_SEQUENCE

    @property
    def gatherer(self) -> Gatherer:
        """For callers that append many rows at once."""
        return self._gatherer

    @property
    def record_count(self) -> int:
        return self._gatherer.count

    @property
    def size(self) -> int:
        """The size of the records before compression."""
        return HEADER_SIZE + self._gatherer.size

    @property
    def future(self) -> asyncio.Future[None]:
        """Done when the batch is; errors are in `error`, so that the exception need not be retrieved."""
        if self._future is None:
            self._future = asyncio.get_running_loop().create_future()
            if self.is_done:
                self._future.set_result(None)
        return self._future

    @property
    def has_sequence(self) -> bool:
        return self.base_sequence != NO_SEQUENCE

    def listen(self, on_delivery: OnDelivery, index: int, timestamp_ms: int) -> None:
        """Add a delivery callback for a record."""
        if self.listeners is None:
            self.listeners = []
        self.listeners.append((on_delivery, index, timestamp_ms))

    def close(self) -> None:
        """Accept no further records; the content is compressed once, however often it is sent."""
        if not self.is_closed:
            self.is_closed = True
            self._payload = compress(self.codec, self._gatherer.payload(), self.level)

    def encoded(self) -> bytearray:
        """Return the whole batch, with its current sequence number."""
        self.close()
        assert self._payload is not None
        count = self._gatherer.count
        return assemble(
            self._payload,
            base_offset=0,
            last_offset_delta=count - 1,
            leader_epoch=NO_LEADER_EPOCH,
            attributes=attribute_bits(
                self.codec, TimestampType.CREATE_TIME, self.transactional, False, False
            ),
            base_timestamp=self._gatherer.base_timestamp,
            max_timestamp=self._gatherer.max_timestamp,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
            record_count=count,
        )

    def sequence(self, producer_id: int, epoch: int, base_sequence: int) -> None:
        """Assign a sequence number."""
        self.producer_id = producer_id
        self.producer_epoch = epoch
        self.base_sequence = base_sequence

    def unsequence(self) -> None:
        self.sequence(NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE)

    def succeed(self, base_offset: int, log_append_time_ms: int) -> None:
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self._finish()

    def fail(self, error: KafkaError) -> None:
        self.error = error
        self._finish()

    def _finish(self) -> None:
        self.is_done = True
        self._payload = b""
        if self._future is not None and not self._future.done():
            self._future.set_result(None)
        if self.on_done is not None:
            self.on_done()
        if self.listeners is not None:
            listeners, self.listeners = self.listeners, None
            self._tell(listeners)

    def _tell(self, listeners: list[tuple[OnDelivery, int, int]]) -> None:
        # Hot loop over all records of the batch: invariants are looked up once.
        topic, partition, appended_ms = self.topic, self.partition, self.log_append_time_ms
        plain = self.error is None and self.parts is None and self.base_offset >= 0 and appended_ms < 0
        base_offset = self.base_offset
        for on_delivery, index, timestamp_ms in listeners:
            try:
                if plain:
                    on_delivery(RecordMetadata(topic, partition, base_offset + index, timestamp_ms), None)
                else:
                    part, place = self.part_of(index)
                    part.claim(place)
                    on_delivery(
                        None if part.error is not None else part.metadata(place, timestamp_ms), part.error
                    )
            except Exception:
                logger.exception("a delivery callback failed")

    # ------------------------------------------------------------------------------------- used by deliveries

    def error_of(self, index: int) -> KafkaError | None:
        part, place = self.part_of(index)
        part.claim(place)
        return part.error

    def claim(self, index: int) -> None:
        """Somebody has seen the error of a record."""
        if self.error is not None:
            self.claimed.add(index)

    @property
    def unclaimed(self) -> int:
        return self.record_count - len(self.claimed) if self.error is not None else 0

    def metadata_of(self, index: int, timestamp_ms: int) -> RecordMetadata:
        part, place = self.part_of(index)
        if part.error is not None:
            part.claim(place)
            raise part.error
        if not part.is_done:
            raise asyncio.InvalidStateError("the record is not delivered yet: await it first")
        return part.metadata(place, timestamp_ms)

    def awaited(self, index: int, timestamp_ms: int) -> Generator[Any, None, RecordMetadata]:
        if not self.is_done:
            self.claimed.add(index)
            yield from asyncio.shield(self.future).__await__()
        return self.metadata_of(index, timestamp_ms)

    def metadata(self, index: int, timestamp_ms: int) -> RecordMetadata:
        """Return where a record was written."""
        offset = NO_OFFSET if self.base_offset == NO_OFFSET else self.base_offset + index
        appended_ms = self.log_append_time_ms
        timestamp = appended_ms if appended_ms >= 0 else timestamp_ms
        return RecordMetadata(self.topic, self.partition, offset, timestamp)

    # ---------------------------------------------------------------------------------------------- splitting

    def split(self, part_bytes: int) -> list[ProducerBatch]:
        """Divide the records into smaller batches, because the broker rejected this one as too large."""
        parts: list[ProducerBatch] = []
        for record in BatchView(self.encoded()).records():
            row = (record.timestamp, record.key, record.value, record.headers)
            if not parts or parts[-1].append(*row) < 0:
                parts.append(
                    ProducerBatch(
                        self.topic,
                        self.partition,
                        part_bytes,
                        0,
                        self.created_at,
                        serial=(*self.serial, len(parts)),
                        codec=self.codec,
                        level=self.level,
                        transactional=self.transactional,
                    )
                )
                parts[-1].append(*row)
        self.parts = parts
        for part in parts:
            part.on_done = self._part_done
        return parts

    def _part_done(self) -> None:
        if self.parts is not None and all(part.is_done for part in self.parts):
            self._finish()

    def part_of(self, index: int) -> tuple[ProducerBatch, int]:
        """Return the part that contains a record, and its index there."""
        for part in self.parts or ():
            if index < part.record_count:
                return part.part_of(index)
            index -= part.record_count
        return self, index
