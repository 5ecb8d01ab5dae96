"""What a node finds in its metadata folder when it starts: the image, and the state of its quorum.

What lives here: the walk through snapshot and log.  What may not: appending, and who leads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from barnabas.batch.control import read_quorum_message
from barnabas.batch.view import BatchView
from barnabas.broker.modes.kraft.metadata_folder import MetadataFolder
from barnabas.broker.modes.kraft.snapshot_files import read_snapshot
from barnabas.metadata.bootstrap import BOOTSTRAP_FILE
from barnabas.metadata.delta import InconsistentRecordError
from barnabas.metadata.replay import Replay
from barnabas.protocol.primitives import ProtocolError
from barnabas.protocol.record_frame import read_metadata_record
from barnabas.protocol.records.control import KRaftVersionRecord, SnapshotHeaderRecord, VotersRecord
from barnabas.protocol.schema import Message
from barnabas.raft.node import VOTERS_NOT_IN_LOG, LoadedQuorum
from barnabas.raft.snapshot import FIRST_SNAPSHOT, SnapshotId
from barnabas.raft.voters import Voters
from barnabas.runtime.disk.disk import Disk
from barnabas.storage.refused import DamagedFile, StorageRefused


@dataclass(frozen=True, slots=True)
class LoadedMetadata:
    """`replay.delta` leads from nothing to the image at the end of the log."""

    replay: Replay
    quorum: LoadedQuorum
    bytes_since_snapshot: int


class MetadataFolderLoader:
    """Reads one folder, once."""

    def __init__(self, folder: MetadataFolder, static_voters: Voters) -> None:
        self._folder = folder
        self._replay = Replay()
        self._voters = static_voters
        self._voters_offset = VOTERS_NOT_IN_LOG
        self._kraft_version = 0
        self._timestamp_ms = -1
        self._log_bytes = 0

    def load(self) -> LoadedMetadata:
        """StorageRefused, with what to do, if the folder does not make sense."""
        folder = self._folder
        latest = folder.snapshots.latest
        if latest is not None:
            self._load_snapshot(latest)
        for batch in folder.batches_from(folder.log.log_start_offset if latest is None else latest.offset):
            self._take(batch, batch.last_offset)
            self._log_bytes += batch.size
        quorum = LoadedQuorum(
            election=folder.election(),
            voters=self._voters,
            kraft_version=self._kraft_version,
            voters_offset=self._voters_offset,
            log_end_offset=folder.log.end_offset,
            log_epoch=folder.last_epoch(),
        )
        return LoadedMetadata(self._replay, quorum, self._log_bytes)

    def _load_snapshot(self, snapshot: SnapshotId) -> None:
        for batch in self._folder.snapshots.read(snapshot):
            # Offsets in a snapshot count its own records; all of them stand for the log's up to its end.
            self._take(batch, snapshot.offset - 1)
        if snapshot != FIRST_SNAPSHOT:
            self._replay.delta.at(snapshot.offset - 1, snapshot.epoch, self._timestamp_ms)

    def _take(self, batch: BatchView, last_offset: int) -> None:
        if batch.is_control:
            for record in batch.records():
                self._take_control(read_quorum_message(record), last_offset)
            records: list[Message] = []
        else:
            records = list(self._records(batch))
        try:
            self._replay.take(records, last_offset, batch.leader_epoch, batch.max_timestamp)
        except InconsistentRecordError as error:
            raise StorageRefused(
                f"{self._folder.path}: the records at offset {batch.base_offset} contradict what is before"
                f" ({error}); bring the folder back from a copy"
            ) from error

    def _records(self, batch: BatchView) -> Iterator[Message]:
        for record in batch.records():
            try:
                yield read_metadata_record(record.value or b"")[0]
            except ProtocolError as error:
                raise StorageRefused(
                    f"{self._folder.path}: the record at offset {record.offset} cannot be read"
                    f" ({error.message}); it may come from a newer release: upgrade this node"
                ) from error

    def _take_control(self, message: object, last_offset: int) -> None:
        match message:
            case SnapshotHeaderRecord():
                self._timestamp_ms = message.last_contained_log_timestamp
            case KRaftVersionRecord():
                self._kraft_version = message.kraft_version
            case VotersRecord():
                self._voters = Voters.of_record(message)
                # The voters that a folder was formatted with lie before offset 0.
                self._voters_offset = last_offset


def read_bootstrap(disk: Disk, log_dir: str) -> list[Message]:
    """The records that the folder was formatted with; none if there is no such file."""
    path = f"{log_dir}/{BOOTSTRAP_FILE}"
    if not disk.exists(path):
        return []
    records = []
    for batch in read_snapshot(disk, path):
        if not batch.is_control:
            for record in batch.records():
                try:
                    records.append(read_metadata_record(record.value or b"")[0])
                except ProtocolError as error:
                    raise DamagedFile(path, error.message) from error
    return records
