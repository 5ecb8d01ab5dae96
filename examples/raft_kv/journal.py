"""What a server must not forget: its vote and its log, in one file that begins with the latest snapshot."""

import threading
import zlib
from collections.abc import Callable
from functools import partial

from barnabas.base.json_form import JsonForm
from barnabas.raft import ElectionState, LoadedQuorum, RaftLog, SnapshotId, VoterHistory, messages, rpc
from barnabas.runtime.disk.folder_disk import FolderDisk
from examples.raft_kv.state_machine import EMPTY, Store

# How entries of the journal and messages between servers are written: a JSON object a line.
MESSAGES = [kind for kind in vars(rpc).values() if isinstance(kind, type)]
FORM = JsonForm([*MESSAGES, ElectionState, messages.TruncateLog])


class Journal:
    """The executor's store.  Each line of its file is a checksum and an entry."""

    def __init__(self, folder: str, voters: VoterHistory) -> None:
        self.election, self.batches = ElectionState(), list[rpc.FetchedBatch]()
        self.snapshot, self.snapshot_id = EMPTY, SnapshotId(0, 0)
        self._voters, self._disk, self._path, self._fetched = voters, FolderDisk(), f"{folder}/journal", b""
        self._changing = threading.Lock()  # The executor syncs the file on another thread.
        self._disk.make_folder(folder)
        self._folder_lock = self._disk.lock(f"{folder}/lock")
        self._file = self._disk.open(self._path, create=True)
        self._disk.sync_folder(folder)
        intact = 0
        for line in self._file.read_at(0, self._file.size).splitlines(keepends=True):
            if not line.endswith(b"\n") or line[:8] != b"%08x" % zlib.crc32(line[9:-1]):
                break  # A crash interrupted its write: nothing that depends on it was sent.
            self._apply(FORM.decode(line[9:-1]))
            intact += len(line)
        self._file.truncate(intact)

    def load(self) -> LoadedQuorum:
        """What the Raft node knows when it starts."""
        log = RaftLog()
        log.reset(self.snapshot_id)
        for batch in self.batches:
            log.append(batch.epoch, batch.end_offset)
        return LoadedQuorum(self.election, self._voters, log)

    def read(self, start: int, end: float = float("inf")) -> list[rpc.FetchedBatch]:
        return [batch for batch in self.batches if start <= batch.base_offset < end]

    def write(self, entry: object) -> Callable[[], object] | None:
        """Write an entry, which `sync` makes durable; on every server a batch is the same line."""
        match entry:
            case messages.StoreElection(state=content) | messages.AppendFetched(batch=content):
                entry = content
            case messages.AppendBatch(offset, epoch, records):  # A leader's first batch has no command.
                commands = records.values if isinstance(records, messages.DataRecords) else ()
                entry = rpc.FetchedBatch(offset, offset + 1, epoch, commands)
            case messages.WriteSnapshotChunk(_, position, data):
                self._fetched = self._fetched[:position] + data
                return None
            case messages.InstallSnapshot():
                return partial(self.compact, self._fetched, [])  # May take long: on another thread.
        self._apply(entry)
        self._file.append([self._line(entry)])
        return None

    def sync(self) -> None:
        with self._changing:
            self._file.sync()

    def compact(self, snapshot: bytes, batches: list[rpc.FetchedBatch]) -> messages.SnapshotInstalled:
        """Begin the file with this snapshot; after a crash there is the old file or the new one."""
        self.batches = batches
        self._apply(snapshot)
        lines = map(self._line, [snapshot, self.election, *self.batches])
        with self._changing:
            self._file.close()
            self._disk.write_atomically(self._path, b"".join(lines))
            self._file = self._disk.open(self._path)
        return messages.SnapshotInstalled(self.snapshot_id, self._voters.voters)

    def _apply(self, entry: object) -> None:
        match entry:
            case ElectionState():
                self.election = entry
            case rpc.FetchedBatch():
                self.batches.append(entry)
            case messages.TruncateLog(end_offset):
                self.batches = self.read(0, end_offset)
            case bytes():
                store = Store(entry)
                self.snapshot, self.snapshot_id = entry, SnapshotId(store.offset, store.epoch)
                self.batches = self.read(store.offset)

    @staticmethod
    def _line(entry: object) -> bytes:
        text = FORM.encode(entry)
        return b"%08x %s\n" % (zlib.crc32(text), text)
