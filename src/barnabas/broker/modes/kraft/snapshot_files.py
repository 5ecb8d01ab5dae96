"""The snapshot files of the metadata log.

A snapshot is written under a temporary name, synced and renamed, so that a file with its final name is
complete.  The contents of snapshots belong in raft.snapshot, their schedule in snapshot_generator.py.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from barnabas.batch.control import read_quorum_message
from barnabas.batch.view import LOG_OVERHEAD, BatchView, CorruptBatch
from barnabas.protocol.records.control import SnapshotFooterRecord, SnapshotHeaderRecord
from barnabas.raft.snapshot import MAX_BATCH_BYTES, SnapshotId, SnapshotState, parse_snapshot_name
from barnabas.runtime.disk.disk import Disk, File
from barnabas.storage.refused import DamagedFile

logger = logging.getLogger(__name__)


class SnapshotFiles:
    """The snapshots of one directory; `ids` are the existing ones, oldest first."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self.ids: list[SnapshotId] = []
        self._disk = disk
        self._folder = folder

    def find(self, log_start_offset: int) -> None:
        """Lists the snapshots; removes incomplete and deleted ones, and those before the log start offset."""
        for name in self._disk.names(self._folder):
            parsed = parse_snapshot_name(name)
            if parsed is None:
                continue
            snapshot, state = parsed
            if state is SnapshotState.WHOLE and snapshot.offset >= log_start_offset:
                self.ids.append(snapshot)
            else:
                self._disk.remove(f"{self._folder}/{name}")
        self.ids.sort()

    @property
    def latest(self) -> SnapshotId | None:
        return self.ids[-1] if self.ids else None

    def write(self, snapshot: SnapshotId, batches: Iterable[bytearray]) -> None:
        """Runs on a worker; call `written` afterwards."""
        partial = f"{self._folder}/{snapshot.partial_name}"
        self._disk.remove(partial)
        file = self._disk.open(partial, create=True)
        try:
            for batch in batches:
                file.append([batch])
            file.sync()
        finally:
            file.close()
        self._disk.rename(partial, self.path(snapshot))
        self._disk.sync_folder(self._folder)

    def written(self, snapshot: SnapshotId) -> None:
        if snapshot not in self.ids:
            self.ids.append(snapshot)
            self.ids.sort()

    def discard(self, snapshot: SnapshotId) -> None:
        """Remove one that was written but is not listed."""
        self._disk.remove(self.path(snapshot))

    # Snapshots of another node

    def write_chunk(self, snapshot: SnapshotId, position: int, data: bytes) -> None:
        """Write bytes of a snapshot that is being fetched; position 0 begins it again."""
        path = f"{self._folder}/{snapshot.partial_name}"
        if position == 0:
            self._disk.remove(path)
        file = self._disk.open(path, create=True)
        try:
            file.truncate(position)
            file.append([data])
        finally:
            file.close()

    def read_fetched(self, snapshot: SnapshotId) -> Iterator[BatchView]:
        """Like `read`, before it is installed."""
        return read_snapshot(self._disk, f"{self._folder}/{snapshot.partial_name}")

    def install(self, snapshot: SnapshotId) -> None:
        """Runs on a worker: gives a complete snapshot its name."""
        partial = f"{self._folder}/{snapshot.partial_name}"
        file = self._disk.open(partial)
        try:
            file.sync()
        finally:
            file.close()
        self._disk.rename(partial, self.path(snapshot))
        self._disk.sync_folder(self._folder)
        self.written(snapshot)

    def read_chunk(self, snapshot: SnapshotId, position: int, size: int) -> tuple[bytes, int] | None:
        """Bytes of a snapshot and its whole size; None if there is no such snapshot."""
        if snapshot not in self.ids:
            return None
        file = self._disk.open(self.path(snapshot), writable=False)
        try:
            return bytes(file.read_at(position, min(size, max(0, file.size - position)))), file.size
        finally:
            file.close()

    def read(self, snapshot: SnapshotId) -> Iterator[BatchView]:
        """Yields its validated batches; raises DamagedFile if one is corrupt or the end is missing."""
        return read_snapshot(self._disk, self.path(snapshot))

    def timestamp_ms(self, snapshot: SnapshotId) -> int:
        """Returns the timestamp of its last record."""
        for batch in self.read(snapshot):
            for record in batch.records():
                message = read_quorum_message(record)
                if isinstance(message, SnapshotHeaderRecord):
                    return message.last_contained_log_timestamp
            break
        return -1

    def size(self, snapshot: SnapshotId) -> int:
        return self._disk.size(self.path(snapshot))

    def retire(self, before: SnapshotId) -> list[SnapshotId]:
        """Renames older snapshots; `remove` deletes their files."""
        retired = [snapshot for snapshot in self.ids if snapshot < before]
        for snapshot in retired:
            self._disk.rename(self.path(snapshot), f"{self._folder}/{snapshot.deleted_name}")
        self.ids = [snapshot for snapshot in self.ids if snapshot >= before]
        return retired

    def remove(self, retired: Iterable[SnapshotId]) -> None:
        for snapshot in retired:
            self._disk.remove(f"{self._folder}/{snapshot.deleted_name}")

    def path(self, snapshot: SnapshotId) -> str:
        return f"{self._folder}/{snapshot.file_name}"


def newest_snapshot_offset(disk: Disk, folder: str) -> int:
    """Returns the end offset of the newest complete snapshot; 0 if there is none."""
    parsed = map(parse_snapshot_name, disk.names(folder))
    return max((name[0].offset for name in parsed if name and name[1] is SnapshotState.WHOLE), default=0)


def read_snapshot(disk: Disk, path: str) -> Iterator[BatchView]:
    """Yields the validated batches of a snapshot file, up to its mandatory footer."""
    file = disk.open(path, writable=False)
    try:
        position = 0
        is_complete = False
        while position < file.size and not is_complete:
            batch = _batch(file, position)
            is_complete = batch.is_control and any(
                isinstance(read_quorum_message(record), SnapshotFooterRecord) for record in batch.records()
            )
            yield batch
            position += batch.size
        if not is_complete:
            raise _damaged(file, position, "the end of the snapshot is missing")
    finally:
        file.close()


def _batch(file: File, position: int) -> BatchView:
    header = file.read_at(position, LOG_OVERHEAD)
    size = LOG_OVERHEAD + int.from_bytes(header[8:12], "big", signed=True)
    max_size = min(MAX_BATCH_BYTES + LOG_OVERHEAD, file.size - position)
    if len(header) < LOG_OVERHEAD or not LOG_OVERHEAD < size <= max_size:
        raise _damaged(file, position, "no batch starts here")
    try:
        batch = BatchView(file.read_at(position, size))
        is_valid = batch.crc_ok()
    except CorruptBatch as error:
        raise _damaged(file, position, error.message) from error
    if not is_valid:
        raise _damaged(file, position, "the checksum of a batch is wrong")
    return batch


def _damaged(file: File, position: int, fault: str) -> DamagedFile:
    return DamagedFile(
        file.path,
        f"at byte {position}: {fault}; restore the file from a backup, or remove it if the log still reaches"
        " back to an older snapshot or to offset 0",
    )
