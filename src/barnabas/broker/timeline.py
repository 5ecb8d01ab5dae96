"""This node's timeline: the last events in memory, and in a file that survives the node.

What an event is belongs in `metadata/timeline.py`.  Events are written by a worker, never on the loop; a
failing disk costs events, not the node.  Both the ring and the files are bounded: a full file becomes the
older one, which replaces the one before.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace

from barnabas.metadata.image import Image
from barnabas.metadata.loader import MetadataBatch
from barnabas.metadata.timeline import Event, HasExpired, Kind, read_event, record_events
from barnabas.raft.quorum_state_file import NOBODY
from barnabas.raft.roles import Candidate, Role
from barnabas.runtime.clock import Clock
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.loop.executor import WorkerPool
from barnabas.runtime.loop.promise import Promise

logger = logging.getLogger(__name__)

TIMELINE_FILE = "timeline.jsonl"
OLDER_FILE = "timeline.older.jsonl"
MAX_EVENTS = 1_000
MAX_FILE_BYTES = 256 * 1024
# Lines that wait for a worker; beyond that the oldest are dropped.
MAX_UNWRITTEN = 1_000


class Timeline:
    """The timeline of one node."""

    def __init__(self, node_id: int, disk: Disk, clock: Clock, workers: WorkerPool) -> None:
        self.events: deque[Event] = deque(maxlen=MAX_EVENTS)
        # Committed records up to this offset are in the timeline, or are older than it.
        self.recorded_offset = -1
        # The node's process is about to stop.
        self.is_stopping = False
        self._node_id = node_id
        self._disk = disk
        self._clock = clock
        self._workers = workers
        self._folder: str | None = None
        self._sequence = 0
        self._unwritten: deque[bytes] = deque(maxlen=MAX_UNWRITTEN)
        self._is_writing = False
        self._has_failed = False
        self._closed: Promise[None] | None = None
        # The last leader of the quorum that was reported, and its epoch.
        self._leader_id, self._epoch = NOBODY, -1

    def open(self, folder: str, log_end_offset: int) -> None:
        """Continues the file in this folder; without one, the timeline begins after this offset."""
        self._folder = folder
        try:
            events = list(read_timeline(self._disk, folder))
        except OSError as error:
            logger.warning("the timeline in %s cannot be read: %s", folder, error)
            events = []
        offsets = [event.offset for event in events if event.offset is not None]
        self.recorded_offset = max(offsets, default=log_end_offset - 1)

    def skip_to(self, offset: int) -> None:
        """The records before this offset are known from a snapshot only."""
        self.recorded_offset = max(self.recorded_offset, offset - 1)

    def add(
        self, kind: Kind, subject: str, detail: str = "", cause: str = "", *, epoch: int | None = None
    ) -> None:
        """Adds an event of this node that happens now."""
        event = Event(self._clock.wall_ms(), kind, subject, detail, cause, epoch, is_first_hand=bool(cause))
        self._append(event)

    def _append(self, event: Event) -> None:
        self._sequence += 1
        event = replace(event, nodes=(self._node_id,), sequence=self._sequence)
        self.events.append(event)
        if self._folder is not None and not self._has_failed:
            self._unwritten.append(event.line())
            self._write_next()

    # Sources

    def committed(
        self,
        before: Image,
        batch: MetadataBatch,
        has_expired: HasExpired | None = None,
        *,
        on_zookeeper: bool = False,
    ) -> None:
        """Adds the events of a committed batch; see `metadata.timeline.record_events`."""
        for event in record_events(before, batch, has_expired, on_zookeeper=on_zookeeper):
            self._append(event)
        self.recorded_offset = batch.last_offset

    def leader_changed(self, epoch: int, leader_id: int, role: Role) -> None:
        """The quorum has another leader, or none, as far as this node knows."""
        known, known_epoch = self._leader_id, self._epoch
        self._leader_id, self._epoch = leader_id, epoch
        if known == self._node_id:
            cause = "it stops" if self.is_stopping else "no majority of the voters fetches from it"
            if epoch > known_epoch:
                cause = f"a voter stands for election in epoch {epoch}"
            self.add(Kind.LEADER_RESIGNED, f"controller {known}", "", cause, epoch=known_epoch)
        if leader_id == NOBODY:
            if isinstance(role, Candidate):
                cause = "no leader is known"
                if known != NOBODY:
                    cause = f"leader {known} does not respond, or has resigned"
                self.add(Kind.ELECTION_STARTED, f"controller {self._node_id}", "", cause, epoch=epoch)
            return
        # The others only hear of it: the cause is known to the leader.
        cause = "a majority of the voters voted for it" if leader_id == self._node_id else ""
        self.add(Kind.LEADER_ELECTED, f"controller {leader_id}", f"epoch {epoch}", cause, epoch=epoch)

    # Writing

    def _write_next(self) -> None:
        if self._is_writing or not self._unwritten or self._folder is None:
            self._report_closed()
            return
        self._is_writing = True
        lines, folder = b"".join(self._unwritten), self._folder
        self._unwritten.clear()
        self._workers.submit(lambda: _append_lines(self._disk, folder, lines), self._written)

    def _written(self, _: object, error: BaseException | None) -> None:
        self._is_writing = False
        if error is not None:
            self._has_failed = True
            self._unwritten.clear()
            logger.warning("the timeline is no longer written to %s: %s", self._folder, error)
        self._write_next()

    def close(self) -> Promise[None]:
        """Completed when all events are written."""
        closed: Promise[None] = Promise()
        self._closed = closed
        self._write_next()
        return closed

    def _report_closed(self) -> None:
        if self._closed is not None and not self._is_writing and not self._closed.done:
            self._closed.set(None)


def _append_lines(disk: Disk, folder: str, lines: bytes) -> None:
    """Called on a worker; there is one such call at a time."""
    path = f"{folder}/{TIMELINE_FILE}"
    if disk.exists(path) and disk.size(path) + len(lines) > MAX_FILE_BYTES:
        disk.rename(path, f"{folder}/{OLDER_FILE}")
    file = disk.open(path, create=True)
    try:
        if file.size and file.read_at(file.size - 1, 1) != b"\n":
            lines = b"\n" + lines  # A crash has torn the last line.
        file.append([lines])
    finally:
        file.close()


def read_timeline(disk: Disk, folder: str) -> Iterator[Event]:
    """The events in the files of a folder, also of one whose node runs; none without files."""
    for name in (OLDER_FILE, TIMELINE_FILE):
        path = f"{folder}/{name}"
        if disk.exists(path):
            yield from _events(disk.read_bytes(path).splitlines())


def _events(lines: Iterable[bytes]) -> Iterator[Event]:
    for line in lines:
        event = read_event(line)
        if event is not None:
            yield event
