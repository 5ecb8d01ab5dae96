from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right

import pytest

from barnabas.runtime.disk.memory_disk import MemoryDisk
from barnabas.storage.segment.index import (
    BLOCK_ENTRIES,
    OffsetIndex,
    OffsetPosition,
    TimeIndex,
    TimestampOffset,
)

BASE = 1000
MANY = 5 * BLOCK_ENTRIES + 17


def offset_index(disk: MemoryDisk, max_bytes: int = 10 << 20) -> OffsetIndex:
    disk.make_folder("/d")
    index = OffsetIndex(disk, "/d/a.index", BASE, max_bytes)
    index.load()
    return index


def time_index(disk: MemoryDisk, max_bytes: int = 10 << 20) -> TimeIndex:
    disk.make_folder("/d")
    index = TimeIndex(disk, "/d/a.timeindex", BASE, max_bytes)
    index.load()
    return index


def fill(index: OffsetIndex) -> list[OffsetPosition]:
    entries = [OffsetPosition(BASE + 3 * number, 100 * number) for number in range(MANY)]
    for entry in entries:
        index.make_room()
        index.append(*entry)
    return entries


def test_a_new_index_takes_its_full_size_and_is_cut_when_trimmed() -> None:  # M-E1
    disk = MemoryDisk()
    offsets, times = offset_index(disk), time_index(disk)
    assert (disk.size("/d/a.index"), disk.size("/d/a.timeindex")) == (10485760, 10485756)
    offsets.append(BASE + 7, 64)
    times.maybe_append(5, BASE + 7)
    offsets.trim()
    times.trim()
    assert disk.read_bytes("/d/a.index") == struct.pack(">ii", 7, 64)
    assert disk.read_bytes("/d/a.timeindex") == struct.pack(">qi", 5, 7)


def test_lookup_finds_the_last_entry_at_or_before_an_offset_in_tail_and_older_blocks() -> None:  # M-E2
    index = offset_index(MemoryDisk())
    entries = fill(index)
    keys = [entry.offset for entry in entries]
    for offset in [*range(BASE - 2, BASE + 20), *range(BASE, BASE + 3 * MANY + 5, 97), BASE + 10**9]:
        at = bisect_right(keys, offset) - 1
        assert index.lookup(offset) == (entries[at] if at >= 0 else OffsetPosition(BASE, 0))


def test_the_first_entry_at_a_position_or_after() -> None:
    index = offset_index(MemoryDisk())
    entries = fill(index)
    positions = [entry.position for entry in entries]
    for position in [0, 1, 99, 100, 101, *range(5, 100 * MANY + 200, 9973)]:
        at = bisect_left(positions, position)
        assert index.first_at_position(position) == (entries[at] if at < len(entries) else None)


def test_what_is_released_is_found_again_and_only_a_tail_stays_in_memory() -> None:  # M-H3
    disk = MemoryDisk()
    index = offset_index(disk)
    entries = fill(index)
    assert len(index._tail) <= 2 * BLOCK_ENTRIES * index.entry.size
    index.trim()
    index.release()
    assert not index.is_loaded
    again = offset_index(disk)
    assert again.entries == MANY
    assert again.at(0) == entries[0]
    assert again.last_offset == entries[-1].offset
    assert again.lookup(entries[700].offset) == entries[700]


@pytest.mark.parametrize("number", [0, 1, 700, MANY - 2, MANY - 1])
def test_truncation_drops_an_offset_and_all_after_it(number: int) -> None:
    disk = MemoryDisk()
    index = offset_index(disk)
    entries = fill(index)
    index.truncate_to(entries[number].offset)
    assert index.entries == number
    assert index.last_offset == (entries[number - 1].offset if number else BASE)
    index.append(entries[number].offset + 1, 5)
    index.trim()
    assert disk.size("/d/a.index") == (number + 1) * 8
    assert disk.read_bytes("/d/a.index")[-8:] == struct.pack(">ii", 3 * number + 1, 5)


def test_truncation_between_entries_keeps_the_earlier_one() -> None:
    index = offset_index(MemoryDisk())
    fill(index)
    index.truncate_to(BASE + 4)
    assert index.entries == 2
    index.truncate_to(BASE - 1)
    assert index.entries == 0


def test_an_index_refuses_entries_out_of_order_and_beyond_its_size() -> None:
    index = offset_index(MemoryDisk(), max_bytes=17)
    assert index.max_entries == 2
    index.append(BASE, 0)
    with pytest.raises(ValueError, match="does not follow"):
        index.append(BASE, 10)
    index.append(BASE + 1, 10)
    assert index.is_full
    with pytest.raises(ValueError, match="full"):
        index.append(BASE + 2, 20)


def test_a_time_index_takes_only_later_times_and_keeps_a_slot_for_the_closing_entry() -> None:
    index = time_index(MemoryDisk(), max_bytes=36)
    index.maybe_append(10, BASE)
    index.maybe_append(10, BASE + 1)
    assert index.entries == 1
    index.maybe_append(11, BASE + 2)
    assert index.is_full
    with pytest.raises(ValueError, match="full"):
        index.maybe_append(12, BASE + 3)
    index.maybe_append(12, BASE + 3, closing=True)
    assert index.last == TimestampOffset(12, BASE + 3)
    with pytest.raises(ValueError, match="is before the last"):
        index.maybe_append(11, BASE + 4, closing=True)


def test_a_time_index_finds_times_and_is_cut_by_offset() -> None:  # M-E2
    index = time_index(MemoryDisk())
    for number in range(MANY):
        index.make_room()
        index.maybe_append(50 + 2 * number, BASE + number)
    assert index.lookup(49) == TimestampOffset(-1, BASE)
    assert index.lookup(51) == TimestampOffset(50, BASE)
    assert index.lookup(50 + 2 * 1000) == TimestampOffset(2050, BASE + 1000)
    index.truncate_to(BASE + 1000)
    assert index.last == TimestampOffset(2048, BASE + 999)


def test_an_index_that_was_never_trimmed_is_not_sane() -> None:
    disk = MemoryDisk()
    index = offset_index(disk, max_bytes=800)
    index.append(BASE + 1, 10)
    index.append(BASE + 2, 20)
    index.release()
    again = offset_index(disk)
    assert again.entries == 100
    assert not again.is_sane
