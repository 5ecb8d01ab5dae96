from __future__ import annotations

import errno
import logging
import struct

import pytest

from barnabas.batch.build import build
from barnabas.batch.records import Record
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.disk.memory_disk import MemoryDisk
from barnabas.runtime.random import SeededRandom
from barnabas.runtime.simulated.disk import SimulatedDisk
from barnabas.runtime.simulated.disk_faults import Kind
from barnabas.storage.failure import StorageFailure
from barnabas.storage.log import log_files
from barnabas.storage.log.log_options import LONG_MAX, LogOptions
from barnabas.storage.segment.segment import Segment
from tests.storage.logs import SMALL, T0, HandClock

BASE = 100
FOLDER = "/d"


def segment_on(disk: Disk, options: LogOptions = SMALL, jitter_ms: int = 0) -> Segment:
    disk.make_folder(FOLDER)
    return Segment.create(disk, HandClock(), FOLDER, BASE, options, jitter_ms=jitter_ms)


def reopened(disk: Disk, options: LogOptions = SMALL) -> Segment:
    size = disk.size(f"{FOLDER}/{log_files.of_offset(BASE, log_files.LOG)}")
    return Segment(disk, HandClock(), FOLDER, BASE, options, size=size)


def stored(first: int, count: int = 1, time: int = T0, size: int = 10) -> bytearray:
    return build([Record(first + index, time + index, b"k", b"v" * size) for index in range(count)])


def fill(segment: Segment, batches: int, per_batch: int = 2, step_ms: int = 10) -> None:
    for number in range(batches):
        first = BASE + number * per_batch
        data = stored(first, per_batch, T0 + number * step_ms)
        segment.append(data, first + per_batch - 1)


def index_entries(disk: Disk, kind: str, entry: str) -> list[tuple[int, ...]]:
    return list(struct.iter_unpack(entry, disk.read_bytes(f"{FOLDER}/{log_files.of_offset(BASE, kind)}")))


def test_index_entries_are_sparse_and_name_a_batchs_last_offset() -> None:  # M-E2
    disk = MemoryDisk()
    segment = segment_on(disk, LogOptions(index_interval_bytes=200, segment_index_bytes=1200))
    fill(segment, 10)  # batches of 94 bytes: an entry for every third after the first three
    one = segment.size // 10
    segment.become_inactive()
    assert index_entries(disk, log_files.OFFSET_INDEX, ">ii") == [
        (2 * number + 1, number * one) for number in (3, 6, 9)
    ]
    assert index_entries(disk, log_files.TIME_INDEX, ">qi") == [
        (T0 + 10 * number + 1, 2 * number + 1) for number in (3, 6, 9)
    ]


def test_several_batches_of_one_append_are_indexed_one_by_one() -> None:
    disk = MemoryDisk()
    segment = segment_on(disk)
    data = bytearray().join(stored(BASE + number, time=T0 + number) for number in range(4))
    segment.append(data, BASE + 3)
    segment.become_inactive()
    assert [entry[0] for entry in index_entries(disk, log_files.OFFSET_INDEX, ">ii")] == [1, 2, 3]


def test_the_last_time_entry_is_written_when_the_segment_is_sealed() -> None:
    disk = MemoryDisk()
    segment = segment_on(disk, LogOptions(index_interval_bytes=10_000, segment_index_bytes=1200))
    for first, time in ((BASE, T0), (BASE + 1, T0 + 50), (BASE + 2, T0 + 20)):
        segment.append(stored(first, time=time), first)
    segment.become_inactive()
    assert index_entries(disk, log_files.TIME_INDEX, ">qi") == [(T0 + 50, 1)]
    assert index_entries(disk, log_files.OFFSET_INDEX, ">ii") == []


def test_locate_gives_the_batch_of_an_offset_or_the_next() -> None:
    segment = segment_on(MemoryDisk())
    fill(segment, 30)
    for offset in range(BASE - 5, BASE + 60):
        header = segment.locate(offset)
        assert header is not None
        assert header.base_offset <= max(offset, BASE) <= header.last_offset
    assert segment.locate(BASE + 60) is None
    assert segment.next_offset() == BASE + 60
    assert segment.search.ends_whole()


@pytest.mark.parametrize("kind", [log_files.OFFSET_INDEX, log_files.TIME_INDEX])
@pytest.mark.parametrize("seed", range(12))
def test_a_damaged_index_never_leads_astray(kind: str, seed: int, caplog: pytest.LogCaptureFixture) -> None:
    disk = MemoryDisk()
    segment = segment_on(disk)
    fill(segment, 40)
    segment.close()
    path = f"{FOLDER}/{log_files.of_offset(BASE, kind)}"
    damaged = bytearray(disk.read_bytes(path))
    random = SeededRandom(seed)
    for _ in range(3):
        damaged[random.integer(0, len(damaged) - 1)] ^= 1 << random.integer(0, 7)
    disk.write_atomically(path, bytes(damaged))
    again = reopened(disk)
    for offset in range(BASE, BASE + 80):
        header = again.locate(offset)
        assert header is not None
        assert header.base_offset <= offset <= header.last_offset
    assert again.next_offset() == BASE + 80


def test_an_index_that_is_rebuilt_is_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    disk = MemoryDisk()
    segment = segment_on(disk)
    fill(segment, 40)
    segment.close()
    path = f"{FOLDER}/{log_files.of_offset(BASE, log_files.OFFSET_INDEX)}"
    times = f"{FOLDER}/{log_files.of_offset(BASE, log_files.TIME_INDEX)}"
    whole, whole_times = disk.read_bytes(path), disk.read_bytes(times)
    disk.write_atomically(path, whole[:4] + b"\x7f" + whole[5:])
    again = reopened(disk)
    with caplog.at_level(logging.WARNING):
        assert again.locate(BASE + 3) is not None
    assert "the indexes are rebuilt" in caplog.text
    again.close()
    assert (disk.read_bytes(path), disk.read_bytes(times)) == (whole, whole_times)


def test_times_are_found_and_a_false_time_index_is_noticed() -> None:
    disk = MemoryDisk()
    segment = segment_on(disk)
    fill(segment, 40)
    assert [segment.search.find_time(T0 + 10 * number) for number in (0, 1, 2)] == [0, 0, segment.size // 40]
    segment.close()
    path = f"{FOLDER}/{log_files.of_offset(BASE, log_files.TIME_INDEX)}"
    # Every entry claims the offset of a much later batch: the answer would skip what lies between.
    entries = [struct.pack(">qi", time, 70) for time, _ in struct.iter_unpack(">qi", disk.read_bytes(path))]
    disk.write_atomically(path, b"".join(entries))
    assert reopened(disk).search.find_time(T0 + 20) == segment.size // 40


def test_rolling_by_size_time_index_and_offset() -> None:
    options = LogOptions(
        segment_bytes=1000, segment_ms=60_000, segment_index_bytes=36, index_interval_bytes=0
    )
    segment = segment_on(MemoryDisk(), options)
    assert not segment.should_roll(options, T0, 1000, BASE, T0 + 10**9)  # an empty one never rolls by time
    assert segment.should_roll(options, T0, 1001, BASE, T0)
    segment.append(stored(BASE), BASE)
    size = segment.size
    assert not segment.should_roll(options, T0, 1000 - size, BASE + 1, T0 + 60_000)
    assert segment.should_roll(options, T0, 1001 - size, BASE + 1, T0)
    assert segment.should_roll(options, T0, 10, BASE + 1, T0 + 60_001)  # the records' own times count
    assert not segment.should_roll(options, T0 + 10**9, 10, BASE + 1, T0)
    assert not segment.should_roll(options, T0, 10, BASE + 2**31 - 1, T0)
    assert segment.should_roll(options, T0, 10, BASE + 2**31, T0)
    for first in (BASE + 1, BASE + 2):
        segment.append(stored(first, time=T0 + first), first)
    assert segment.should_roll(options, T0, 10, BASE + 3, T0)  # one slot of three is the closing entry's


def test_jitter_rolls_earlier_and_records_without_time_roll_by_the_clock() -> None:
    options = LogOptions(segment_ms=60_000, segment_index_bytes=1200)
    segment = segment_on(MemoryDisk(), options, jitter_ms=10_000)
    segment.append(stored(BASE), BASE)
    assert segment.should_roll(options, T0, 10, BASE + 1, T0 + 50_001)
    timeless = segment_on(MemoryDisk(), options)
    timeless.append(build([Record(BASE, -1, b"k", b"v")]), BASE)
    assert not timeless.should_roll(options, T0 + 60_000, 10, BASE + 1, -1)
    assert timeless.should_roll(options, T0 + 60_001, 10, BASE + 1, -1)


def test_truncation_forgets_offsets_times_and_aborted_transactions() -> None:
    disk = MemoryDisk()
    segment = segment_on(disk)
    fill(segment, 10)
    segment.add_aborted(1, BASE, BASE + 5, BASE + 6)
    segment.add_aborted(2, BASE + 6, BASE + 15, BASE + 16)
    one = segment.size // 10
    assert segment.truncate_to(BASE + 7) == 7 * one  # in the middle of a batch: the whole batch goes
    assert (segment.size, segment.next_offset()) == (3 * one, BASE + 6)
    assert segment.max_timestamp == T0 + 21
    assert [entry.last_offset for entry in segment.aborted_transactions()] == [BASE + 5]
    assert disk.size(segment.path(log_files.OFFSET_INDEX)) == 1200
    segment.append(stored(BASE + 6, time=T0 + 5), BASE + 6)
    assert segment.max_timestamp == T0 + 21
    left = segment.size
    assert segment.truncate_to(BASE) == left
    assert segment.size == 0
    assert segment.max_timestamp == -1


def test_a_failed_write_leaves_the_segment_as_it_was() -> None:
    disk = SimulatedDisk(SeededRandom(1))
    segment = segment_on(disk)
    fill(segment, 2)
    size = segment.size
    disk.fail(1, code=errno.ENOSPC, kinds=[Kind.WRITE], path="*.log", kept_bytes=40)
    with pytest.raises(OSError):
        segment.append(stored(BASE + 4), BASE + 4)
    assert segment.size == size == disk.size(segment.path(log_files.LOG))
    segment.append(stored(BASE + 4), BASE + 4)
    assert segment.next_offset() == BASE + 5


def test_a_write_that_cannot_be_undone_is_a_failure_of_the_directory() -> None:
    disk = SimulatedDisk(SeededRandom(1))
    segment = segment_on(disk)
    disk.fail(1, code=errno.EIO, kinds=[Kind.WRITE], path="*.log", kept_bytes=5)
    disk.fail(1, code=errno.EIO, kinds=[Kind.TRUNCATE], path="*.log")
    with pytest.raises(StorageFailure, match="undoing a failed write"):
        segment.append(stored(BASE), BASE)


def test_a_preallocated_segment_is_cut_when_sealed() -> None:
    disk = MemoryDisk()
    options = LogOptions(preallocate=True, segment_bytes=5000, segment_index_bytes=1200)
    segment = segment_on(disk, options)
    fill(segment, 3)
    assert disk.size(segment.path(log_files.LOG)) == 5000
    assert segment.next_offset() == BASE + 6
    segment.become_inactive()
    assert disk.size(segment.path(log_files.LOG)) == segment.size


def test_suffixes_and_folders_change_under_a_reader() -> None:
    disk = MemoryDisk()
    segment = segment_on(disk)
    fill(segment, 3)
    data = segment.slice(0, segment.size)
    segment.add_aborted(1, BASE, BASE + 1, BASE + 2)
    segment.change_suffix(log_files.DELETED)
    assert disk.names(FOLDER) == [f"{BASE:020d}{kind}.deleted" for kind in sorted(log_files.SEGMENT_FILES)]
    assert segment.locate(BASE + 1) is not None
    disk.rename(FOLDER, "/e")
    segment.move_to("/e")
    segment.release()
    assert segment.read_at(0, segment.size) == data.read()
    segment.delete()
    assert disk.names("/e") == []


def test_retention_times() -> None:
    disk = MemoryDisk()
    segment = segment_on(disk)
    assert segment.first_batch_timestamp == LONG_MAX
    segment.files.set_modified_ms(12345)
    assert segment.largest_timestamp == 12345
    fill(segment, 2)
    assert segment.largest_timestamp == T0 + 11
    assert segment.first_batch_timestamp == T0 + 1
    segment.close()
    again = reopened(disk)
    assert again.largest_timestamp == T0 + 11
    assert not again.indexes.time_index.is_loaded
    assert again.first_batch_timestamp == T0 + 1
