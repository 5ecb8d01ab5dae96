"""The file `committed-offset-checkpoint` of the metadata log: reader, writer, and the check at startup.

After a crash the end of a log may be torn: it was never acknowledged, and recovery truncates it.  A committed
batch that is corrupt looks the same, and truncating there would silently lose topics and all group offsets.
This file distinguishes the two.  It is written periodically and not synced: an older version of it, or none,
allows more to be truncated, never less.
"""

from __future__ import annotations

from barnabas.batch.view import BatchHeader, CorruptBatch
from barnabas.runtime.disk.disk import Disk, File
from barnabas.storage.log import log_files
from barnabas.storage.refused import FolderRefused
from barnabas.storage.segment.batch_headers import crc_ok, pieces

COMMITTED_CHECKPOINT = "committed-offset-checkpoint"
_VERSION = 0
_MAX_BYTES = 100


def write_checkpoint(disk: Disk, folder: str, committed: int) -> None:
    """Records that everything before this offset is committed.  Written twice, to detect a torn file."""
    content = f"{_VERSION}\n{committed}\n{committed}\n".encode()
    disk.write_atomically(f"{folder}/{COMMITTED_CHECKPOINT}", content, sync=False)


def read_checkpoint(disk: Disk, folder: str) -> int:
    """Returns the offset; 0 if the file is missing or incomplete."""
    path = f"{folder}/{COMMITTED_CHECKPOINT}"
    if not disk.exists(path) or disk.size(path) > _MAX_BYTES:
        return 0
    lines = disk.read_bytes(path).split(b"\n")
    if len(lines) != 4 or lines[0] != str(_VERSION).encode() or lines[1] != lines[2] or lines[3]:
        return 0
    return int(lines[1]) if lines[1].isdigit() else 0


def refuse_damage(disk: Disk, folder: str, snapshot_offset: int) -> None:
    """Raises FolderRefused if the log lacks a committed record that is in no snapshot.

    Called before recovery, which truncates a log at its first corrupt batch.
    """
    committed = read_checkpoint(disk, folder)
    if committed <= snapshot_offset:
        return
    valid = _ValidPrefix(disk, folder)
    valid.read_up_to(committed)
    if valid.end_offset < committed:
        raise FolderRefused(
            folder,
            f"the metadata log is corrupt: {valid.fault or 'its end is missing'}, so offset"
            f" {valid.end_offset} cannot be read, but all offsets before {committed} were committed."
            " Restore the directory from a backup."
            f" To continue without the records from offset {valid.end_offset} on (topics, configs and ACLs"
            f" created there, and the data of such topics, are lost), remove {COMMITTED_CHECKPOINT} in it",
        )


class _ValidPrefix:
    """Finds the offset up to which the batches of a log are valid and contiguous."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._folder = folder
        self.end_offset = -1
        self.fault = ""

    def read_up_to(self, offset: int) -> None:
        names = (name for name in self._disk.names(self._folder) if name.endswith(log_files.LOG))
        for base_offset, name in sorted((log_files.offset_in(name) or 0, name) for name in names):
            if self.end_offset < 0:
                self.end_offset = base_offset
            if self.fault or self.end_offset >= offset:
                return
            file = self._disk.open(f"{self._folder}/{name}", writable=False)
            try:
                self._read(file, offset)
            except CorruptBatch as error:
                self.fault = f"{name}: {error.message}"
            finally:
                file.close()

    def _read(self, file: File, offset: int) -> None:
        for position, data, headers in pieces(file, 0, file.size):
            for header in headers:
                if self.end_offset >= offset:
                    return
                self._check(header, data, header.position - position)
                self.end_offset = header.last_offset + 1

    def _check(self, header: BatchHeader, data: bytes, start: int) -> None:
        if not crc_ok(header, data, start):
            raise CorruptBatch(f"the batch at byte {header.position} has a wrong checksum")
        if header.base_offset != self.end_offset:
            raise CorruptBatch(
                f"the batch at byte {header.position} begins with offset {header.base_offset}, not"
                f" {self.end_offset}"
            )
