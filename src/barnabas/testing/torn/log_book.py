"""A model of one partition, and the comparison of a log with it.

Contains what was appended, what a crash may lose, and the checks.  Operations on the log belong in a
scenario.

A flushed batch survives everything.  A batch that was appended but not flushed survives the end of the
process, and may survive a power loss.  Nothing else may ever be read from the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from barnabas.batch.control import batch_marker
from barnabas.batch.records import Record
from barnabas.batch.view import BatchView, CorruptBatch, batches
from barnabas.storage.log.log import Log

READ_BYTES = 1 << 20


class LogFault(AssertionError):
    """The log lacks records that it must have, or has records that it must not have."""


@dataclass(slots=True)
class Book:
    """One partition: batches by base offset, in order, with the bytes that were written."""

    name: str
    # Whether its topic is or was compacted.
    compacted: bool = False
    # Batches before this offset may have been removed by the cleaner.
    gaps_end: int = 0
    batches: dict[int, bytes] = field(default_factory=dict)
    # Everything below this was flushed.
    safe_end: int = 0
    # The log may start anywhere up to here: records before it were deleted, or are being deleted.
    latest_start: int = 0
    # The batch of an interrupted append: it may be there or not.
    pending: bytes | None = None

    @property
    def end(self) -> int:
        return BatchView(self.batches[last], 0).next_offset if (last := self._last()) is not None else 0

    def _last(self) -> int | None:
        return next(reversed(self.batches), None)

    def appended(self, data: bytes) -> None:
        for batch in batches(data):
            self.batches[batch.base_offset] = batch.copy()

    def cut(self, end: int) -> None:
        """Everything from this offset on was truncated."""
        for base_offset in [
            base for base, data in self.batches.items() if BatchView(data).last_offset >= end
        ]:
            del self.batches[base_offset]
        self.safe_end = min(self.safe_end, end)

    def settle(self, log: Log, survived: dict[int, bytes]) -> None:
        """After a restart was checked: the model becomes what is there."""
        self.batches = survived
        self.pending = None
        self.cut(log.end_offset)


def read_all(log: Log) -> list[BatchView]:
    """Every batch of the log, as an unlimited consumer would read them; each with a valid CRC."""
    batches_read: list[BatchView] = []
    offset = log.log_start_offset
    while offset < log.end_offset:
        result = log.read(offset, READ_BYTES, upper_bound=log.end_offset)
        if result.slice is None:
            break
        for batch in _whole_batches(log, result.slice.read()):
            if not batch.crc_ok():
                raise LogFault(f"{log.name}: the batch at {batch.base_offset} was read with a wrong CRC")
            if batches_read and batch.base_offset <= batches_read[-1].last_offset:
                last_offset = batches_read[-1].last_offset
                raise LogFault(f"{log.name}: offset {batch.base_offset} comes after {last_offset}")
            batches_read.append(batch)
        offset = batches_read[-1].next_offset
    return batches_read


def _whole_batches(log: Log, data: bytes) -> Iterator[BatchView]:
    try:
        yield from batches(data)
    except CorruptBatch as error:
        raise LogFault(f"{log.name}: {error}") from error


def check_log(book: Book, log: Log, *, lost_power: bool) -> None:
    """Compare a log that was just opened with the model; the model is updated to what is there."""
    if log.end_offset < book.safe_end:
        raise LogFault(f"{book.name}: flushed up to {book.safe_end}, but the log ends at {log.end_offset}")
    known = dict(book.batches)
    if book.pending is not None:
        known.update((batch.base_offset, batch.copy()) for batch in batches(book.pending))
    if not lost_power and log.end_offset < book.end:
        raise LogFault(f"{book.name}: appended up to {book.end}, but the log ends at {log.end_offset}")
    if log.log_start_offset > book.latest_start:
        raise LogFault(f"{book.name}: starts at {log.log_start_offset}, after {book.latest_start}")
    found = read_all(log)
    if book.compacted:
        there = {batch.base_offset for batch in found}
        known = {base: data for base, data in known.items() if base < book.safe_end or base in there}
        _check_follows(book, found)
        _check_compacted(book, log, known, found)
    else:
        _check_whole(book, log, known, found)
    book.settle(log, known)
    _check_producers(log, found)
    # Epochs of deleted records are removed; a power loss may bring the records back for a while.
    _check_epochs(log, [batch for batch in found if batch.base_offset >= book.latest_start])
    _check_lookups(log, found)


def _check_whole(book: Book, log: Log, known: dict[int, bytes], found: list[BatchView]) -> None:
    """Every batch from the log's start to its end, byte for byte."""
    expected = [
        data
        for data in known.values()
        if log.log_start_offset <= BatchView(data).last_offset < log.end_offset
    ]
    if [batch.copy() for batch in found] != expected:
        have, want = [b.base_offset for b in found], [BatchView(data).base_offset for data in expected]
        raise LogFault(f"{book.name}: has the batches at {have}, should have those at {want}")
    end = found[-1].next_offset if found else max(log.log_start_offset, log.segments[0].base_offset)
    if log.end_offset != end:
        raise LogFault(f"{book.name}: says it ends at {log.end_offset}, its batches end at {end}")
    # By producer and marker: the start of a transaction may be lost with deleted records.
    aborted = {
        (txn.producer_id, txn.last_offset)
        for txn in log.aborted_transactions(log.log_start_offset, log.end_offset)
        if _has_data(found, *txn[:3])
    }
    expected_aborts = {(txn[0], txn[2]) for txn in _aborted(known, log.end_offset) if _has_data(found, *txn)}
    if aborted != expected_aborts:
        raise LogFault(f"{book.name}: aborted are {sorted(aborted)}, should be {sorted(expected_aborts)}")


def _check_follows(book: Book, found: list[BatchView]) -> None:
    """A power loss leaves no gap in the uncleaned part."""
    for before, batch in pairwise(found):
        if batch.base_offset > max(before.next_offset, book.gaps_end):
            raise LogFault(
                f"{book.name}: after {before.next_offset} the log continues at {batch.base_offset}"
            )


def _check_compacted(book: Book, log: Log, known: dict[int, bytes], found: list[BatchView]) -> None:
    """Every record was appended as it is, and the last committed value of each key is there."""
    appended = {record.offset: record for data in known.values() for record in BatchView(data).records()}
    present = [record for batch in found if not batch.is_control for record in batch.records()]
    for record in present:
        if record != appended.get(record.offset):
            raise LogFault(f"{book.name}: offset {record.offset} reads {record}, never appended as such")
    expected_last = _last_values(_committed(known, log.log_start_offset, log.end_offset))
    there = {record.offset for record in present}
    for key, record in expected_last.items():
        if record.value is not None and record.offset not in there:
            raise LogFault(f"{book.name}: the last value of {key!r}, at {record.offset}, is lost")
    aborted = {
        (txn.producer_id, offset)
        for txn in log.aborted_transactions(log.log_start_offset, log.end_offset)
        for offset in range(txn.first_offset, txn.last_offset + 1)
    }
    visible = [
        record
        for batch in found
        if not batch.is_control
        for record in batch.records()
        if not batch.is_transactional or (batch.producer_id, record.offset) not in aborted
    ]
    # The log may start within a batch.
    first, stop = log.log_start_offset, _first_open(known, log.end_offset)
    decided = [record for record in visible if first <= record.offset < stop]
    values = {key: last.value for key, last in _last_values(decided).items() if last.value is not None}
    expected = {key: last.value for key, last in expected_last.items() if last.value is not None}
    if values != expected:
        raise LogFault(f"{book.name}: a reader of committed records ends with {values}, not {expected}")


def _last_values(records: list[Record]) -> dict[bytes, Record]:
    return {record.key: record for record in records if record.key is not None}


def _in_order(known: dict[int, bytes], end: int) -> Iterator[BatchView]:
    return (view for data in known.values() if (view := BatchView(data)).base_offset < end)


def _transactions(known: dict[int, bytes], end: int) -> Iterator[tuple[int, int, int, bool]]:
    """(producer id, first offset, marker's offset, committed) of every ended transaction."""
    first: dict[int, int] = {}
    for batch in _in_order(known, end):
        marker = batch_marker(batch) if batch.is_control else None
        if marker is not None and batch.producer_id in first:
            yield batch.producer_id, first.pop(batch.producer_id), batch.base_offset, marker.commit
        elif batch.is_transactional and not batch.is_control:
            first.setdefault(batch.producer_id, batch.base_offset)


def _aborted(known: dict[int, bytes], end: int) -> set[tuple[int, int, int]]:
    return {txn[:3] for txn in _transactions(known, end) if not txn[3]}


def _has_data(found: list[BatchView], producer_id: int, first: int, last: int) -> bool:
    """Whether any of a transaction's records remain: if not, it may be forgotten."""
    return any(
        batch.producer_id == producer_id and first <= batch.base_offset <= last and not batch.is_control
        for batch in found
    )


def _first_open(known: dict[int, bytes], end: int) -> int:
    """Start of the first transaction without a marker."""
    ended = {(producer_id, first) for producer_id, first, _, _ in _transactions(known, end)}
    open_since: dict[int, int] = {}
    for batch in _in_order(known, end):
        if batch.is_transactional and not batch.is_control:
            open_since.setdefault(batch.producer_id, batch.base_offset)
            if (batch.producer_id, open_since[batch.producer_id]) not in ended:
                return open_since[batch.producer_id]
        elif batch.is_control:
            open_since.pop(batch.producer_id, None)
    return end


def _committed(known: dict[int, bytes], start: int, end: int) -> list[Record]:
    """Records that a reader of committed records gets from an uncleaned log."""
    aborted = _aborted(known, end)
    stop = _first_open(known, end)
    return [
        record
        for batch in _in_order(known, stop)
        if not batch.is_control
        for record in batch.records()
        if record.offset >= start and not _is_within(batch, record.offset, aborted)
    ]


def _is_within(batch: BatchView, offset: int, aborted: set[tuple[int, int, int]]) -> bool:
    return batch.is_transactional and any(
        batch.producer_id == producer_id and first <= offset <= last for producer_id, first, last in aborted
    )


def _check_producers(log: Log, found: list[BatchView]) -> None:
    """The last sequence of each producer is known, so that a resent batch is recognized."""
    last = {batch.producer_id: batch for batch in found if batch.has_producer_id and not batch.is_control}
    for producer_id, batch in last.items():
        entry = log.producers.entries.get(producer_id)
        have = entry.batches[-1].last_sequence if entry is not None and entry.batches else None
        if have != batch.last_sequence:
            wrote = batch.last_sequence
            raise LogFault(f"{log.name}: producer {producer_id} wrote sequence {wrote}, {have} is remembered")


def _check_epochs(log: Log, found: list[BatchView]) -> None:
    """The leader epochs say where each epoch's batches end."""
    starts: dict[int, int] = {}
    for batch in found:
        starts.setdefault(batch.leader_epoch, batch.base_offset)
    ends = [*list(starts.values())[1:], log.end_offset]
    for epoch, end in zip(starts, ends, strict=False):
        end_of_epoch = log.end_offset_for_epoch(epoch)
        if end_of_epoch.epoch != epoch or not starts[epoch] < end_of_epoch.end_offset <= end:
            raise LogFault(f"{log.name}: epoch {epoch} ends at {end}, the leader epochs say {end_of_epoch}")


def _check_lookups(log: Log, found: list[BatchView]) -> None:
    """Every batch is found by an offset within it, and by its timestamp."""
    every = (record for batch in found for record in batch.records())
    visible = [record for record in every if record.offset >= log.log_start_offset]
    for batch in found:
        if batch.last_offset < log.log_start_offset:
            continue
        result = log.read(max(batch.last_offset, log.log_start_offset), 1, upper_bound=log.end_offset)
        first = next(batches(result.slice.read()), None) if result.slice is not None else None
        if first is None or first.base_offset != batch.base_offset:
            raise LogFault(f"{log.name}: offset {batch.last_offset} is not found in its batch")
        located = log.offset_for_time(batch.max_timestamp)
        later = (record.offset for record in visible if record.timestamp >= batch.max_timestamp)
        have, expected = None if located is None else located.offset, next(later, None)
        if have != expected:
            raise LogFault(f"{log.name}: time {batch.max_timestamp} is found at {have}, not at {expected}")


def state_of(log: Log) -> object:
    """All of a log that a refused append must leave as it was."""
    producers = {
        producer_id: (entry.epoch, [batch.last_sequence for batch in entry.batches])
        for producer_id, entry in log.producers.entries.items()
    }
    aborted = max(segment.transaction_index.last_offset for segment in log.segments)
    return log.end_offset, list(log.epochs.entries), producers, log.first_unstable_offset, aborted
