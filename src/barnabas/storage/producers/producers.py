"""The producer state of one partition: sequence numbers, open transactions, and their snapshots.

Contains the known producers, the transactions that are open or not yet replicated, and the snapshot files.
Validating a batch belongs in producer_append.py, rebuilding the state from the log in producer_replay.py.

The state is that of the log up to `end_offset`.  N.snapshot contains the state before offset N: one is
written when a segment is created, and one at the log end offset when the log is closed.
"""

from __future__ import annotations

import contextlib
import logging
from bisect import bisect_left, insort
from collections.abc import Iterable

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.runtime.disk.disk import Disk
from barnabas.storage.log import log_files
from barnabas.storage.producers.producer_append import (
    AppendOrigin,
    CompletedTransaction,
    ProducerAppend,
    ProducerEntry,
    Verification,
)
from barnabas.storage.producers.producer_snapshot import (
    MAX_SNAPSHOT_BYTES,
    DamagedSnapshot,
    decode_snapshot,
    encode_snapshot,
)

logger = logging.getLogger(__name__)


class Producers:
    """Used only on the log's thread."""

    __slots__ = (
        "_disk",
        "_expiration_ms",
        "_log_name",
        "_ongoing",
        "_ongoing_offsets",
        "_snapshot_offset",
        "_unreplicated",
        "_verifications",
        "end_offset",
        "entries",
        "folder",
        "snapshots",
    )

    def __init__(self, disk: Disk, folder: str, log_name: str, expiration_ms: int) -> None:
        self.folder = folder
        self.entries: dict[int, ProducerEntry] = {}
        self.end_offset = 0
        self.snapshots: list[int] = []  # offsets, ascending
        self._disk = disk
        self._log_name = log_name
        self._expiration_ms = expiration_ms
        self._snapshot_offset = 0
        # First offset -> producer id of ongoing transactions, and the same offsets in order.
        self._ongoing: dict[int, int] = {}
        self._ongoing_offsets: list[int] = []
        # First offset -> marker offset of completed ones whose marker is not yet below the high watermark.
        self._unreplicated: dict[int, int] = {}
        self._verifications: dict[int, Verification] = {}

    # Appending

    def prepare(self, producer_id: int, origin: AppendOrigin) -> ProducerAppend:
        current = self.entries.get(producer_id) or ProducerEntry(producer_id)
        return ProducerAppend(self._log_name, current, origin, self._verifications.get(producer_id))

    def apply(self, append: ProducerAppend) -> None:
        """Apply the changes of a written append."""
        updated = append.updated
        entry = self.entries.get(updated.producer_id)
        if entry is None:
            self.entries[updated.producer_id] = updated
        else:
            entry.update(updated)
        for first_offset in append.started:
            self._begin(first_offset, updated.producer_id)

    def _begin(self, first_offset: int, producer_id: int) -> None:
        if first_offset not in self._ongoing:
            insort(self._ongoing_offsets, first_offset)
        self._ongoing[first_offset] = producer_id

    def complete(self, transaction: CompletedTransaction) -> None:
        """Called when its marker was written; it stays unstable until the marker is replicated."""
        if self._ongoing.pop(transaction.first_offset, None) is None:
            raise ValueError(f"{self._log_name}: {transaction} was completed but never started")
        del self._ongoing_offsets[bisect_left(self._ongoing_offsets, transaction.first_offset)]
        self._unreplicated[transaction.first_offset] = transaction.last_offset

    def forget(self, producer_id: int) -> None:
        """Remove a producer's state, including its open transaction."""
        entry = self.entries.pop(producer_id, None)
        first_offset = None if entry is None else entry.current_transaction_first_offset
        if first_offset is not None and self._ongoing.pop(first_offset, None) is not None:
            del self._ongoing_offsets[bisect_left(self._ongoing_offsets, first_offset)]

    def stable_offset_after(self, transaction: CompletedTransaction) -> int:
        """The last stable offset once this transaction is complete: the start of the next open one."""
        for first_offset in self._ongoing_offsets:
            if self._ongoing[first_offset] != transaction.producer_id:
                return first_offset
        return transaction.last_offset + 1

    @property
    def first_unstable_offset(self) -> int | None:
        """The start of the first transaction that is open, or completed but not replicated."""
        first = self._ongoing_offsets[0] if self._ongoing_offsets else None
        if self._unreplicated:
            unreplicated = min(self._unreplicated)
            first = unreplicated if first is None else min(first, unreplicated)
        return first

    def on_high_watermark(self, high_watermark: int) -> None:
        if self._unreplicated:
            self._unreplicated = {
                first: last for first, last in self._unreplicated.items() if last >= high_watermark
            }

    def has_ongoing_transaction(self, producer_id: int, epoch: int) -> bool:
        entry = self.entries.get(producer_id)
        return (
            entry is not None and entry.current_transaction_first_offset is not None and entry.epoch == epoch
        )

    # Verification by the transaction coordinator (KIP-890)

    def verification(self, producer_id: int) -> Verification | None:
        return self._verifications.get(producer_id)

    @property
    def is_verifying(self) -> bool:
        """Whether any verification is in progress."""
        return bool(self._verifications)

    def start_verification(
        self, producer_id: int, sequence: int, epoch: int, supports_epoch_bump: bool, now_ms: int
    ) -> Verification | None:
        """None if its transaction is known to be open.  Raises if the producer is fenced."""
        known = self.entries.get(producer_id)
        if known is not None and epoch < known.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch of producer {producer_id} is {epoch}, which is smaller than the last seen epoch"
                f" {known.epoch}",
            )
        if self.has_ongoing_transaction(producer_id, epoch):
            return None
        entry = self._verifications.get(producer_id)
        if entry is None:
            entry = Verification(now_ms, sequence, epoch, supports_epoch_bump)
            self._verifications[producer_id] = entry
        entry.saw(sequence, epoch)
        return entry

    def end_verification(self, producer_id: int) -> None:
        """Called when the transaction's first batch is appended: it is known from now on."""
        self._verifications.pop(producer_id, None)

    def marker_appended(self, producer_id: int, marker_epoch: int) -> None:
        """Ends the verification of a transaction that this marker ends.

        From transaction.version 2 on a marker has the epoch after its transaction's.  A producer need not
        wait for markers: the one of its last transaction may arrive while the next one is being verified.
        """
        entry = self._verifications.get(producer_id)
        if entry is not None and not (entry.supports_epoch_bump and marker_epoch <= entry.epoch):
            del self._verifications[producer_id]

    # Expiry

    def remove_expired(self, now_ms: int) -> None:
        """Remove producers without an open transaction that are idle for producer.id.expiration.ms."""
        expired = [
            producer_id for producer_id, entry in self.entries.items() if self._is_expired(entry, now_ms)
        ]
        for producer_id in expired:
            del self.entries[producer_id]
        self._verifications = {
            producer_id: entry
            for producer_id, entry in self._verifications.items()
            if now_ms - entry.created_ms < self._expiration_ms
        }

    def _is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        return (
            entry.current_transaction_first_offset is None
            and now_ms - entry.last_timestamp >= self._expiration_ms
        )

    # Snapshots

    def list_snapshots(self, names: Iterable[str]) -> None:
        """Set the list of snapshots from the file names of the folder."""
        self.snapshots = sorted(
            offset
            for name in names
            if name.endswith(log_files.SNAPSHOT) and (offset := log_files.offset_in(name)) is not None
        )

    def snapshot_path(self, offset: int) -> str:
        return f"{self.folder}/{log_files.of_offset(offset, log_files.SNAPSHOT)}"

    def take_snapshot(self, *, sync: bool) -> str | None:
        """Write a snapshot unless there is one at this offset; returns the path of a new file."""
        if self.end_offset <= self._snapshot_offset:
            return None
        path = self.snapshot_path(self.end_offset)
        data = encode_snapshot(entry.to_snapshot() for entry in self.entries.values())
        self._disk.remove(path)
        try:
            self._write(path, data, sync=sync)
        except OSError:
            with contextlib.suppress(OSError):  # the first error is the one to report
                self._disk.remove(path)
            raise
        if self.end_offset not in self.snapshots:
            insort(self.snapshots, self.end_offset)
        self._snapshot_offset = self.end_offset
        return path

    def _write(self, path: str, data: bytes, *, sync: bool) -> None:
        file = self._disk.open(path, create=True)
        try:
            file.append((data,))
            if sync:
                file.sync()
        finally:
            file.close()

    def remove_stray_snapshots(self, base_offsets: Iterable[int]) -> None:
        """Keep the snapshots at base offsets, and the latest one if it is after the last base offset."""
        kept = set(base_offsets)
        strays = [offset for offset in self.snapshots if offset not in kept]
        if strays and kept and strays[-1] >= max(kept):
            strays.pop()
        for offset in strays if kept else strays[:-1]:
            self.remove_snapshot(offset)

    def remove_snapshot(self, offset: int) -> None:
        if offset in self.snapshots:
            self.snapshots.remove(offset)
            self._disk.remove(self.snapshot_path(offset))

    def mark_snapshot_deleted(self, offset: int) -> str | None:
        """Rename a snapshot `.deleted`; returns its new name, None if there was none."""
        if offset not in self.snapshots:
            return None
        self.snapshots.remove(offset)
        name = log_files.of_offset(offset, log_files.SNAPSHOT, log_files.DELETED)
        try:
            self._disk.rename(self.snapshot_path(offset), f"{self.folder}/{name}")
        except FileNotFoundError:
            return None
        return name

    # Loading and truncation

    @property
    def is_empty(self) -> bool:
        return not self.entries and not self._unreplicated

    def reload(self, log_start_offset: int, end_offset: int, now_ms: int) -> None:
        """Load the newest snapshot at or before end_offset; the caller replays the log from there."""
        for offset in [offset for offset in self.snapshots if not log_start_offset < offset <= end_offset]:
            self.remove_snapshot(offset)
        if end_offset != self.end_offset:
            self._forget()
            self._load(log_start_offset, now_ms)
        else:
            self.on_log_start(log_start_offset)

    def _forget(self) -> None:
        self.entries.clear()
        self._ongoing.clear()
        self._ongoing_offsets.clear()
        self._unreplicated.clear()

    def _load(self, log_start_offset: int, now_ms: int) -> None:
        while self.snapshots:
            offset = self.snapshots[-1]
            path = self.snapshot_path(offset)
            try:
                if self._disk.size(path) > MAX_SNAPSHOT_BYTES:
                    raise DamagedSnapshot(f"it has more than {MAX_SNAPSHOT_BYTES} bytes")
                rows = decode_snapshot(self._disk.read_bytes(path))
            except DamagedSnapshot as error:
                logger.warning("%s: %s; removing it and using an older one or the log itself", path, error)
                self.remove_snapshot(offset)
                continue
            for row in rows:
                self._take_loaded(ProducerEntry.of_snapshot(row), now_ms)
            self._snapshot_offset = self.end_offset = offset
            return
        self._snapshot_offset = self.end_offset = log_start_offset

    def _take_loaded(self, entry: ProducerEntry, now_ms: int) -> None:
        if not self._is_expired(entry, now_ms):
            self.entries[entry.producer_id] = entry
            if entry.current_transaction_first_offset is not None:
                self._begin(entry.current_transaction_first_offset, entry.producer_id)

    def truncate_fully_to(self, offset: int) -> None:
        """Remove all producers: the log restarts at this offset."""
        self._forget()
        for snapshot in list(self.snapshots):
            self.remove_snapshot(snapshot)
        self._snapshot_offset = 0
        self.end_offset = offset

    def on_log_start(self, log_start_offset: int) -> None:
        """Called when records before this offset were deleted."""
        self.on_high_watermark(log_start_offset)
        self.end_offset = max(self.end_offset, log_start_offset)
        self._snapshot_offset = self.snapshots[-1] if self.snapshots else log_start_offset
