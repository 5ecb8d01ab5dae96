"""Loads the metadata directory: the quorum state, and the batches of snapshot and log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from barnabas.batch.control import read_quorum_message
from barnabas.batch.view import BatchView
from barnabas.broker.modes.kraft.metadata_folder import MetadataFolder
from barnabas.broker.modes.kraft.snapshot_files import read_snapshot
from barnabas.metadata.bootstrap import BOOTSTRAP_FILE
from barnabas.metadata.loader import MetadataBatch
from barnabas.protocol.primitives import ProtocolError
from barnabas.protocol.record_frame import read_metadata_record
from barnabas.protocol.schema import Message
from barnabas.raft.log import RaftLog
from barnabas.raft.quorum import LoadedQuorum
from barnabas.raft.snapshot import FIRST_SNAPSHOT
from barnabas.raft.voter_history import VoterHistory
from barnabas.raft.voters import Voters
from barnabas.runtime.disk.disk import Disk
from barnabas.storage.refused import DamagedFile, StorageRefused


@dataclass(frozen=True, slots=True)
class LoadedFolder:
    """The state that is known before anything is committed."""

    quorum: LoadedQuorum
    # Whether there are metadata records, in a snapshot or in the log.
    has_records: bool


def load_folder(folder: MetadataFolder, static_voters: Voters) -> LoadedFolder:
    """Reads the quorum's control records: they are effective when written, committed or not (KIP-853).

    Raises StorageRefused, with advice, if the directory is inconsistent.
    """
    history = VoterHistory(static_voters, kraft_version=0)
    has_records = False
    for batch, last_offset in _all_batches(folder):
        if not batch.is_control:
            has_records = True
            continue
        for record in batch.records():
            # The voters that a directory was formatted with are in the snapshot at offset 0.
            history.append(last_offset, read_quorum_message(record))
    latest = folder.snapshots.latest
    log = RaftLog(
        start_offset=folder.log.log_start_offset,
        end_offset=folder.log.end_offset,
        epochs=folder.log.epochs.entries,
        snapshot=latest,
    )
    quorum = LoadedQuorum(folder.election(), history, log)
    return LoadedFolder(quorum, has_records)


def _all_batches(folder: MetadataFolder) -> Iterator[tuple[BatchView, int]]:
    """Yields the batches of the latest snapshot and of the log after it, each with its last log offset."""
    latest = folder.snapshots.latest
    if latest is not None:
        for batch in folder.snapshots.read(latest):
            yield batch, latest.offset - 1
    for batch in folder.batches_from(folder.log.log_start_offset if latest is None else latest.offset):
        yield batch, batch.last_offset


def snapshot_batches(folder: MetadataFolder) -> Iterator[MetadataBatch]:
    """Yields the batches of the latest snapshot, which replace the log up to its offset."""
    latest = folder.snapshots.latest
    if latest is None or latest == FIRST_SNAPSHOT:
        return
    timestamp_ms = folder.snapshots.timestamp_ms(latest)
    for batch in folder.snapshots.read(latest):
        records = [] if batch.is_control else list(_records(folder, batch))
        yield MetadataBatch(latest.offset - 1, latest.epoch, timestamp_ms, records, 0)


def batches_up_to(folder: MetadataFolder, start_offset: int, end_offset: int) -> Iterator[MetadataBatch]:
    """Yields the batches of the log between two offsets."""
    for batch in folder.batches_from(start_offset):
        if batch.last_offset >= end_offset:
            return
        records = [] if batch.is_control else list(_records(folder, batch))
        yield MetadataBatch(batch.last_offset, batch.leader_epoch, batch.max_timestamp, records, batch.size)


def _records(folder: MetadataFolder, batch: BatchView) -> Iterator[Message]:
    for record in batch.records():
        try:
            yield read_metadata_record(record.value or b"")[0]
        except ProtocolError as error:
            raise StorageRefused(
                f"{folder.path}: the record at offset {record.offset} cannot be read"
                f" ({error.message}); it may come from a newer release: upgrade this node"
            ) from error


def read_bootstrap(disk: Disk, log_dir: str) -> list[Message]:
    """Returns the records that the directory was formatted with; none if there is no such file."""
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
