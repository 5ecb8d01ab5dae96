"""Records as Arrow batches: no object a record, for those who compute with columns.

What lives here: a chunk's batches as one Arrow batch.  What may not: an import of pyarrow before it is asked
for; it is an extra.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

from barnabas.batch.build import build
from barnabas.batch.columnar import Columns, columns_of
from barnabas.batch.engine.binary_column import BinaryColumn, binary_column
from barnabas.batch.legacy import OldBatch
from barnabas.batch.view import BatchView
from barnabas.client.consumer.chunks import Chunk

if TYPE_CHECKING:
    import pyarrow as pa


def pyarrow() -> Any:
    """The library; a line that says how to get it if it is not there."""
    try:
        import pyarrow as found
    except ImportError as error:
        raise ImportError("poll_arrow() needs pyarrow: pip install 'barnabas[arrow]'") from error
    return found


def arrow_batch(chunk: Chunk, include_headers: bool) -> pa.RecordBatch | None:
    """The records of a chunk that were not taken yet; None if there are none to see.

    Columns: topic, partition, offset, timestamp (milliseconds), timestamp_type, key, value, and on demand
    headers.
    """
    left = chunk.rest()
    batches = []
    while (batch := left.next_batch()) is not None:
        batches.append(_renewed(batch) if isinstance(batch, OldBatch) else batch)
    if not batches:
        return None
    columns = columns_of(batches)
    first = bisect_left(columns.offsets, left.first_offset)
    rows = len(columns) - first
    return _record_batch(columns, batches, first, rows, chunk, include_headers) if rows > 0 else None


def _renewed(batch: OldBatch) -> BatchView:
    """A batch of an old format in the one that columns are read from."""
    return BatchView(bytes(build(list(batch.records()), timestamp_type=batch.timestamp_type)))


def _record_batch(
    columns: Columns, batches: list[BatchView], first: int, rows: int, chunk: Chunk, include_headers: bool
) -> pa.RecordBatch:
    arrow = pyarrow()

    def numbers(kind: Any, view: memoryview, width: int) -> Any:
        return arrow.Array.from_buffers(kind, rows, [None, arrow.py_buffer(view)[first * width :]])

    def constant(kind: Any, data: bytes) -> Any:
        return arrow.Array.from_buffers(kind, rows, [None, arrow.py_buffer(data * rows)])

    def binary(column: BinaryColumn) -> Any:
        valid = arrow.py_buffer(column.valid) if column.nulls else None
        ends = arrow.py_buffer(memoryview(column.ends))
        buffers = [valid, ends, arrow.py_buffer(column.data)]
        return arrow.Array.from_buffers(arrow.binary(), rows, buffers, column.nulls)

    name = arrow.array([chunk.where.topic], arrow.string())
    number = chunk.where.partition.to_bytes(4, "little")
    stamped = bytes(kind for batch in batches for kind in [batch.timestamp_type] * batch.record_count)
    made = {
        "topic": arrow.DictionaryArray.from_arrays(constant(arrow.int32(), bytes(4)), name),
        "partition": constant(arrow.int32(), number),
        "offset": numbers(arrow.int64(), columns.offsets, 8),
        "timestamp": numbers(arrow.timestamp("ms"), columns.timestamps, 8),
        "timestamp_type": numbers(arrow.int8(), memoryview(stamped), 1),
        "key": binary(binary_column(columns.payload, columns.vectors, True, first, rows)),
        "value": binary(binary_column(columns.payload, columns.vectors, False, first, rows)),
    }
    if include_headers:
        kind = arrow.list_(arrow.struct([("key", arrow.string()), ("value", arrow.binary())]))
        told = [
            [{"key": key, "value": value} for key, value in columns.headers(row)]
            for row in range(first, first + rows)
        ]
        made["headers"] = arrow.array(told, kind)
    batch: pa.RecordBatch = arrow.RecordBatch.from_arrays(list(made.values()), list(made))
    return batch
