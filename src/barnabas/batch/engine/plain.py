"""Recognizes plain batches: valid ones that are appended unchanged except for their offsets.

Nearly all batches are plain.  One pass over header and records decides it; anything unusual, valid or not, is
not plain and is checked again in check.py, which reports the error.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from barnabas.batch.engine.varints import HALF_I64
from barnabas.batch.engine.walk import walk

HEADER_SIZE: Final = 61
LOG_OVERHEAD: Final = 12
MAGIC_V2: Final = 2
# Create time, no transaction, no control records, no delete horizon: only a codec may be set.
LARGEST_CODEC: Final = 4

# The result of inspect(): whether the batch is plain; the number of records, of those without a key, the
# smallest and the largest timestamp, producer id, producer epoch and base sequence.
Plain = tuple[bool, int, int, int, int, int, int, int]


def number(data: bytes, position: i64, size: i64) -> i64:
    """A signed big-endian number of up to eight bytes."""
    value: i64 = data[position]
    if value > 127:
        value -= 256
    end: i64 = position + size
    position += 1
    while position < end:
        value = (value << 8) | data[position]
        position += 1
    return value


def inspect(header: bytes, payload: bytes, start: i64) -> Plain:
    """Inspect a batch by its header and its records, which are uncompressed in `payload` from `start` on.

    `header` is the header alone or the whole batch; the caller checks its CRC and its length.
    """
    count: i64 = number(header, 57, 4)
    base_timestamp: i64 = number(header, 27, 8)
    max_timestamp: i64 = number(header, 35, 8)
    if (
        header[16] != MAGIC_V2
        or number(header, 0, 8) != 0
        or header[21] != 0
        or header[22] > LARGEST_CODEC
        or count <= 0
        or count != number(header, 23, 4) + 1
        or base_timestamp < 0
        or base_timestamp > HALF_I64
    ):
        return False, 0, 0, 0, 0, 0, 0, 0
    fault, _, keyless, in_order, _, low, high = walk(payload, count, start)
    if fault != 0 or not in_order or low < -HALF_I64 or high > HALF_I64:
        return False, 0, 0, 0, 0, 0, 0, 0
    if base_timestamp + high != max_timestamp:
        return False, 0, 0, 0, 0, 0, 0, 0
    return (
        True,
        count,
        keyless,
        base_timestamp + low,
        max_timestamp,
        number(header, 43, 8),
        number(header, 51, 2),
        number(header, 53, 4),
    )
