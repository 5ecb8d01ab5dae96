"""Generates metadata snapshots, and deletes old ones with the log before them (KIP-630).

Contains the schedule, and the writing of one snapshot at a time on a worker; the files belong in
snapshot_files.py and metadata_folder.py.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise

from barnabas.base.units import NS_PER_MS
from barnabas.broker.modes.kraft.metadata_folder import MetadataFolder
from barnabas.config import Settings
from barnabas.metadata.image import Image
from barnabas.metadata.snapshot import record_version, records_of
from barnabas.protocol.record_frame import write_metadata_record
from barnabas.raft.snapshot import SnapshotId, snapshot_batches
from barnabas.raft.voters import Voters
from barnabas.runtime.clock import Clock
from barnabas.runtime.loop.executor import WorkerPool
from barnabas.runtime.loop.timers import TimerService

logger = logging.getLogger(__name__)

# How often old snapshots are deleted, as in Apache Kafka.
CLEAN_INTERVAL_MS = 60_000
# How often to look whether a worker still changes the log.
RETRY_INTERVAL_MS = 100


class SnapshotGenerator:
    """The generator of one directory.  It receives every committed image."""

    def __init__(
        self,
        folder: MetadataFolder,
        settings: Settings,
        clock: Clock,
        timers: TimerService,
        workers: WorkerPool,
        on_snapshot: Callable[[SnapshotId], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._timers = timers
        self._workers = workers
        # Called when the log may start later, or a snapshot can be fetched.
        self._on_snapshot = on_snapshot
        self._on_failure = on_failure
        self._max_bytes: int = settings["metadata.log.max.record.bytes.between.snapshots"]
        self._max_interval_ns = settings["metadata.log.max.snapshot.interval.ms"] * NS_PER_MS
        self._retention_bytes: int = settings["metadata.max.retention.bytes"]
        self._retention_ms: int = settings["metadata.max.retention.ms"]
        self._delete_delay_ns = settings["internal.metadata.delete.delay.millis"] * NS_PER_MS
        self._bytes = 0
        self._since_ns = clock.monotonic_ns()
        self._is_writing = False
        self._is_closed = False
        self._deletions = 0

    def start(self) -> None:
        """Starts the periodic deletion."""
        self._schedule_cleaning()

    def count(self, size: int) -> None:
        """Adds the bytes of records that were found at startup after the last snapshot."""
        self._bytes += size

    def committed(self, image: Image, size: int, voters: Voters, kraft_version: int) -> None:
        """Called with a committed image and the size of its new records; writes a snapshot if one is due."""
        self._bytes += size
        elapsed_ns = self._clock.monotonic_ns() - self._since_ns
        is_due = self._bytes >= self._max_bytes or 0 < self._max_interval_ns <= elapsed_ns
        if is_due and not self._is_writing and not self._is_closed:
            self._bytes = 0
            self._since_ns = self._clock.monotonic_ns()
            snapshot = SnapshotId(image.offset + 1, image.epoch)
            latest = self._folder.snapshots.latest
            # The image may be that of a snapshot which was just installed.
            if latest is None or snapshot > latest:
                self._write(snapshot, image, voters, kraft_version)

    def _write(self, snapshot: SnapshotId, image: Image, voters: Voters, kraft_version: int) -> None:
        self._is_writing = True
        batches = snapshot_batches(
            _values(image),
            snapshot,
            last_timestamp_ms=image.timestamp_ms,
            now_ms=self._clock.wall_ms(),
            kraft_version=kraft_version,
            voters=voters,
        )
        work = partial(self._folder.snapshots.write, snapshot, batches)
        self._workers.submit(work, partial(self._written, snapshot))

    def _written(self, snapshot: SnapshotId, _: object, error: BaseException | None) -> None:
        if self._is_closed:
            return
        if error is not None:
            self._on_failure(error)
            return
        if self._folder.is_changing:
            # A worker may be listing the snapshots: see what it leaves.
            deadline_ns = self._clock.monotonic_ns() + RETRY_INTERVAL_MS * NS_PER_MS
            self._timers.set((self, "written"), deadline_ns, partial(self._written, snapshot, None, None))
            return
        self._is_writing = False
        latest = self._folder.snapshots.latest
        if latest is not None and latest > snapshot:
            # One of the leader was installed meanwhile; the log before it is gone.
            self._folder.snapshots.discard(snapshot)
            return
        logger.info("wrote metadata snapshot %s", snapshot.file_name)
        self._folder.snapshots.written(snapshot)
        self._on_snapshot(snapshot)

    # Deletion

    def _schedule_cleaning(self) -> None:
        deadline_ns = self._clock.monotonic_ns() + CLEAN_INTERVAL_MS * NS_PER_MS
        self._timers.set((self, "clean"), deadline_ns, self._clean)

    def _clean(self) -> None:
        """Deletes old snapshots, oldest first, and with each the log before the next one."""
        self._schedule_cleaning()
        if self._folder.is_changing:
            return
        snapshots = self._folder.snapshots
        sizes = {snapshot: snapshots.size(snapshot) for snapshot in snapshots.ids}
        for snapshot, following in pairwise(list(snapshots.ids)):
            total = self._folder.log.size + sum(sizes.values())
            too_large = 0 <= self._retention_bytes < total
            if not too_large and not self._is_old(snapshot):
                return
            del sizes[snapshot]
            deletions, retired = self._folder.delete_before(following)
            self._on_snapshot(snapshots.ids[-1])
            self._remove_later(
                [deletion.run for deletion in deletions] + [partial(snapshots.remove, retired)]
            )

    def _is_old(self, snapshot: SnapshotId) -> bool:
        if self._retention_ms < 0:
            return False
        return self._clock.wall_ms() - self._folder.snapshots.timestamp_ms(snapshot) > self._retention_ms

    def _remove_later(self, removals: list[Callable[[], None]]) -> None:
        self._deletions += 1
        key = (self, self._deletions)
        deadline_ns = self._clock.monotonic_ns() + self._delete_delay_ns
        self._timers.set(key, deadline_ns, partial(self._remove, removals))

    def _remove(self, removals: list[Callable[[], None]]) -> None:
        for remove in removals:
            remove()

    def close(self) -> None:
        """Files that are marked as deleted are removed at the next start."""
        self._is_closed = True
        for key in ("clean", "written", *range(1, self._deletions + 1)):
            self._timers.cancel((self, key))


def _values(image: Image) -> Iterator[bytes]:
    level = image.metadata_version
    for record in records_of(image):
        yield write_metadata_record(record, record_version(record, level))
