"""The transaction index of a segment: its aborted transactions, which read_committed consumers skip.

    .txnindex   34 bytes an entry: version 0 (2 bytes), producer id, first offset, last offset (the marker's),
                last stable offset when it ended (8 bytes each); the last offsets ascend

The file is created with the first aborted transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from barnabas.runtime.disk.disk import Disk, File

ENTRY = Struct(">hqqqq")
CURRENT_VERSION = 0
# Entries read from the file at once.
READ_ENTRIES = 1024


class DamagedIndex(Exception):
    """An index that contradicts itself; it is rebuilt from its segment."""


class AbortedTransaction(NamedTuple):
    """A producer's records between two offsets (its marker included) are aborted."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """Opened on first use; small, so each search reads it again."""

    __slots__ = ("_disk", "_end", "_file", "_last_offset", "base_offset", "path")

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self._disk = disk
        self._file: File | None = None
        # The end of the entries while more is reserved.
        self._end: int | None = None
        # None: not read yet; -1: no entry.
        self._last_offset: int | None = None

    def append(self, transaction: AbortedTransaction) -> None:
        if transaction.last_offset <= self.last_offset:
            raise ValueError(
                f"{self.path}: the end {transaction.last_offset} does not follow {self.last_offset}"
            )
        file = self._created()
        entry = ENTRY.pack(CURRENT_VERSION, *transaction)
        if self._end is None:
            file.append([entry])
        else:
            file.write_at(self._end, entry)
            self._end += ENTRY.size
            if self._end >= file.size:
                self._end = None
        self._last_offset = transaction.last_offset

    def reserve(self, entries: int) -> None:
        """Called before the markers of these many aborted transactions are written to the log.

        So a full disk refuses them before a marker without its entry is there.  What is reserved is zeroes:
        with them, a crash leaves an index that contradicts itself, and is rebuilt.
        """
        file, _ = self._created(), self.last_offset
        self._end = file.size
        try:
            file.append([bytes(entries * ENTRY.size)])
        except OSError:
            self.give_back()
            raise

    def give_back(self) -> None:
        """The markers were not written."""
        if self._end is not None and self._file is not None:
            self._file.truncate(self._end)
            self._end = None

    def _created(self) -> File:
        if self._file is None:
            self._file = self._disk.open(self.path, create=True)
        if self._end is None and self._file.size % ENTRY.size:
            # An earlier append failed half-way.
            self._file.truncate(self._file.size - self._file.size % ENTRY.size)
        return self._file

    @property
    def last_offset(self) -> int:
        """The last offset of the last entry; -1 if there is none."""
        if self._last_offset is None:
            self._last_offset = -1
            for _, transaction in self._numbered():
                self._last_offset = transaction.last_offset
        return self._last_offset

    def all(self) -> list[AbortedTransaction]:
        return [transaction for _, transaction in self._numbered()]

    def collect(self, first: int, upper_bound: int) -> tuple[list[AbortedTransaction], bool]:
        """The transactions that overlap [first, upper_bound), and whether no later segment can have more."""
        if self.last_offset < first:
            return [], False
        found = []
        for _, transaction in self._numbered():
            if transaction.last_offset >= first and transaction.first_offset < upper_bound:
                found.append(transaction)
            if transaction.last_stable_offset >= upper_bound:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Drop the transactions that ended at this offset or later."""
        before = -1
        for number, transaction in self._numbered():
            if transaction.last_offset >= offset:
                file = self._opened()
                assert file is not None
                file.truncate(number * ENTRY.size)
                self._last_offset = before
                return
            before = transaction.last_offset

    def check(self, limit: int) -> None:
        """Raises DamagedIndex if the index does not fit this segment, whose offsets lie below the limit."""
        file = self._opened()
        if file is None:
            return
        if file.size % ENTRY.size:
            raise DamagedIndex(f"{self.path} has {file.size} bytes, not a multiple of {ENTRY.size}")
        before = self.base_offset - 1
        for number, transaction in self._numbered():
            producer_id, first_offset, last_offset, last_stable_offset = transaction
            if not before < last_offset < limit:
                raise DamagedIndex(
                    f"{self.path}: entry {number} {transaction} does not end between {before} and {limit}"
                )
            if producer_id < 0 or not 0 <= first_offset < last_offset >= last_stable_offset - 1:
                raise DamagedIndex(f"{self.path}: entry {number} {transaction} contradicts itself")
            before = last_offset

    def reset(self) -> None:
        file = self._opened()
        if file is not None:
            file.truncate(0)
        self._last_offset = -1

    def sync(self) -> None:
        if self._file is not None:
            self._file.sync()

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def moved_to(self, path: str) -> None:
        self.path = path

    def _opened(self) -> File | None:
        if self._file is None and self._disk.exists(self.path):
            self._file = self._disk.open(self.path)
        return self._file

    def _numbered(self) -> Iterator[tuple[int, AbortedTransaction]]:
        file = self._opened()
        if file is None:
            return
        number, count = 0, file.size // ENTRY.size
        while number < count:
            data = file.read_at(number * ENTRY.size, min(READ_ENTRIES, count - number) * ENTRY.size)
            for version, *fields in ENTRY.iter_unpack(data):
                if version != CURRENT_VERSION:
                    raise DamagedIndex(f"{self.path}: entry {number} has the unknown version {version}")
                yield number, AbortedTransaction(*fields)
                number += 1
