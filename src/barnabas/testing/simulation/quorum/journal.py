"""The storage of a simulated Raft node: one file of entries, each with a checksum; replayed at a start.

It stands for the metadata folder where only the protocol matters; the folder itself has its own scenario.
The file contains the numbers of the entries, which are immutable and stay in memory: encoding them would take
more time than the protocol.
"""

from __future__ import annotations

import pickle
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from barnabas.batch.control import QuorumMessage
from barnabas.raft.log import RaftLog
from barnabas.raft.messages import (
    AppendBatch,
    AppendFetched,
    ControlRecords,
    InstallSnapshot,
    SnapshotInstalled,
    StoreElection,
    TruncateLog,
    WriteSnapshotChunk,
)
from barnabas.raft.quorum import LoadedQuorum
from barnabas.raft.quorum_state_file import ElectionState, decode_quorum_state, encode_quorum_state
from barnabas.raft.rpc import FetchedBatch
from barnabas.raft.snapshot import SnapshotId
from barnabas.raft.voter_history import NOT_IN_LOG, VoterHistory
from barnabas.raft.voters import Voter, Voters
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.simulated.world import InvariantError

_ENTRY = struct.Struct(">II")
_NUMBER = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The committed values below an offset, and the voters at that point."""

    id: SnapshotId
    values: tuple[bytes, ...]
    voters: tuple[Voter, ...]
    kraft_version: int


@dataclass(slots=True)
class RaftState:
    """What the journal of a node contains."""

    voters: Voters
    kraft_version: int
    election: ElectionState = field(default_factory=ElectionState)
    batches: list[FetchedBatch] = field(default_factory=list)
    snapshot: Snapshot | None = None
    fetching: bytes = b""
    # Called for every batch that is appended, with the one before it, and whether this node leads its epoch.
    on_append: Callable[[FetchedBatch, FetchedBatch | None, bool], None] | None = None

    @property
    def start_offset(self) -> int:
        if self.batches:
            return self.batches[0].base_offset
        return 0 if self.snapshot is None else self.snapshot.id.offset

    @property
    def end_offset(self) -> int:
        return self.batches[-1].end_offset if self.batches else self.start_offset

    def apply(self, entry: object) -> None:
        if isinstance(entry, AppendFetched):
            self._append(entry.batch, is_own=False)
            return
        match entry:
            case StoreElection(state, voter_ids, kraft_version):
                self.election = _as_stored(state, voter_ids, kraft_version)
            case AppendBatch(base_offset, epoch, records):
                control: tuple[QuorumMessage, ...] = ()
                data: object = ()
                if isinstance(records, ControlRecords):
                    control, count = records.messages, len(records.messages)
                else:
                    data, count = records.values, len(records.values)
                batch = FetchedBatch(base_offset, base_offset + count, epoch, data, control)
                self._append(batch, is_own=True)
            case TruncateLog(end_offset):
                while self.batches and self.batches[-1].base_offset >= end_offset:
                    self.batches.pop()
                if self.end_offset > end_offset:
                    raise InvariantError(f"truncation to {end_offset} within {self.batches[-1]}")
            case WriteSnapshotChunk(_, position, data):
                self.fetching = self.fetching[:position] + data
            case InstallSnapshot():
                self.snapshot = pickle.loads(self.fetching)  # its own bytes  # nosec B301
                self.batches.clear()
                self.fetching = b""
            case Snapshot():
                self.snapshot = entry
                while self.batches and self.batches[0].end_offset <= entry.id.offset:
                    del self.batches[0]

    def _append(self, batch: FetchedBatch, *, is_own: bool) -> None:
        batches = self.batches
        previous = batches[-1] if batches else None
        end_offset = self.start_offset if previous is None else previous.end_offset
        if batch.base_offset != end_offset:
            raise InvariantError(f"{batch} does not follow {end_offset}")
        if self.on_append is not None:
            self.on_append(batch, previous, is_own)
        batches.append(batch)

    def load(self) -> LoadedQuorum:
        """What a node knows after a start."""
        snapshot = self.snapshot
        if snapshot is None:
            history = VoterHistory(self.voters, self.kraft_version, NOT_IN_LOG)
        else:
            history = VoterHistory(Voters(snapshot.voters), snapshot.kraft_version, snapshot.id.offset - 1)
        epochs: list[tuple[int, int]] = []
        for batch in self.batches:
            if not epochs or epochs[-1][0] != batch.epoch:
                epochs.append((batch.epoch, batch.base_offset))
            for index, message in enumerate(batch.control):
                history.append(batch.base_offset + index, message)
        log = RaftLog(
            start_offset=self.start_offset,
            end_offset=self.end_offset,
            epochs=epochs,
            snapshot=None if snapshot is None else snapshot.id,
        )
        return LoadedQuorum(self.election, history, log)


@lru_cache(maxsize=1024)
def _as_stored(state: ElectionState, voter_ids: tuple[int, ...], kraft_version: int) -> ElectionState:
    """As the file has it: a static quorum stores no directory id with a vote."""
    return decode_quorum_state(encode_quorum_state(state, voter_ids, kraft_version))


@dataclass(slots=True)
class Entries:
    """All that was ever written to one log directory; the file says what of it is on the disk."""

    name: str
    entries: list[object] = field(default_factory=list)


class Journal:
    """The executor's store.  Its file is never compacted: a simulated node does not live long."""

    def __init__(self, disk: Disk, entries: Entries, state: RaftState) -> None:
        disk.make_folder("/data")
        disk.sync_folder("/")
        self._file = disk.open(f"/data/{entries.name}", create=True)
        disk.sync_folder("/data")
        self._entries = entries.entries
        self.state = state
        self.installed: list[SnapshotInstalled] = []
        self._recover()
        # How far the log reached at the last sync.
        self.durable_end = state.end_offset

    def write(self, entry: object) -> None:
        number = len(self._entries)
        self._entries.append(entry)
        self._file.append([_ENTRY.pack(zlib.crc32(_NUMBER.pack(number)), number)])
        self.state.apply(entry)
        if isinstance(entry, InstallSnapshot):
            snapshot = self.state.snapshot
            assert snapshot is not None, "it was just installed"
            self.installed.append(
                SnapshotInstalled(snapshot.id, Voters(snapshot.voters), snapshot.kraft_version)
            )

    def sync(self) -> None:
        end_offset = self.state.end_offset
        self._file.sync()
        self.durable_end = end_offset

    def _recover(self) -> None:
        """Replay the entries up to the first damaged one; the rest was never synced."""
        data = self._file.read_at(0, self._file.size)
        position = 0
        while position + _ENTRY.size <= len(data):
            checksum, number = _ENTRY.unpack_from(data, position)
            if zlib.crc32(_NUMBER.pack(number)) != checksum:
                break
            self.state.apply(self._entries[number])
            position += _ENTRY.size
        self._file.truncate(position)
        self._file.sync()
