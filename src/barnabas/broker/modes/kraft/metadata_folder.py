"""The directory `__cluster_metadata-0`: the log, the quorum state and the snapshots.

Contains the files and how the effects of a Raft node are persisted in them.  It is the executor's store:
`write` runs on the event loop, `sync` on a worker.
"""

from __future__ import annotations

import contextlib
import errno
import logging
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise

from barnabas.base.errors import KafkaError
from barnabas.base.ids import METADATA_TOPIC_ID
from barnabas.batch.build import build
from barnabas.batch.control import build_quorum_batch, read_quorum_message
from barnabas.batch.records import Record
from barnabas.batch.view import BatchView, batches
from barnabas.broker.modes.kraft.committed_checkpoint import refuse_damage, write_checkpoint
from barnabas.broker.modes.kraft.snapshot_files import SnapshotFiles, newest_snapshot_offset
from barnabas.config import Settings
from barnabas.metadata.bootstrap import METADATA_FOLDER
from barnabas.raft.messages import (
    AppendBatch,
    AppendFetched,
    DataRecords,
    InstallSnapshot,
    SnapshotInstalled,
    StoreElection,
    TruncateLog,
    WriteSnapshotChunk,
)
from barnabas.raft.quorum_state_file import (
    MAX_QUORUM_STATE_BYTES,
    QUORUM_STATE_FILE,
    DamagedQuorumState,
    ElectionState,
    decode_quorum_state,
    encode_quorum_state,
)
from barnabas.raft.snapshot import SnapshotId
from barnabas.raft.voter_history import VoterHistory
from barnabas.raft.voters import NO_VOTERS
from barnabas.runtime.clock import Clock
from barnabas.runtime.disk.disk import Disk, File
from barnabas.runtime.loop.executor import Work
from barnabas.runtime.random import Random
from barnabas.storage.directories.partition_metadata import read_partition_metadata, write_partition_metadata
from barnabas.storage.log.deferred_work import FileDeletion
from barnabas.storage.log.log import Log
from barnabas.storage.log.log_files import LOG
from barnabas.storage.log.log_options import LogOptions
from barnabas.storage.producers.producer_append import AppendOrigin
from barnabas.storage.refused import DamagedFile, FolderRefused
from barnabas.storage.segment.segment import Segment

logger = logging.getLogger(__name__)

# Read size while the log is loaded.
READ_BYTES = 4 * 1024 * 1024
# How often the committed offset is checkpointed while records are written.
CHECKPOINT_INTERVAL_NS = 1_000_000_000


def log_options(settings: Settings) -> LogOptions:
    """Returns the options of the metadata log.  Its records are deleted after snapshots, not by retention."""
    internal = settings["internal.metadata.log.segment.bytes"]
    segment_bytes = settings["metadata.log.segment.bytes"] if internal is None else internal
    return LogOptions(
        segment_bytes=segment_bytes,
        segment_index_bytes=min(segment_bytes, LogOptions().segment_index_bytes),
        segment_ms=settings["metadata.log.segment.ms"],
        max_message_bytes=settings["internal.metadata.max.batch.size.in.bytes"],
        retention_ms=-1,
        retention_bytes=-1,
        file_delete_delay_ms=settings["internal.metadata.delete.delay.millis"],
    )


class MetadataFolder:
    """The directory; it is open once constructed."""

    def __init__(self, disk: Disk, clock: Clock, random: Random, log_dir: str, options: LogOptions) -> None:
        self.path = f"{log_dir}/{METADATA_FOLDER}"
        self.max_batch_bytes = min(options.max_message_bytes, options.segment_bytes)
        # A worker changes the log, or is about to: nothing else may use it.
        self.is_changing = False
        self._disk = disk
        self._clock = clock
        if disk.exists(self.path):
            # Checked first: recovery would truncate the log where it is corrupt.
            refuse_damage(disk, self.path, newest_snapshot_offset(disk, self.path))
        # As in Apache Kafka, the whole log is recovered at every start.
        self.log = Log.open(
            disk,
            clock,
            self.path,
            options,
            random=random,
            clean=False,
            recovery_point=0,
            log_start_offset=0,
            gaps_end=0,  # it is never compacted
        )
        # Writes of a killed process may be in the page cache only; they count from now on.
        self.log.flush()
        disk.sync_folder(log_dir)
        if read_partition_metadata(disk, self.path) is None:
            write_partition_metadata(disk, self.path, METADATA_TOPIC_ID)
        self.snapshots = SnapshotFiles(disk, self.path)
        self.snapshots.find(self.log.log_start_offset)
        self._check_snapshots()
        self._elections: deque[StoreElection] = deque()
        # Leader epochs to write, for the worker.
        self._epochs: deque[Callable[[], None]] = deque()
        # Unsynced files and directories, in order.  A worker removes from the left what the loop adds on the
        # right; the file handles are the worker's own.
        self._unsynced: deque[File | str] = deque()
        # The last snapshot that was damaged when it was fetched.
        self._damaged: SnapshotId | None = None
        self._active: Segment | None = None
        self._files: list[File] = []
        # The committed offset, and the last one that was checkpointed.
        self._committed_offset = 0
        self._checkpointed_offset = 0
        self._checkpointed_ns = clock.monotonic_ns()

    def _check_snapshots(self) -> None:
        """Requires a snapshot if the log does not start at 0; resets a log that ends before the latest."""
        latest = self.snapshots.latest
        if self.log.log_start_offset > 0 and latest is None:
            raise FolderRefused(
                self.path,
                f"the log starts at offset {self.log.log_start_offset} and no snapshot has earlier records;"
                " restore the missing .checkpoint file from a backup",
            )
        if latest is not None and self._ends_before(latest):
            self.log.truncate_fully_to(latest.offset)
            self.snapshots.remove(self.snapshots.retire(latest))

    def _ends_before(self, snapshot: SnapshotId) -> bool:
        epoch = self.log.epochs.latest_epoch or 0
        behind = snapshot.epoch == epoch and snapshot.offset > self.log.end_offset
        return snapshot.epoch > epoch or behind

    # Reading

    def election(self) -> ElectionState:
        """Returns the quorum state; a node without the file has never voted."""
        path = f"{self.path}/{QUORUM_STATE_FILE}"
        if not self._disk.exists(path):
            return ElectionState()
        if self._disk.size(path) > MAX_QUORUM_STATE_BYTES:
            raise DamagedFile(path, f"has more than {MAX_QUORUM_STATE_BYTES} bytes")
        try:
            return decode_quorum_state(self._disk.read_bytes(path))
        except DamagedQuorumState as error:
            raise DamagedFile(path, f"{error}; restore it from a backup") from error

    def last_epoch(self) -> int:
        """Returns the epoch of the last batch, or of the latest snapshot if the log is empty."""
        epoch = self.log.epochs.latest_epoch
        if epoch is not None:
            return epoch
        latest = self.snapshots.latest
        return 0 if latest is None else latest.epoch

    def batches_from(self, offset: int) -> Iterator[BatchView]:
        """Yields every batch of the log from this offset on."""
        end = self.log.end_offset
        while offset < end:
            result = self.log.read(offset, READ_BYTES, upper_bound=end)
            if result.slice is None:
                return
            for batch in batches(result.slice.read()):
                if batch.last_offset >= offset:
                    yield batch
                    offset = batch.next_offset

    # Effects of the Raft node

    def write(self, entry: object) -> Work | None:
        """Runs on the event loop.  Any error is reported to the executor as an OSError: the node stops."""
        try:
            match entry:
                case StoreElection():
                    self._elections.append(entry)
                case AppendBatch():
                    buffer = _encode(entry, self._clock)
                    self.log.append_as_leader(buffer, entry.epoch, origin=AppendOrigin.RAFT_LEADER)
                    self._appended()
                case AppendFetched(batch):
                    assert isinstance(batch.data, bytes), "a fetched batch has its bytes"
                    self.log.append_as_follower(bytearray(batch.data), batch.epoch)
                    self._appended()
                case TruncateLog(end_offset):
                    return self._change(partial(self._truncate, end_offset))
                case WriteSnapshotChunk(snapshot, position, data):
                    self.snapshots.write_chunk(snapshot, position, data)
                case InstallSnapshot(snapshot):
                    return self._change(partial(self._install, snapshot))
        except KafkaError as error:
            raise _os_error(error, self.path) from error
        return None

    def _change(self, work: Work) -> Work:
        self.is_changing = True

        def change() -> object:
            try:
                return work()
            finally:
                self.is_changing = False

        return change

    def _appended(self) -> None:
        epochs = self.log.epochs.plan_write()
        if epochs is not None:
            self._epochs.append(epochs.run)
            self.log.epochs.written(epochs)  # if that fails, the node stops
        self._mark_unsynced()

    def _truncate(self, end_offset: int) -> None:
        """Runs on a worker, while nothing else uses the log."""
        try:
            self.log.truncate_to(end_offset)
        except KafkaError as error:
            raise _os_error(error, self.path) from error
        self._reopen_active()

    def _install(self, snapshot: SnapshotId) -> SnapshotInstalled:
        """Runs on a worker: replaces the log by a fetched snapshot, unless that is damaged."""
        history = VoterHistory(NO_VOTERS, kraft_version=0)
        try:
            for batch in self.snapshots.read_fetched(snapshot):
                if batch.is_control:
                    for record in batch.records():
                        history.append(snapshot.offset - 1, read_quorum_message(record))
        except DamagedFile as damage:
            if snapshot != self._damaged:
                # Once: the leader may have no other one for a long time.
                self._damaged = snapshot
                logger.warning("a fetched snapshot is damaged and will be fetched again: %s", damage)
            return SnapshotInstalled(snapshot, None)
        self.snapshots.install(snapshot)
        try:
            self.log.truncate_fully_to(snapshot.offset)
        except KafkaError as error:
            raise _os_error(error, self.path) from error
        self._reopen_active()
        self.snapshots.remove(self.snapshots.retire(snapshot))
        return SnapshotInstalled(snapshot, history.voters, history.kraft_version)

    def _reopen_active(self) -> None:
        """The log's files have changed; what was appended before is synced or removed.

        Removed epochs are written out here, on the worker: an append on the loop would have to wait.
        """
        self.log.epochs.write_out()
        self._unsynced.clear()
        self._active = None

    def _mark_unsynced(self) -> None:
        """Called after the append: a worker that takes the file from now on syncs it, too."""
        segment = self.log.active
        if segment is not self._active:
            self._active = segment
            self._files.append(self._disk.open(segment.path(LOG)))
            self._unsynced.append(self.path)
        self._unsynced.append(self._files[-1])

    def sync(self) -> None:
        """Runs on a worker: persists votes first, then leader epochs, then batches."""
        while self._elections:
            entry = self._elections.popleft()
            content = encode_quorum_state(entry.state, entry.voter_ids, entry.kraft_version)
            self._disk.write_atomically(f"{self.path}/{QUORUM_STATE_FILE}", content)
        while self._epochs:
            self._epochs.popleft()()
        targets: dict[File | str, None] = {}
        while self._unsynced:
            targets[self._unsynced.popleft()] = None
        for target in targets:
            if isinstance(target, str):
                self._disk.sync_folder(target)
            else:
                target.sync()
        if self._clock.monotonic_ns() - self._checkpointed_ns >= CHECKPOINT_INTERVAL_NS:
            self._checkpoint()

    def committed(self, offset: int) -> None:
        """Called when everything before this offset is committed."""
        self._committed_offset = offset
        self.log.advance_high_watermark(offset)

    def _checkpoint(self) -> None:
        """Writes the committed offset.  It is a hint: a failed write does no harm."""
        offset = self._committed_offset
        if offset > self._checkpointed_offset:
            self._checkpointed_offset = offset
            self._checkpointed_ns = self._clock.monotonic_ns()
            with contextlib.suppress(OSError):
                write_checkpoint(self._disk, self.path, offset)

    # Deletion

    def delete_before(self, snapshot: SnapshotId) -> tuple[list[FileDeletion], list[SnapshotId]]:
        """Renames files that this snapshot supersedes; the caller removes them later.

        The log is deleted by whole segments, as no file records a start offset within one.
        """
        segments = list(self.log.segments)
        old = [
            segment for segment, following in pairwise(segments) if following.base_offset <= snapshot.offset
        ]
        self.log.remove_segments(old, f"snapshot {snapshot.file_name} supersedes them")
        return self.log.take_file_deletions(), self.snapshots.retire(snapshot)

    def close(self) -> None:
        """Closes cleanly; everything is synced before."""
        self.log.flush()
        self._checkpoint()
        self.log.close()
        self._release()

    def abandon(self) -> None:
        """Closes without syncing: the disk has failed, or the process is about to exit."""
        self.log.abandon()
        self._release()

    def _release(self) -> None:
        for file in self._files:
            file.close()
        self._files.clear()


def _os_error(error: KafkaError, path: str) -> OSError:
    cause = error.__cause__
    if isinstance(cause, OSError) and cause.errno is not None:
        # What to do about it depends on what failed: a full disk is no broken one.
        return OSError(cause.errno, cause.strerror, path)
    return OSError(errno.EIO, error.message, path)


def _encode(entry: AppendBatch, clock: Clock) -> bytearray:
    """Returns the batch of an append, as the log takes it."""
    base_offset, epoch = entry.base_offset, entry.epoch
    if isinstance(entry.records, DataRecords):
        timestamp_ms = entry.records.timestamp_ms
        records = [
            Record(base_offset + number, timestamp_ms, None, value)
            for number, value in enumerate(entry.records.values)
        ]
        return build(records, leader_epoch=epoch)
    return build_quorum_batch(
        entry.records.messages, timestamp=clock.wall_ms(), base_offset=base_offset, leader_epoch=epoch
    )
