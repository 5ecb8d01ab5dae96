"""Whole fetches as columns: how Spark, Arrow and other readers of many records take them, without objects.

What lives here: the columns of many batches over one payload, as memoryviews that numpy and Arrow take
without a copy.  What may not: numpy or Arrow themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.batch.compression import DECOMPRESSED_LIMIT
from barnabas.batch.engine.columns import ColumnVectors, decode_columns
from barnabas.batch.engine.decode import decode_headers
from barnabas.batch.engine.faults import fault_text
from barnabas.batch.faults import CorruptBatch
from barnabas.batch.records import Header, Record
from barnabas.batch.view import LOG_APPEND_TIME_FLAG, BatchView, Buffer, batches

# Positions are 32-bit numbers.
PAYLOAD_MAX = 2**31 - 1


class Columns:
    """Records side by side.  Row i's key is `payload[key_starts[i]:][:key_lengths[i]]`; length -1 is null.

    `offsets` and `timestamps` are views of 64-bit integers, the others of 32-bit ones.  `header_starts` says
    where in the payload a row's headers are; `headers(row)` reads them.
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
    )

    def __init__(self, payload: bytes, vectors: ColumnVectors) -> None:
        self.payload = payload
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
    """The data records of every whole batch in the buffer; control batches are left out.

    `limit` bounds what all of them together decompress to.
    """
    return columns_of((batch for batch in batches(buffer) if not batch.is_control), limit)


def columns_of(chosen: Iterable[BatchView], limit: int = DECOMPRESSED_LIMIT) -> Columns:
    """The records of these batches."""
    limit = min(limit, PAYLOAD_MAX)
    found: list[tuple[BatchView, bytes]] = []
    rows = 0
    size = 0
    for batch in chosen:
        if batch.record_count == 0:
            continue
        payload = batch.payload(limit - size)
        size += len(payload)
        if size > limit:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"the batches hold more than {limit} bytes")
        batch.ensure_count_fits(payload)
        rows += batch.record_count
        found.append((batch, payload))
    vectors = ColumnVectors(rows)
    row = 0
    shift = 0
    for batch, payload in found:
        _decode(batch, payload, shift, row, vectors)
        row += batch.record_count
        shift += len(payload)
    return Columns(found[0][1] if len(found) == 1 else b"".join(payload for _, payload in found), vectors)


def _decode(batch: BatchView, payload: bytes, shift: int, row: int, vectors: ColumnVectors) -> None:
    stamped = batch.attributes & LOG_APPEND_TIME_FLAG != 0
    base_timestamp = batch.max_timestamp if stamped else batch.base_timestamp
    fault, index = decode_columns(
        payload, shift, row, batch.record_count, batch.base_offset, base_timestamp, stamped, vectors
    )
    if fault:
        raise CorruptBatch(
            f"record {index} of the batch at offset {batch.base_offset}: {fault_text(fault)}",
            ErrorCode.INVALID_RECORD,
        )
