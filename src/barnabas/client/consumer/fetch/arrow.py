"""Records as Arrow batches, without an object per record.

pyarrow is an extra, so it is imported on first use.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

from barnabas.batch.columnar import columns_of, vectors_of
from barnabas.batch.engine.binary_column import binary_column
from barnabas.batch.engine.columns import ColumnVectors
from barnabas.batch.legacy import OldBatch, up_converted
from barnabas.batch.view import BatchView
from barnabas.client.consumer.fetch.completed_fetch import CompletedFetch
from barnabas.protocol.primitives import Buffer

if TYPE_CHECKING:
    import pyarrow as pa


def pyarrow() -> Any:
    """Return the pyarrow module; raises ImportError with installation advice if it is missing."""
    try:
        import pyarrow as found
    except ImportError as error:
        raise ImportError("poll_arrow() needs pyarrow: pip install 'barnabas[arrow]'") from error
    return found


def arrow_batch(completed: CompletedFetch, include_headers: bool) -> pa.RecordBatch | None:
    """Return the remaining records of a completed fetch; None if there are no visible ones.

    Columns: topic, partition, offset, timestamp (milliseconds), timestamp_type, key, value, and optionally
    headers.
    """
    left = completed.rest()
    batches = []
    while (batch := left.next_batch()) is not None:
        batches.append(up_converted(batch) if isinstance(batch, OldBatch) else batch)
    if not batches:
        return None
    # All of it is copied below, so it may lie in a buffer that is released with the completed fetch.
    payload, vectors = vectors_of(batches)
    offsets = memoryview(vectors.offsets)
    first = bisect_left(offsets, left.first_offset)
    rows = len(offsets) - first
    if rows <= 0:
        return None
    made = _columns(payload, vectors, batches, first, rows, completed)
    if include_headers:
        made["headers"] = _headers(batches, first, rows)
    results: pa.RecordBatch = pyarrow().RecordBatch.from_arrays(list(made.values()), list(made))
    return results


def binary_array(payload: Buffer, vectors: ColumnVectors, of_keys: bool, first: int, rows: int) -> Any:
    """Return the keys, or else the values, of some rows.

    Arrow copies them: its memory pool reuses pages, while fresh memory for every batch would cost ten times
    as much in the kernel as the copy.
    """
    arrow = pyarrow()
    column = binary_column(vectors, of_keys, first, rows)
    if column.nulls == rows:
        return arrow.nulls(rows, arrow.binary())
    bounds = [None, arrow.py_buffer(memoryview(column.bounds)), arrow.py_buffer(payload)]
    valid = arrow.py_buffer(column.valid) if column.nulls else None
    slots = [valid, arrow.py_buffer(memoryview(column.slots))]
    cut = arrow.Array.from_buffers(arrow.binary(), 2 * rows - 1, bounds)
    return cut.take(arrow.Array.from_buffers(arrow.int32(), rows, slots, column.nulls))


def _columns(
    payload: Buffer,
    vectors: ColumnVectors,
    batches: list[BatchView],
    first: int,
    rows: int,
    completed: CompletedFetch,
) -> dict[str, Any]:
    arrow = pyarrow()

    def numbers(kind: Any, content: bytes | memoryview, width: int) -> Any:
        return arrow.Array.from_buffers(kind, rows, [None, arrow.py_buffer(content)[first * width :]])

    def constant(kind: Any, data: bytes) -> Any:
        return arrow.Array.from_buffers(kind, rows, [None, arrow.py_buffer(data * rows)])

    name = arrow.array([completed.topic_partition.topic], arrow.string())
    number = completed.topic_partition.partition.to_bytes(4, "little")
    stamped = b"".join(bytes((batch.timestamp_type,)) * batch.record_count for batch in batches)
    return {
        "topic": arrow.DictionaryArray.from_arrays(constant(arrow.int32(), bytes(4)), name),
        "partition": constant(arrow.int32(), number),
        "offset": numbers(arrow.int64(), memoryview(vectors.offsets), 8),
        "timestamp": numbers(arrow.timestamp("ms"), memoryview(vectors.timestamps), 8),
        "timestamp_type": numbers(arrow.int8(), stamped, 1),
        "key": binary_array(payload, vectors, True, first, rows),
        "value": binary_array(payload, vectors, False, first, rows),
    }


def _headers(batches: list[BatchView], first: int, rows: int) -> Any:
    arrow = pyarrow()
    kind = arrow.list_(arrow.struct([("key", arrow.string()), ("value", arrow.binary())]))
    columns = columns_of(batches)
    headers = [
        [{"key": key, "value": value} for key, value in columns.headers(row)]
        for row in range(first, first + rows)
    ]
    return arrow.array(headers, kind)
