"""The dumps of a segment's indexes, with each entry checked against the log."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TextIO

from barnabas.cli.dump_log.faults import Faults
from barnabas.cli.dump_log.file_reader import Entries, LogReader
from barnabas.cli.dump_log.logs import base_offset_of, open_batch
from barnabas.cli.framework.exits import CommandError
from barnabas.runtime.disk.disk import Disk
from barnabas.storage.segment.index import OffsetIndex, TimeIndex
from barnabas.storage.segment.transaction_index import ENTRY as TRANSACTION_ENTRY

NO_TIMESTAMP = -1
NOT_FOUND = -1


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """How to dump an index."""

    sanity_check: bool
    verify_only: bool
    max_message_size: int


def dump_offset_index(disk: Disk, path: str, options: IndexOptions, faults: Faults, out: TextIO) -> None:
    """Print a .index file; every entry must be the last offset of the batch that it points at."""
    base_offset = base_offset_of(_name(path))
    with (
        closing(disk.open(_beside(path, ".log"), writable=False)) as log,
        closing(disk.open(path, writable=False)) as file,
    ):
        entries = Entries(file, OffsetIndex.entry)
        if not entries:
            out.write(f"{path} is empty.\n")
            return
        if options.sanity_check:
            check_offset_index(path, file.size, base_offset, entries)
            out.write(f"{path} passed sanity check.\n")
            return
        reader = LogReader(log, _beside(path, ".log"))
        for relative, position in _used(entries, 0):
            last_offset = last_offset_at(reader, path, position, options.max_message_size)
            if last_offset != base_offset + relative:
                faults.note(faults.index_mismatches, _absolute(path), base_offset + relative, last_offset)
            if not options.verify_only:
                out.write(f"offset: {base_offset + relative} position: {position}\n")
        _check_size("Index", path, file.size, OffsetIndex.entry.size)


def dump_time_index(disk: Disk, path: str, options: IndexOptions, faults: Faults, out: TextIO) -> None:
    """Print a .timeindex file; every entry must have the largest timestamp of the batch that it names."""
    base_offset = base_offset_of(_name(path))
    with (
        closing(disk.open(_beside(path, ".log"), writable=False)) as log,
        closing(disk.open(_beside(path, ".index"), writable=False)) as offset_file,
        closing(disk.open(path, writable=False)) as file,
    ):
        entries = Entries(file, TimeIndex.entry)
        if options.sanity_check:
            check_time_index(path, file.size, base_offset, entries)
            out.write(f"{path} passed sanity check.\n")
            return
        reader = LogReader(log, _beside(path, ".log"))
        positions = Entries(offset_file, OffsetIndex.entry)
        position_count = sum(1 for _ in _used(positions, 0))
        previous = NO_TIMESTAMP
        for timestamp, relative in _used(entries, 1):
            offset = base_offset + relative
            start = _position_before(positions, position_count, relative)
            _check_position(reader, _beside(path, ".index"), start)
            _compare_time(reader, path, start, (timestamp, offset), previous, faults)
            if not options.verify_only:
                out.write(f"timestamp: {timestamp} offset: {offset}\n")
            previous = timestamp
        _check_size("Time index", path, file.size, TimeIndex.entry.size)


def dump_transaction_index(disk: Disk, path: str, out: TextIO) -> None:
    """Print a .txnindex file."""
    base_offset_of(_name(path))
    with closing(disk.open(path, writable=False)) as file:
        for version, producer_id, first, last, stable in Entries(file, TRANSACTION_ENTRY):
            if version > 0:
                raise CommandError(f"{path}: an entry has the unknown version {version}; only 0 is known")
            out.write(
                f"version: {version} producerId: {producer_id} firstOffset: {first} "
                f"lastOffset: {last} lastStableOffset: {stable}\n"
            )
        _check_size("Transaction index", path, file.size, TRANSACTION_ENTRY.size)


def check_offset_index(path: str, size: int, base_offset: int, entries: Entries) -> None:
    """The check by which a broker decides at startup whether to rebuild the index."""
    last = base_offset + entries[len(entries) - 1][0]
    if last < base_offset:
        raise CommandError(
            f"Corrupt index found, index file {_absolute(path)} has non-zero size but the last offset "
            f"is {last} which is less than the base offset {base_offset}"
        )
    _check_size("Index", path, size, OffsetIndex.entry.size)


def check_time_index(path: str, size: int, base_offset: int, entries: Entries) -> None:
    """Like `check_offset_index`, for a time index."""
    if entries:
        (first_time, _), (last_time, relative) = entries[0], entries[len(entries) - 1]
        start = (
            f"Corrupt time index found, time index file ({_absolute(path)}) has non-zero size but the last"
        )
        if last_time < first_time:
            raise CommandError(
                f"{start} timestamp is {last_time} which is less than the first timestamp {first_time}"
            )
        if relative < 0:
            raise CommandError(
                f"{start} offset is {base_offset + relative} which is less than "
                f"the first offset {base_offset}"
            )
    _check_size("Time index", path, size, TimeIndex.entry.size)


def last_offset_at(reader: LogReader, path: str, position: int, max_message_size: int) -> int:
    """The last offset of the batch at a position."""
    _check_position(reader, path, position)
    for _, data in reader.batches(position, position + max_message_size):
        return open_batch(data).last_offset
    raise CommandError(
        f"{path}: an entry points at position {position}, where there is no complete batch of at most "
        f"{max_message_size} bytes (--max-message-size)"
    )


def _check_position(reader: LogReader, path: str, position: int) -> None:
    if not 0 <= position <= reader.size:
        raise CommandError(f"{path}: an entry points at position {position} of a log of {reader.size} bytes")


def _compare_time(
    reader: LogReader, path: str, start: int, entry: tuple[int, int], previous: int, faults: Faults
) -> None:
    timestamp, offset = entry
    for _, data in reader.batches(start):
        batch = open_batch(data)
        if batch.last_offset < offset:
            continue
        if batch.last_offset != offset:
            faults.note(faults.offsets_not_found, _absolute(path), offset, batch.last_offset)
            return
        latest = max((record.timestamp for record in batch.records()), default=NO_TIMESTAMP)
        if latest != timestamp:
            faults.note(faults.time_mismatches, _absolute(path), timestamp, latest)
        if previous >= timestamp:
            faults.note(faults.times_out_of_order, _absolute(path), timestamp, previous)
        return
    faults.note(faults.offsets_not_found, _absolute(path), offset, NOT_FOUND)


def _position_before(positions: Entries, count: int, relative: int) -> int:
    """The position from which to search for an offset."""
    number = bisect_right(range(count), relative, key=lambda number: positions[number][0])
    return positions[number - 1][1] if number else 0


def _used(entries: Entries, relative_field: int) -> Iterator[tuple[int, ...]]:
    """The entries in use: an active index, or one left by a crash, is padded with zeroes.

    Only the first entry can have the relative offset 0, so the next zero ends the index.
    """
    for number, entry in enumerate(entries):
        if number and entry[relative_field] == 0:
            return
        yield entry


def _check_size(kind: str, path: str, size: int, entry_size: int) -> None:
    if size % entry_size:
        raise CommandError(
            f"{kind} file {_absolute(path)} is corrupt, found {size} bytes which is neither positive nor "
            f"a multiple of {entry_size}"
        )


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _beside(path: str, suffix: str) -> str:
    folder, slash, name = path.rpartition("/")
    return folder + slash + name.partition(".")[0] + suffix


def _absolute(path: str) -> str:
    return os.path.join(os.getcwd(), path)
