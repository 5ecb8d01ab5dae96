from __future__ import annotations

import struct

import pytest

from barnabas.batch.view import CorruptBatch
from barnabas.runtime.disk.memory_disk import MemoryDisk
from barnabas.storage.log import log_files
from barnabas.storage.log.retention import too_old
from tests.storage.logs import SMALL, T0, HandClock, offsets, open_log, write
from tests.storage.torn_logs import SHORT, flip, path, read, stopped


def test_a_batch_with_a_bad_crc_is_refused_and_all_others_are_read() -> None:
    disk = MemoryDisk()
    size = stopped(disk)
    flip(disk, path(3), size + 70)
    log = open_log(disk, SHORT)
    assert read(log, 3) == [3]
    with pytest.raises(CorruptBatch, match=rf"{log_files.of_offset(3, '.log')}: .* has a wrong CRC"):
        read(log, 4)
    with pytest.raises(CorruptBatch):
        log.offset_for_time(T0 + 3500)
    assert [read(log, offset) for offset in (0, 5, 6, 9)] == [[0, 1, 2], [5], [6, 7, 8], [9, 10, 11]]
    assert log.offset_for_time(T0 + 4500) == log.offset_for_time(T0 + 5000)


def test_batches_are_checked_once_and_those_written_now_not_at_all() -> None:
    disk = MemoryDisk()
    stopped(disk)
    log = open_log(disk, SHORT)
    first = log.segments[0]
    assert first.valid_from == first.size
    assert read(log, 1, 1) == [1]
    assert first.valid_from == first.size
    assert read(log, 0) == [0, 1, 2]
    assert first.valid_from == 0
    assert log.active.valid_from < log.active.size  # the tail was checked at the start
    log.roll()
    write(log, 1)
    assert log.active.valid_from == 0


def test_a_length_that_reaches_beyond_the_segment_is_no_end_of_the_log() -> None:
    disk = MemoryDisk()
    size = stopped(disk)
    flip(disk, path(0), size + 8, 0x10)
    flip(disk, path(0, log_files.OFFSET_INDEX), 0, 0x7F)  # no entry leads past it
    log = open_log(disk, SHORT)
    with pytest.raises(CorruptBatch, match="is incomplete"):
        read(log, 1)
    assert read(log, 3) == [3, 4, 5]


@pytest.mark.parametrize("position", [0, 5, 8, 16, 23])
def test_a_damaged_header_does_not_cost_the_index(position: int) -> None:
    disk = MemoryDisk()
    size = stopped(disk)
    whole = disk.read_bytes(path(3, log_files.OFFSET_INDEX))
    flip(disk, path(3), size + position, 0x40)
    log = open_log(disk, SHORT)
    with pytest.raises(CorruptBatch):
        read(log, 4)
    assert read(log, 5) == [5]
    log.close()
    assert disk.read_bytes(path(3, log_files.OFFSET_INDEX)) == whole


def test_an_offset_that_leapt_is_not_returned() -> None:
    disk = MemoryDisk()
    size = stopped(disk)
    flip(disk, path(3), size + 7)  # 4 becomes 5, which is the next one's
    log = open_log(disk, SHORT)
    assert read(log, 3) == [3]
    with pytest.raises(CorruptBatch, match="do not fit those of adjacent batches"):
        read(log, 4)
    assert read(log, 6) == [6, 7, 8]


@pytest.mark.parametrize("position", [9, 30, 70])
def test_the_last_batches_are_checked_after_a_clean_stop(position: int) -> None:
    disk = MemoryDisk()
    size = stopped(disk)
    flip(disk, path(9), 2 * size + position)
    log = open_log(disk, SHORT)
    assert log.end_offset == 11
    assert offsets(log) == list(range(11))


@pytest.mark.parametrize("kept_entries", [0, 1])
def test_a_time_index_that_lost_its_end_lets_nothing_expire(kept_entries: int) -> None:
    disk = MemoryDisk()
    stopped(disk)
    times = path(0, log_files.TIME_INDEX)
    whole = disk.read_bytes(times)
    disk.write_atomically(times, whole[: 12 * kept_entries])
    log = open_log(disk, SHORT, clock=HandClock(T0 + 1500 + SHORT.retention_ms))
    log.set_high_watermark(12)
    assert log.segments[0].largest_timestamp == T0 + 2000
    assert too_old(log, log.clock.wall_ms()) == []
    assert log.offset_for_time(T0 + 1500) == log.offset_for_time(T0 + 2000)
    log.close()
    assert disk.read_bytes(times) == whole


def test_indexes_ahead_of_the_batches_do_not_stop_an_append() -> None:
    disk = MemoryDisk()
    size = stopped(disk)
    disk.write_atomically(path(9, log_files.OFFSET_INDEX), struct.pack(">iiii", 1, size, 1 << 20, 2 * size))
    log = open_log(disk, SHORT)
    log.set_options(SMALL)
    write(log, 1, 1, time=T0 + 20_000)
    assert offsets(log) == list(range(14))
    assert [read(log, offset, 1) for offset in (11, 12, 13)] == [[11], [12], [13]]
