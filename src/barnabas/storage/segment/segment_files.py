"""The files of one segment: opened when needed, measured, moved, synced and let go.

What lives here: what can be done to the files without knowing what is in them.  What may not: batches and
their offsets (segment.py).
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod

from barnabas.runtime.disk.disk import Disk, File, Slice
from barnabas.storage.log import log_files
from barnabas.storage.segment.index import OffsetIndex, SparseIndex, TimeIndex
from barnabas.storage.segment.transaction_index import AbortedTransaction, TransactionIndex


class SegmentFiles(ABC):
    """The log and the indexes of one base offset.

    `size` is the length of the batches; a preallocated file is longer.
    """

    __slots__ = (
        "_disk",
        "_file",
        "_grown",
        "_preallocated",
        "base_offset",
        "folder",
        "offset_index",
        "size",
        "suffix",
        "time_index",
        "transaction_index",
    )

    def __init__(
        self, disk: Disk, folder: str, base_offset: int, index_bytes: int, size: int, suffix: str
    ) -> None:
        self.folder = folder
        self.base_offset = base_offset
        self.suffix = suffix
        self.size = size
        self._disk = disk
        self._file: File | None = None
        self._preallocated = False
        # Whether the indexes have room for more entries: an idle log's stay as its last stop left them.
        self._grown = False
        self.offset_index = OffsetIndex(disk, self.path(log_files.OFFSET_INDEX), base_offset, index_bytes)
        self.time_index = TimeIndex(disk, self.path(log_files.TIME_INDEX), base_offset, index_bytes)
        self.transaction_index = TransactionIndex(disk, self.path(log_files.TRANSACTION_INDEX), base_offset)

    def create_files(self, preallocated_bytes: int | None) -> None:
        """New and empty; nothing lies there under these names."""
        self._file = self._disk.open(self.path(log_files.LOG), create=True)
        if preallocated_bytes is not None:
            self._file.truncate(preallocated_bytes)
            self._preallocated = True
        self.offset_index.create()
        self.time_index.create()
        self._grown = True

    def remove_files(self) -> None:
        """Whatever lies there under these names."""
        for kind in log_files.SEGMENT_FILES:
            self._disk.remove(self.path(kind))

    def path(self, kind: str) -> str:
        """Of one of its files, e.g. `log_files.LOG`."""
        return f"{self.folder}/{log_files.of_offset(self.base_offset, kind, self.suffix)}"

    def offsets(self) -> OffsetIndex:
        """The index, loaded."""
        if not self.offset_index.is_loaded:
            self._load(self.offset_index)
        return self.offset_index

    def times(self) -> TimeIndex:
        """The index, loaded."""
        if not self.time_index.is_loaded:
            self._load(self.time_index)
        return self.time_index

    def _load(self, index: SparseIndex) -> None:
        index.load()
        if not index.is_sane:
            self.rebuild_indexes(f"{index.path} is not in order")

    @abstractmethod
    def rebuild_indexes(self, reason: str) -> bool:
        """Make both sparse indexes anew from the batches, which only a segment knows; whether it could."""

    def file(self) -> File:
        if self._file is None:
            self._file = self._disk.open(self.path(log_files.LOG))
        return self._file

    def read_at(self, position: int, length: int) -> bytes:
        """Up to `length` bytes of the batches from `position` on."""
        return self.file().read_at(position, max(0, min(length, self.size - position)))

    def slice(self, position: int, length: int) -> Slice:
        return self.file().slice(position, max(0, min(length, self.size - position)))

    @property
    def modified_ms(self) -> int:
        return self._disk.modified_ms(self.path(log_files.LOG))

    def set_modified_ms(self, wall_ms: int) -> None:
        for kind in (log_files.LOG, log_files.OFFSET_INDEX, log_files.TIME_INDEX):
            self._disk.set_modified_ms(self.path(kind), wall_ms)

    def add_aborted(
        self, producer_id: int, first_offset: int, last_offset: int, last_stable_offset: int
    ) -> None:
        """One entry of the transaction index."""
        self.transaction_index.append(
            AbortedTransaction(producer_id, first_offset, last_offset, last_stable_offset)
        )

    def aborted_transactions(self) -> list[AbortedTransaction]:
        return self.transaction_index.all()

    def cut(self, size: int) -> None:
        """Cut the log file itself."""
        self.file().truncate(size)
        self.size = size
        self._preallocated = False

    def grow_indexes(self) -> None:
        """The segment is active (again): room for more entries."""
        self.offsets().resize(self.offset_index.max_bytes)
        self.times().resize(self.time_index.max_bytes)
        self._grown = True

    def trim_indexes(self) -> None:
        self.offsets().trim()
        self.times().trim()
        self._grown = False

    def sync(self) -> None:
        """Batches and indexes to stable storage."""
        self.file().sync()
        self.offsets().sync()
        self.times().sync()
        self.transaction_index.sync()

    def write_out(self) -> None:
        """Index entries that wait in memory, to their files."""
        for index in (self.offset_index, self.time_index):
            if index.is_loaded:
                index.write_out()

    def change_suffix(self, suffix: str) -> None:
        """Rename all its files: `.cleaned`, `.swap`, `.deleted`, or none."""
        old = {kind: self.path(kind) for kind in log_files.SEGMENT_FILES}
        self.suffix = suffix
        for kind in log_files.SEGMENT_FILES:
            # Only the log is sure to be there: an interrupted change may have left indexes behind.
            with (
                contextlib.nullcontext() if kind == log_files.LOG else contextlib.suppress(FileNotFoundError)
            ):
                self._disk.rename(old[kind], self.path(kind))
        self._tell_indexes()

    def move_to(self, folder: str) -> None:
        """Its folder was renamed."""
        self.folder = folder
        self._tell_indexes()

    def _tell_indexes(self) -> None:
        self.offset_index.moved_to(self.path(log_files.OFFSET_INDEX))
        self.time_index.moved_to(self.path(log_files.TIME_INDEX))
        self.transaction_index.moved_to(self.path(log_files.TRANSACTION_INDEX))

    def release(self) -> None:
        """Let go of files and memory; the next use opens them again."""
        self.offset_index.release()
        self.time_index.release()
        self.transaction_index.release()
        if self._file is not None:
            self._file.close()
            self._file = None

    def delete(self) -> None:
        """Release and remove the files at once."""
        self.release()
        self.remove_files()
