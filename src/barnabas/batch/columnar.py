"""Whole fetches as columns, without an object per record: for Spark, Arrow and other bulk readers.

Contains the columns of many batches over one payload, as memoryviews that numpy and Arrow use without a copy.
Neither numpy nor Arrow is imported here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.batch.compression import DECOMPRESSED_LIMIT, Codec
from barnabas.batch.engine.columns import ColumnVectors, decode_columns
from barnabas.batch.engine.decode import decode_headers
from barnabas.batch.engine.faults import fault_text
from barnabas.batch.faults import CorruptBatch
from barnabas.batch.records import Header, Record
from barnabas.batch.view import HEADER_SIZE, LOG_APPEND_TIME_FLAG, BatchView, Buffer
from barnabas.batch.view import batches as whole_batches

# Positions are 32-bit numbers.
PAYLOAD_MAX = 2**31 - 1


class Columns:
    """Records as columns.  The key of row i is `payload[key_starts[i]:][:key_lengths[i]]`; length -1 is null.

    `offsets` and `timestamps` are views of 64-bit integers, the others of 32-bit ones.  `header_starts` is
    the position of each row's headers in the payload; `headers(row)` decodes them.
    """

    __slots__ = (
        "header_starts",
        "key_lengths",
        "key_starts",
        "offsets",
        "payload",
        "timestamps",
        "value_lengths",
        "value_starts",
        "vectors",
    )

    def __init__(self, payload: bytes, vectors: ColumnVectors) -> None:
        self.payload = payload
        # The engine's own form of the columns.
        self.vectors = vectors
        self.offsets = memoryview(vectors.offsets)
        self.timestamps = memoryview(vectors.timestamps)
        self.key_starts = memoryview(vectors.key_starts)
        self.key_lengths = memoryview(vectors.key_lengths)
        self.value_starts = memoryview(vectors.value_starts)
        self.value_lengths = memoryview(vectors.value_lengths)
        self.header_starts = memoryview(vectors.header_starts)

    def __len__(self) -> int:
        return len(self.offsets)

    def key(self, row: int) -> bytes | None:
        return self._content(self.key_starts[row], self.key_lengths[row])

    def value(self, row: int) -> bytes | None:
        return self._content(self.value_starts[row], self.value_lengths[row])

    def headers(self, row: int) -> tuple[Header, ...]:
        headers, _ = decode_headers(self.payload, self.header_starts[row], len(self.payload))
        return headers

    def records(self) -> Iterator[Record]:
        """The rows as objects."""
        for row in range(len(self)):
            yield Record(
                self.offsets[row], self.timestamps[row], self.key(row), self.value(row), self.headers(row)
            )

    def _content(self, start: int, length: int) -> bytes | None:
        return None if length < 0 else self.payload[start : start + length]


def columns(buffer: Buffer, limit: int = DECOMPRESSED_LIMIT) -> Columns:
    """The data records of every complete batch in the buffer; control batches are skipped.

    `limit` bounds the total decompressed size.
    """
    return columns_of((batch for batch in whole_batches(buffer) if not batch.is_control), limit)


def columns_of(chosen: Iterable[BatchView], limit: int = DECOMPRESSED_LIMIT) -> Columns:
    """The records of these batches; uncompressed ones that share one `bytes` buffer are not copied."""
    batches = [batch for batch in chosen if batch.record_count]
    shared = _shared_buffer(batches)
    payload, vectors = _vectors(batches, limit, shared if isinstance(shared, bytes) else None)
    return Columns(payload if isinstance(payload, bytes) else bytes(payload), vectors)


def vectors_of(batches: Sequence[BatchView], limit: int = DECOMPRESSED_LIMIT) -> tuple[Buffer, ColumnVectors]:
    """Like `columns_of`, for a caller that finishes before the batches' buffer is reused: uncompressed
    batches that share one buffer of any kind are not copied."""
    batches = [batch for batch in batches if batch.record_count]
    return _vectors(batches, limit, _shared_buffer(batches))


def _vectors(batches: list[BatchView], limit: int, shared: Buffer | None) -> tuple[Buffer, ColumnVectors]:
    limit = min(limit, PAYLOAD_MAX)
    payloads: list[bytes] = []
    size = 0
    for batch in batches:
        if shared is None:
            payloads.append(batch.payload(limit - size))
            size += len(payloads[-1])
            batch.ensure_count_fits(len(payloads[-1]))
        else:
            size += batch.size - HEADER_SIZE
            batch.ensure_count_fits(batch.size - HEADER_SIZE)
        if size > limit:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"the batches hold more than {limit} bytes")
    vectors = ColumnVectors(sum(batch.record_count for batch in batches))
    row = 0
    shift = 0
    for index, batch in enumerate(batches):
        if shared is None:
            _decode(batch, payloads[index], 0, len(payloads[index]), shift, row, vectors)
            shift += len(payloads[index])
        elif isinstance(shared, bytes):
            _decode(batch, shared, batch.start + HEADER_SIZE, batch.end, 0, row, vectors)
        else:
            # The engine reads bytes only; copying batch by batch keeps them in the processor's cache.
            stored = batch.payload(limit)
            _decode(batch, stored, 0, len(stored), batch.start + HEADER_SIZE, row, vectors)
        row += batch.record_count
    if shared is None:
        shared = payloads[0] if len(payloads) == 1 else b"".join(payloads)
    return shared, vectors


def _shared_buffer(batches: list[BatchView]) -> Buffer | None:
    buffer = batches[0].buffer if batches else b""
    if len(buffer) > PAYLOAD_MAX:
        return None
    if any(batch.buffer is not buffer or batch.codec is not Codec.NONE for batch in batches):
        return None
    return buffer


def _decode(
    batch: BatchView, data: bytes, start: int, end: int, shift: int, row: int, vectors: ColumnVectors
) -> None:
    stamped = batch.attributes & LOG_APPEND_TIME_FLAG != 0
    base_timestamp = batch.max_timestamp if stamped else batch.base_timestamp
    count, offset = batch.record_count, batch.base_offset
    fault, index = decode_columns(
        data, start, end, shift, row, count, offset, base_timestamp, stamped, vectors
    )
    if fault:
        raise CorruptBatch(
            f"record {index} of the batch at offset {batch.base_offset}: {fault_text(fault)}",
            ErrorCode.INVALID_RECORD,
        )
