"""Rows of Arrow columns into batches that are being filled: what a writer of whole tables needs.

Columns come as Arrow lays them out: the bytes of all cells in a row, 32-bit positions of where each cell
starts and ends, and a bit field of the cells that are not null (empty: none is).  A record costs no object of
its own beyond its key and its value.
"""

from __future__ import annotations

from librt.strings import read_i32_le
from mypy_extensions import i64

from barnabas.batch.engine.gather import Gatherer, Headers, largest_record
from barnabas.batch.engine.murmur import key_partition

NO_PARTITION = -1


class BinaryCells:
    """A binary column; `first` is the cell at which its rows begin."""

    def __init__(self, data: bytes, ends: bytes, valid: bytes, first: i64) -> None:
        self._data = data
        self._ends = ends
        self._valid = valid
        self._first: i64 = first

    def cell(self, row: i64) -> bytes | None:
        place: i64 = self._first + row
        if not is_valid(self._valid, place):
            return None
        start: i64 = i64(read_i32_le(self._ends, place * 4))
        end: i64 = i64(read_i32_le(self._ends, place * 4 + 4))
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
    """A column of lists of names and contents."""

    def __init__(
        self, ends: bytes, valid: bytes, first: i64, names: BinaryCells, contents: BinaryCells
    ) -> None:
        self._ends = ends
        self._valid = valid
        self._first: i64 = first
        self._names = names
        self._contents = contents

    def cell(self, row: i64) -> Headers:
        place: i64 = self._first + row
        if not is_valid(self._valid, place):
            return ()
        start: i64 = i64(read_i32_le(self._ends, place * 4))
        end: i64 = i64(read_i32_le(self._ends, place * 4 + 4))
        if start == end:
            return ()
        found: list[tuple[str, bytes | None]] = []
        while start < end:
            name = self._names.cell(start)
            if name is None:
                raise ValueError("a header has no key: null is not allowed there")
            found.append((name.decode("utf-8"), self._contents.cell(start)))
            start += 1
        return tuple(found)


class ArrowRows:
    """The columns of one Arrow batch, as far as there are such columns."""

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
        """How many bytes a row takes at most, as a record."""
        keys = self.keys
        headers = self.headers
        key = None if keys is None else keys.cell(row)
        return largest_record(key, self.values.cell(row), () if headers is None else headers.cell(row))


def is_valid(valid: bytes, place: i64) -> bool:
    """Whether a cell is not null."""
    if len(valid) == 0:
        return True
    byte: i64 = valid[place >> 3]
    return (byte >> (place & 7)) & 1 == 1


def gather_rows(
    rows: ArrowRows,
    start: i64,
    timestamp: i64,
    targets: list[Gatherer | None],
    sticky: i64,
    hashes_keys: bool,
) -> tuple[int, int, bool]:
    """Put the rows from `start` on where they belong: a partition's batch in the making.

    A row that names no partition goes where its key's hash says, and without key (or if hashes do not count)
    to the partition `sticky`.
    It ends at the first row whose partition has no batch, or none with room: returned are that row, its
    partition and whether it went there because it is sticky.  (count, -1, False) says that all are placed.
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
        place: i64 = 0
        if partitions is not None and partitions.has(row):
            place = partitions.number(row)
            if place < 0 or place >= spread:
                return int(row), int(place), False
        elif hashes_keys and key is not None:
            place = key_partition(key, spread)
        else:
            place = sticky
            sticks = True
        target = targets[place]
        if target is None:
            return int(row), int(place), sticks
        found: Headers = ()
        if headers is not None:
            found = headers.cell(row)
        if target.append(timestamp, key, values.cell(row), found) < 0:
            return int(row), int(place), sticks
        row += 1
    return int(row), NO_PARTITION, False
