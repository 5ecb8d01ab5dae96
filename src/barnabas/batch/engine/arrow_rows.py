"""Appends rows of Arrow columns to batches that are being filled, for writers of whole tables.

Columns are in Arrow's layout: the bytes of all cells, 32-bit positions where each cell starts and ends, and a
bit field of the cells that are not null (empty if none is null).  A record costs no object besides its key
and its value.
"""

from __future__ import annotations

from librt.strings import read_i32_le
from mypy_extensions import i64

from barnabas.batch.engine.gather import Gatherer, Headers, largest_record
from barnabas.batch.engine.murmur import key_partition

NO_PARTITION = -1


class BinaryCells:
    """A binary column; `first` is the cell of its first row."""

    def __init__(self, data: bytes, ends: bytes, valid: bytes, first: i64) -> None:
        self._data = data
        self._ends = ends
        self._valid = valid
        self._first: i64 = first

    def cell(self, row: i64) -> bytes | None:
        index: i64 = self._first + row
        if not is_valid(self._valid, index):
            return None
        start: i64 = i64(read_i32_le(self._ends, index * 4))
        end: i64 = i64(read_i32_le(self._ends, index * 4 + 4))
        return self._data[start:end]


class NumberCells:
    """A column of 32-bit numbers."""

    def __init__(self, data: bytes, valid: bytes, first: i64) -> None:
        self._data = data
        self._valid = valid
        self._first: i64 = first

    def has(self, row: i64) -> bool:
        return is_valid(self._valid, self._first + row)

    def number(self, row: i64) -> i64:
        return i64(read_i32_le(self._data, (self._first + row) * 4))


class HeaderCells:
    """A column of lists of header keys and values."""

    def __init__(
        self, ends: bytes, valid: bytes, first: i64, names: BinaryCells, contents: BinaryCells
    ) -> None:
        self._ends = ends
        self._valid = valid
        self._first: i64 = first
        self._names = names
        self._contents = contents

    def cell(self, row: i64) -> Headers:
        index: i64 = self._first + row
        if not is_valid(self._valid, index):
            return ()
        start: i64 = i64(read_i32_le(self._ends, index * 4))
        end: i64 = i64(read_i32_le(self._ends, index * 4 + 4))
        if start == end:
            return ()
        headers: list[tuple[str, bytes | None]] = []
        while start < end:
            name = self._names.cell(start)
            if name is None:
                raise ValueError("a header has no key: null is not allowed there")
            headers.append((name.decode("utf-8"), self._contents.cell(start)))
            start += 1
        return tuple(headers)


class ArrowRows:
    """The columns of one Arrow batch; optional ones may be missing."""

    def __init__(
        self,
        count: i64,
        keys: BinaryCells | None,
        values: BinaryCells,
        headers: HeaderCells | None,
        partitions: NumberCells | None,
    ) -> None:
        self.count: i64 = count
        self.keys = keys
        self.values = values
        self.headers = headers
        self.partitions = partitions

    def size_of(self, row: i64) -> i64:
        """Maximum encoded size of a row as a record."""
        keys = self.keys
        headers = self.headers
        key = None if keys is None else keys.cell(row)
        return largest_record(key, self.values.cell(row), () if headers is None else headers.cell(row))


def is_valid(valid: bytes, index: i64) -> bool:
    """Whether a cell is not null."""
    if len(valid) == 0:
        return True
    byte: i64 = valid[index >> 3]
    return (byte >> (index & 7)) & 1 == 1


def gather_rows(
    rows: ArrowRows,
    start: i64,
    timestamp: i64,
    targets: list[Gatherer | None],
    sticky: i64,
    hashes_keys: bool,
) -> tuple[int, int, bool]:
    """Append the rows from `start` on to the open batches of their partitions.

    A row without a partition goes to the partition of its key's hash, or without a key (or unless
    `hashes_keys`) to the partition `sticky`. Stops at the first row whose partition has no batch with enough
    space; returns that row, its partition and whether the partition was the sticky one.  (count, -1, False)
    means that all rows were appended.
    """
    keys = rows.keys
    values = rows.values
    headers = rows.headers
    partitions = rows.partitions
    count: i64 = rows.count
    spread: i64 = len(targets)
    row: i64 = start
    while row < count:
        key: bytes | None = None
        if keys is not None:
            key = keys.cell(row)
        sticks = False
        partition: i64 = 0
        if partitions is not None and partitions.has(row):
            partition = partitions.number(row)
            if partition < 0 or partition >= spread:
                return int(row), int(partition), False
        elif hashes_keys and key is not None:
            partition = key_partition(key, spread)
        else:
            partition = sticky
            sticks = True
        target = targets[partition]
        if target is None:
            return int(row), int(partition), sticks
        row_headers: Headers = ()
        if headers is not None:
            row_headers = headers.cell(row)
        if target.append(timestamp, key, values.cell(row), row_headers) < 0:
            return int(row), int(partition), sticks
        row += 1
    return int(row), NO_PARTITION, False
