"""The file `committed-offset-checkpoint` of the metadata log: up to where the log is known to be committed.

What lives here: the writer and the reader of that file, and the check against it at a start.  What may not:
when it is written (metadata_folder), and how a log is recovered (storage.recovery).

After a crash the end of a log may be torn: it was never acknowledged, and recovery cuts it off.  A batch that
is damaged although it was committed looks the same, and cutting there would lose topics and all group offsets
without a word.  This file tells the two apart.  It is written now and then, and not synced: an older version
of it, or none, allows more to be cut, never less.
"""

from __future__ import annotations

from barnabas.batch.view import CorruptBatch
from barnabas.runtime.disk.disk import Disk, File
from barnabas.storage.log import log_files
from barnabas.storage.refused import FolderRefused
from barnabas.storage.segment.batch_headers import BatchHeader, crc_ok, pieces

COMMITTED_CHECKPOINT = "committed-offset-checkpoint"
_VERSION = 0
_MAX_BYTES = 100


def write_checkpoint(disk: Disk, folder: str, committed: int) -> None:
    """All before this offset is committed.  The number stands there twice: a torn one is not believed."""
    content = f"{_VERSION}\n{committed}\n{committed}\n".encode()
    disk.write_atomically(f"{folder}/{COMMITTED_CHECKPOINT}", content, sync=False)


def read_checkpoint(disk: Disk, folder: str) -> int:
    """The offset; 0 if the file is not there, or not whole."""
    path = f"{folder}/{COMMITTED_CHECKPOINT}"
    if not disk.exists(path) or disk.size(path) > _MAX_BYTES:
        return 0
    lines = disk.read_bytes(path).split(b"\n")
    if len(lines) != 4 or lines[0] != str(_VERSION).encode() or lines[1] != lines[2] or lines[3]:
        return 0
    return int(lines[1]) if lines[1].isdigit() else 0


def refuse_damage(disk: Disk, folder: str, snapshot_offset: int) -> None:
    """FolderRefused if the log lacks a record that was committed and that no snapshot holds.

    To be called before recovery, which cuts a log at its first damaged batch.
    """
    committed = read_checkpoint(disk, folder)
    if committed <= snapshot_offset:
        return
    sound = _SoundLog(disk, folder)
    sound.read_up_to(committed)
    if sound.end_offset < committed:
        raise FolderRefused(
            folder,
            f"the metadata log is damaged: {sound.fault or 'its end is missing'}, so offset"
            f" {sound.end_offset} cannot be read, and all before offset {committed} was committed."
            " Bring the folder back from a copy."
            f" To go on without the records from offset {sound.end_offset} on (topics, options and rules"
            f" made there, and the data of such topics, are lost), remove {COMMITTED_CHECKPOINT} in it",
        )


class _SoundLog:
    """How far the batches of a log follow each other and are sound."""

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
        for position, data, heads in pieces(file, 0, file.size):
            for head in heads:
                if self.end_offset >= offset:
                    return
                self._check(head, data, head.position - position)
                self.end_offset = head.last_offset + 1

    def _check(self, head: BatchHeader, data: bytes, start: int) -> None:
        if not crc_ok(head, data, start):
            raise CorruptBatch(f"the batch at byte {head.position} has a wrong checksum")
        if head.base_offset != self.end_offset:
            raise CorruptBatch(
                f"the batch at byte {head.position} begins with offset {head.base_offset}, not"
                f" {self.end_offset}"
            )
